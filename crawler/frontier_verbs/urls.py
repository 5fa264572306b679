"""Verbs about URLs: url, explain, add, forget."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crawler import assembly
from crawler.admin.seeding import add_seeds
from crawler.errors import ConfigurationError, NotFound
from crawler.frontier_verbs.asking import Asked, Run, asks, common, number
from crawler.frontier_verbs.output import moment, print_fields, print_json
from crawler.policy.priority import Facts, Host, clamp, front_queue
from crawler.policy.traps import PageLinks, Traps
from crawler.policy.url_filter import extension
from crawler.urls import Rejected, Urls
from crawler.verbs import Verb

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def _url_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("url", metavar="URL")


async def _url(asked: Asked) -> None:
    url = asked.url()
    found = await asked.steering.status(url)
    entry = found.entry
    facts = {
        "url": url,
        "state": found.state,
        "owner": found.owner or None,
        "reason": found.reason or None,
        "at": moment(found.at_ms),
        "depth": None if entry is None else entry.depth,
        "queue": None if entry is None else entry.queue,
        "attempts": None if entry is None else entry.attempts,
        "history": [] if entry is None else entry.tail.get("history", []),
    }
    if asked.arguments.json:
        print_json(facts)
    else:
        print_fields({name: value for name, value in facts.items() if value not in (None, [])})
    if found.state == "unseen":
        raise NotFound(f"The crawl {asked.crawl!r} has not seen {url}.")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("url", metavar="URL", nargs="+")


async def _add(asked: Asked) -> None:
    found = await add_seeds(asked.steering, asked.urls, asked.arguments.url)
    if asked.arguments.json:
        names = ("given", "url", "state", "reason", "detail")
        print_json([{name: getattr(seed, name) for name in names} for seed in found])
    else:
        for seed in found:
            why = f": {seed.detail}" if seed.detail else ""
            print(f"{seed.state:8}  {seed.url or seed.given}{why}")
    if any(seed.state == "rejected" for seed in found):
        raise ConfigurationError("Some of the URLs were rejected.")


async def _forget(asked: Asked) -> None:
    url = asked.url()
    if not await asked.steering.forget(url):
        raise NotFound(f"The crawl {asked.crawl!r} does not know {url}.")
    if asked.arguments.json:
        print_json({"url": url, "forgotten": True})
    else:
        print(f"{url} is forgotten: it is crawled again when it is added or found again.")


# --- explain --------------------------------------------------------------------------------------


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    known = Host()
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--depth", type=number, default=1, help="links from a seed (1)")
    parser.add_argument(
        "--host-urls", type=number, default=known.urls, help="URLs of its host found so far"
    )
    parser.add_argument(
        "--inbound", type=number, default=0, help="links to its host from other domains (0)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="its sitemap says: changed within a day"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _explain(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    url = Urls(assembly.url_rules(settings)).canonical(arguments.url)
    if isinstance(url, Rejected):
        raise ConfigurationError(
            f"{arguments.url!r} is not crawled ({url.reason}); write a URL as "
            "https://example.com/page."
        )
    depth = arguments.depth
    host = Host(arguments.host_urls, arguments.inbound)
    reasons = assembly.scorer(settings).explain(url, depth, host, Facts(fresh=arguments.fresh))
    points = clamp(sum(part for _, part in reasons))
    queue = front_queue(points, assembly.numbers(settings, "FRONTIER_THRESHOLDS"))
    refused = _refused(settings, url)
    if arguments.json:
        parts = [{"reason": reason, "points": part} for reason, part in reasons]
        print_json(
            {"url": url, "score": points, "queue": queue, "parts": parts, "refused": refused}
        )
        return
    print(url)
    for reason, part in reasons:
        print(f"{part:+6}  {reason}")
    print(f"{points:6}  score, from 0 to 100: front queue {queue}")
    if refused:
        print(f"It would not be followed: {refused}")


def _refused(settings: BaseSettings, url: str) -> str:
    """What keeps a URL out of every crawl with these settings."""
    if extension(url) in assembly.skipped_extensions(settings):
        return "its ending is one of SKIPPED_EXTENSIONS"
    traps = Traps(assembly.trap_rules(settings))
    reason = traps.refuses(url, PageLinks(url), today=datetime.now(UTC).date())
    return f"it looks like a trap ({reason})" if reason is not None else ""


VERBS: dict[str, Verb[Run]] = {
    "url": Verb("where a URL is, and what happened to it", "URL", _url_arguments, asks(_url)),
    "explain": Verb(
        "show what a URL's score is made of",
        "URL [--depth N] [--host-urls N] [--inbound N] [--fresh]",
        _explain_arguments,
        _explain,
    ),
    "add": Verb("add seeds", "URL …", _add_arguments, asks(_add)),
    "forget": Verb("let a URL be crawled again", "URL", _url_arguments, asks(_forget)),
}
