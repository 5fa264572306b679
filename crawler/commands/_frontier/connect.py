"""Reach a crawl from the command line: a running one or one that has ended, never a new one."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from crawler.config.values import url_rules
from crawler.discovery import seeds
from crawler.errors import ConfigurationError, NotFound
from crawler.frontier import CrawlControl
from crawler.scheduling import connect
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import Client
from crawler.servers.redis.settings import redis_url
from crawler.storage.spill import Spill
from crawler.urls import Rejected, Urls, canonical, host_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_DEFAULT_CRAWL = "web"


@dataclass(frozen=True, slots=True)
class Asked:
    """A crawl, and what the user wants of it."""

    crawl: str
    control: CrawlControl
    arguments: argparse.Namespace
    # Connects to MongoDB.
    spill: Callable[[], Awaitable[Spill | None]]

    def url(self) -> str:
        """The URL among the arguments, as the crawl spells it."""
        found = self.control.urls.canonical(self.arguments.url)
        if isinstance(found, Rejected):
            raise ConfigurationError(f"{self.arguments.url!r}: {seeds.why(found.reason)}.")
        return found


Work = Callable[[Asked], Awaitable[None]]
Run = Callable[["BaseSettings", argparse.Namespace], None]


def asks(work: Work) -> Run:
    """A verb that does something with a crawl, on the servers of the settings."""

    def run(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        check_folder(settings)
        asyncio.run(_ask(settings, arguments, work))

    return run


def asks_redis(work: Callable[[Client, argparse.Namespace], Awaitable[None]]) -> Run:
    """A verb that is about no single crawl."""

    def run(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        check_folder(settings)
        asyncio.run(_ask_redis(settings, arguments, work))

    return run


async def _ask_redis(
    settings: BaseSettings,
    arguments: argparse.Namespace,
    work: Callable[[Client, argparse.Namespace], Awaitable[None]],
) -> None:
    servers = Servers.from_settings(settings)
    try:
        await work(await servers.redis(), arguments)
    finally:
        await servers.close()


async def _ask(settings: BaseSettings, arguments: argparse.Namespace, work: Work) -> None:
    crawl, urls = crawl_of(settings, arguments.crawl), Urls(url_rules(settings))
    servers = Servers.from_settings(settings)
    try:
        try:
            control = await CrawlControl.of(await servers.redis(), crawl, urls)
        except NotFound as error:
            raise NotFound(f"{error} `scrapy frontier crawls` lists those that are.") from error
        spill = partial(connect.spill_of, crawl, servers, settings)
        await work(Asked(crawl, control, arguments, spill))
    finally:
        await servers.close()


def crawl_of(settings: BaseSettings, named: str) -> str:
    """The name of the crawl that is meant."""
    return str(named or settings["CRAWL"] or _DEFAULT_CRAWL)


def check_folder(settings: BaseSettings) -> None:
    """Look for no crawl where none ever was: an embedded server would make an empty one."""
    folder = Path(settings["CRAWL_DIR"])
    if not redis_url(settings) and not (folder / "redis").is_dir():
        raise NotFound(
            f"There is no crawl in {str(folder)!r}: crawl first, or name the crawl's folder by "
            "-s CRAWL_DIR=… or its server by -s REDIS_URL=…"
        )


# --- arguments ------------------------------------------------------------------------------------


def common(parser: argparse.ArgumentParser) -> None:
    """What every verb about a crawl takes."""
    parser.add_argument("--crawl", default="", help="name of the crawl (CRAWL, or web)")
    as_json(parser)


def as_json(parser: argparse.ArgumentParser) -> None:
    """What every verb takes."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def number(text: str) -> int:
    """A whole number of 0 or more."""
    found = int(text) if text.isascii() and text.isdigit() else -1
    if found < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return found


def host_name(text: str) -> str:
    """A host as URLs have it, with its port."""
    url = canonical(f"http://{text}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is no host; write it as www.example.com")
    return host_of(url)
