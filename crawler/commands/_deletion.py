"""Delete a crawl from Redis: for `scrapy frontier delete`, and for starts with --fresh."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from crawler.commands._output import confirmed
from crawler.errors import ConfigurationError, NotFound
from crawler.frontier import CrawlControl, meta
from crawler.scheduling import connect

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers
    from crawler.servers.redis.connection import Client

PROGRESS_KEYS = 10_000


def add_fresh_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that can start a crawl anew."""
    parser.add_argument(
        "--fresh", action="store_true", help="delete what the crawl has in Redis, and start anew"
    )
    parser.add_argument("--yes", action="store_true", help="with --fresh: do not ask")


async def count_urls(redis: Client, crawl: str, spider: str) -> int | None:
    """Count the URLs of a crawl; None if it does not exist, an error if another spider has it."""
    try:
        found = await meta.read(redis, crawl)
    except NotFound:
        return None
    found.check_spider(crawl, spider)
    return (await (await CrawlControl.open(redis, crawl)).sizes()).added


def confirm_deletion(crawl: str, urls: int, *, yes: bool) -> None:
    """Ask the user, unless `yes`; raise ConfigurationError if the answer is no."""
    question = f"Delete the crawl {crawl!r} with {urls:,} URLs from Redis? Pages stay."
    if not yes and not confirmed(question):
        raise ConfigurationError(f"The crawl {crawl!r} was not deleted; say yes, or give --yes.")


async def delete_crawl(crawl: str, servers: Servers, settings: BaseSettings) -> int:
    """Delete a crawl that no process works on; return the number of deleted keys."""
    control = await CrawlControl.open(await servers.redis(), crawl)
    # URLs are spilled to MongoDB only after some were refused. Connect before anything is deleted:
    # it may be away.
    refused = (await control.sizes()).refused
    spill = await connect.spill_of(crawl, servers, settings) if refused else None
    deleted = shown = 0
    async for deleted in control.delete():
        if deleted - shown >= PROGRESS_KEYS:
            shown = deleted
            print(f"{deleted:,} keys deleted …", file=sys.stderr)
    if spill is not None:
        # A new crawl of the same name would begin with them.
        await spill.clear()
    return deleted
