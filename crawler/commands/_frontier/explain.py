"""The verb explain: what a URL's score is made of, and what would keep it out of a crawl."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from crawler.commands._frontier.connect import Asked, asks, common, number
from crawler.commands._output import print_json
from crawler.commands._subcommands import Verb
from crawler.config.values import fill, url_rules, value
from crawler.discovery.follow import scorer
from crawler.discovery.priority import Facts, HostFacts, clamp, front_queue
from crawler.discovery.scope import skipped_extensions
from crawler.discovery.traps import PageLinks, TrapRules, Traps
from crawler.errors import ConfigurationError
from crawler.scheduling import options
from crawler.scheduling.options import CrawlOptions
from crawler.urls import Rejected, Spelling, Urls, written_url

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# What the crawl's filter says, for people.
_REFUSALS = {
    "depth": "it is deeper than max_depth",
    "too_long": "it is longer than max_url_length",
    "extension": "its ending is one of SKIPPED_EXTENSIONS",
    "excluded": "its domain is one of excluded_domains",
    "scope": "it is outside of scope and allowed_domains",
    "include": "it has none of the patterns of include",
    "exclude": "it has a pattern of exclude",
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    known = HostFacts()
    common(parser)
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--page", default="", help="the page that links to it (one of its host)")
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
    parser.set_defaults(crawl=None)


def _explain(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    """By the settings alone; with --crawl by what that crawl follows as well."""
    if arguments.crawl is None:
        _tell(settings, arguments, None)
        return

    async def within(asked: Asked) -> None:
        _tell(settings, arguments, await options.of_crawl(asked.control))

    asks(within)(settings, arguments)


def _tell(
    settings: BaseSettings, arguments: argparse.Namespace, crawl: CrawlOptions | None
) -> None:
    spelling = _spelling(settings, arguments.url)
    url, written = spelling[0], written_url(*spelling)
    page = _spelling(settings, arguments.page)[0] if arguments.page else url
    depth = arguments.depth
    host = HostFacts(arguments.host_urls, arguments.inbound)
    reasons = scorer(settings).explain(url, depth, host, Facts(fresh=arguments.fresh))
    points = clamp(sum(part for _, part in reasons))
    queue = front_queue(points, value(settings, "FRONTIER_THRESHOLDS"))
    share = None if crawl is None else crawl.weights[queue - 1] / sum(crawl.weights)
    refused = _refused(settings, crawl or CrawlOptions(), url, page=page, depth=depth)
    if arguments.json:
        parts = [{"reason": reason, "points": part} for reason, part in reasons]
        found = {"url": url, "written": written, "score": points, "queue": queue}
        found["share_of_turns"] = share
        print_json({**found, "parts": parts, "refused": refused})
        return
    print(url)
    if written != url:
        print(f"Judged by robots.txt and fetched as {written}")
    for reason, part in reasons:
        print(f"{part:+6}  {reason}")
    turns = "" if share is None else f", which has {share:.0%} of the turns"
    print(f"{points:6}  score, from 0 to 100: front queue {queue}{turns}")
    if refused:
        print(f"It would not be followed: {refused}")


def _spelling(settings: BaseSettings, text: str) -> Spelling:
    found = Urls(url_rules(settings)).spelling(text)
    if isinstance(found, Rejected):
        raise ConfigurationError(
            f"{text!r} is not crawled ({found.reason}); write a URL as https://example.com/page."
        )
    return found


def _refused(
    settings: BaseSettings, crawl: CrawlOptions, url: str, *, page: str, depth: int
) -> str:
    """What keeps a URL out; empty for nothing."""
    if not crawl.follow and depth:
        return "the crawl follows no links (follow=no)"
    scope = crawl.url_filter(skipped_extensions(settings))
    reason = scope.refuses(url, page_url=page, depth=depth)
    if reason is not None:
        return _REFUSALS[reason]
    traps = Traps(fill(TrapRules, settings))
    trap = traps.refuses(url, PageLinks(page), today=datetime.now(UTC).date())
    return f"it looks like a trap ({trap})" if trap is not None else ""


VERBS = {
    "explain": Verb(
        "show what a URL's score is made of, and what would keep it out",
        "URL [--crawl NAME] [--page URL] [--depth N] [--host-urls N] [--inbound N] [--fresh]",
        _arguments,
        _explain,
    ),
}
