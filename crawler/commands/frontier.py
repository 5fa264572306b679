"""`scrapy frontier`: explain a score, list dead letters and give them another life.

Exit 0: done; 2: a mistake.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.settings import BaseSettings

from crawler import assembly, setting_values
from crawler.errors import CrawlerError
from crawler.extensions.servers import Servers
from crawler.frontier import Steering
from crawler.policy.priority import Facts, Host, clamp, front_queue
from crawler.policy.traps import PageLinks, Traps
from crawler.policy.url_filter import extension
from crawler.urls import Rejected, Urls
from crawler.verbs import Verb, Verbs

_USAGE = 2


class Command(ScrapyCommand):
    """Each verb is a function; those that need no servers start none."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return VERBS.syntax

    def short_desc(self) -> str:
        return "Ask about a crawl's frontier, and requeue dead letters"

    def long_desc(self) -> str:
        return f"Ask about a crawl's frontier. {VERBS.summary}."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        run, arguments = VERBS.parse(args)
        assert self.settings is not None
        try:
            setting_values.check(self.settings)
            run(self.settings, arguments)
        except CrawlerError as error:
            print(f"scrapy frontier: {error}", file=sys.stderr)
            self.exitcode = _USAGE


# --- explain --------------------------------------------------------------------------------------


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return number


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    known = Host()
    parser.add_argument("url", metavar="URL")
    parser.add_argument("--depth", type=_number, default=1, help="links from a seed (1)")
    parser.add_argument(
        "--host-urls", type=_number, default=known.urls, help="URLs of its host found so far"
    )
    parser.add_argument(
        "--inbound", type=_number, default=0, help="links to its host from other domains (0)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="its sitemap says: changed within a day"
    )


def _explain(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    url = Urls(assembly.url_rules(settings)).canonical(arguments.url)
    if isinstance(url, Rejected):
        raise CrawlerError(
            f"{arguments.url!r} is not crawled ({url.reason}); write a URL as "
            "https://example.com/page."
        )
    depth = arguments.depth
    host = Host(arguments.host_urls, arguments.inbound)
    reasons = assembly.scorer(settings).explain(url, depth, host, Facts(fresh=arguments.fresh))
    points = clamp(sum(part for _, part in reasons))
    queue = front_queue(points, assembly.numbers(settings, "FRONTIER_THRESHOLDS"))
    print(url)
    for reason, part in reasons:
        print(f"{part:+6}  {reason}")
    print(f"{points:6}  score, from 0 to 100: front queue {queue}")
    refused = _refused(settings, url)
    if refused:
        print(f"It would not be followed: {refused}")


def _refused(settings: BaseSettings, url: str) -> str:
    """What keeps a URL out of every crawl with these settings."""
    if extension(url) in assembly.skipped_extensions(settings):
        return "its ending is one of SKIPPED_EXTENSIONS"
    traps = Traps(assembly.trap_rules(settings))
    reason = traps.refuses(url, PageLinks(url), today=datetime.now(UTC).date())
    return f"it looks like a trap ({reason})" if reason is not None else ""


# --- dead letters ---------------------------------------------------------------------------------


def _dead_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--crawl", default="", help="name of the crawl (CRAWL, or web)")
    parser.add_argument("--reason", default="", help="only those with this reason")
    parser.add_argument("--host", default="", help="only those of this host")


def _dead(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    async def show(steering: Steering) -> None:
        for letter in await steering.dead(reason=arguments.reason, host=arguments.host, limit=1000):
            at = datetime.fromtimestamp(letter.at_ms / 1000, UTC)
            url = letter.entry.url if letter.entry is not None else repr(letter.data[:80])
            print(f"{at:%Y-%m-%d %H:%M:%S}  {letter.reason:20}  {url}")

    _steer(settings, arguments, show)


def _requeue(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    async def requeue(steering: Steering) -> None:
        number = await steering.requeue(reason=arguments.reason, host=arguments.host)
        print(f"{number} of the dead wait again")

    _steer(settings, arguments, requeue)


def _steer(
    settings: BaseSettings,
    arguments: argparse.Namespace,
    work: Callable[[Steering], Awaitable[None]],
) -> None:
    """Do something to a crawl, on the servers of the settings."""

    async def run() -> None:
        servers = Servers.from_settings(settings)
        try:
            crawl = arguments.crawl or settings["CRAWL"] or "web"
            await work(await Steering.of(await servers.redis(), crawl))
        finally:
            await servers.close()

    check_folder(settings)
    asyncio.run(run())


def check_folder(settings: BaseSettings) -> None:
    """Look for no crawl where none ever was: an embedded server would make an empty one."""
    if not settings["REDIS_URL"] and not Path(settings["CRAWL_DIR"]).is_dir():
        raise CrawlerError(
            f"There is no folder {settings['CRAWL_DIR']!r}: crawl first, or name the crawl's "
            "folder by -s CRAWL_DIR=… or its server by -s REDIS_URL=…"
        )


VERBS = Verbs(
    "frontier",
    {
        "dead": Verb(
            "list the newest dead letters",
            "[--crawl NAME] [--reason REASON] [--host HOST]",
            _dead_arguments,
            _dead,
        ),
        "requeue": Verb(
            "let dead letters be crawled once more",
            "[--crawl NAME] [--reason REASON] [--host HOST]",
            _dead_arguments,
            _requeue,
        ),
        "explain": Verb(
            "show what a URL's score is made of",
            "URL [--depth N] [--host-urls N] [--inbound N] [--fresh]",
            _explain_arguments,
            _explain,
        ),
    },
)
