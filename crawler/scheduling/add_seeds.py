"""Add seeds to a crawl that may be running, and say what became of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from crawler.discovery import seeds
from crawler.discovery.scope import Scope
from crawler.frontier import CrawlControl, Entry
from crawler.scheduling import options
from crawler.urls import Rejected, Urls

# URLs that are judged in one go.
_BATCH = 200

State = Literal["added", "known", "rejected"]


@dataclass(frozen=True, slots=True)
class Seed:
    """What became of one URL."""

    # As it was given, and as the crawl spells it (empty if it is none).
    given: str
    url: str
    state: State
    # Why it was rejected: a word for programs and a sentence for people.
    reason: str = ""
    detail: str = ""


async def add_seeds(control: CrawlControl, given: Sequence[str]) -> list[Seed]:
    """Add the URLs that the crawl may have; the answers are in the order of the questions."""
    current = await options.of_crawl(control)
    scope = current.url_filter()
    judged: list[Entry | Rejected] = []
    for start in range(0, len(given), _BATCH):
        judged += [_judge(text, control.urls, scope) for text in given[start : start + _BATCH]]
        # Thousands take a while, in which the crawl of this process would stand still.
        await asyncio.sleep(0)
    entries = [found for found in judged if isinstance(found, Entry)]
    domains = options.new_seed_domains(current, (entry.url for entry in entries))
    if domains:
        await control.add_seed_domains(domains)
    added = await control.add(entries)
    states = iter(added.is_new(index) for index in range(len(entries)))
    return [
        Seed(text, found.url, "added" if next(states) else "known")
        if isinstance(found, Entry)
        else Seed(text, "", "rejected", found.reason, seeds.why(found.reason))
        for text, found in zip(given, judged, strict=True)
    ]


def _judge(text: str, urls: Urls, scope: Scope) -> Entry | Rejected:
    found = seeds.parse_seed(text, urls)
    if isinstance(found, Rejected):
        return found
    if scope.excludes(found.url):
        return Rejected("excluded")
    if scope.is_too_long(found.url):
        return Rejected("too_long")
    return found
