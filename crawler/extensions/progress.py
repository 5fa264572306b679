"""Show the progress of this process, and a summary at its end (monitoring/console/)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from pymongo.errors import PyMongoError
from scrapy import signals

from crawler import config
from crawler.errors import CrawlerError
from crawler.frontier import Sizes
from crawler.items import Page
from crawler.monitoring.console.screen import Screen
from crawler.monitoring.console.summary import (
    Summary,
    frontier_at,
    next_commands,
    pages_at,
    scrapy_program,
    spool_at,
    summary_text,
)
from crawler.monitoring.console.view import RunFigures, Snapshot
from crawler.monitoring.logs import FIGURES
from crawler.monitoring.process_stats import ProcessStats, RecentRate
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.storage.reader import Wanted
from crawler.storage.readers import open_reader, store_of
from crawler.storage.sinks import named_sinks, targets
from crawler.urls import host_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Hosts counted for the summary, about 100 bytes each.
_HOSTS_MAX = 50_000
# Time limit for finding a page that the last lines may name.
_ANY_PAGE_S = 5.0


class Progress:
    """Figures for the screen and the summary, gathered while the spider is open."""

    def __init__(self, crawler: Crawler, screen: Screen) -> None:
        self._crawler = crawler
        self._screen = screen
        self._started_s = monotonic()
        self._rate = RecentRate()
        self._sizes: Sizes | None = None
        self._hosts: set[str] = set()
        self._items = 0
        self._page_url: str | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        screen = Screen.from_settings(crawler.settings, log=lambda line: logger.info("%s", line))
        progress = cls(crawler, screen)
        crawler.signals.connect(progress._opened, signals.spider_opened)
        crawler.signals.connect(progress._scraped, signals.item_scraped)
        crawler.signals.connect(progress._closed, signals.spider_closed)
        return progress

    # --- while it runs -------------------------------------------------------------------------

    def _opened(self) -> None:
        self._started_s = monotonic()
        self._rate.add(self._started_s, 0)
        self._screen.start(self._snapshot)

    def _scraped(self, item: Any) -> None:
        if not isinstance(item, Page):
            self._items += 1
            return
        if item.is_success and len(self._hosts) < _HOSTS_MAX:
            self._hosts.add(host_of(item.url))
        if self._page_url is None and item.stored and not item.duplicate_of:
            self._page_url = item.url

    def _run(self, **more: Any) -> RunFigures:
        return RunFigures.from_stats(
            self._crawler.stats.get_stats(),
            elapsed_s=monotonic() - self._started_s,
            items=self._items,
            hosts=len(self._hosts),
            **more,
        )

    async def _snapshot(self) -> Snapshot:
        await self._read_sizes()
        scheduler, process_stats = Scheduler.of(self._crawler), ProcessStats.of(self._crawler)
        pages = self._crawler.stats.get_value("pages/crawled", 0)
        return Snapshot(
            scheduler.crawl,
            self._run(
                in_flight=len(self._crawler.engine.downloader.active),
                recent_s=self._rate.add(monotonic(), pages),
            ),
            self._sizes,
            self._sizes.owners if self._sizes is not None else 0,
            process_stats.extra.get("admin", ""),
            process_stats.sinks().outage,
        )

    async def _read_sizes(self) -> None:
        # An old reading is better than none; the lease pool logs that Redis is away.
        with suppress(*RedisAway):
            self._sizes = await Scheduler.of(self._crawler).frontier.sizes()

    # --- at the end ----------------------------------------------------------------------------

    async def _closed(self, reason: str) -> None:
        await self._screen.stop()
        summary, settings = await self._summary(reason), self._crawler.settings
        text, figures = summary_text(summary), summary.figures()
        if self._screen.mode == "plain" and settings["LOG_FILE"]:
            logger.info("%s", text.plain.strip("\n"), extra={FIGURES: figures})
        elif self._screen.mode != "off":
            self._screen.say(text, figures)
        if config.value(settings, "SUMMARY_FILE"):
            await asyncio.to_thread(
                write_summary, Path(config.value(settings, "SUMMARY_FILE")), summary
            )

    async def _summary(self, reason: str) -> Summary:
        scheduler, settings = Scheduler.of(self._crawler), self._crawler.settings
        self._sizes = None
        if not scheduler.health.away:
            await self._read_sizes()
        return Summary(
            crawl=scheduler.crawl,
            reason=reason,
            ended_at=datetime.now().astimezone(),
            run=self._run(),
            hosts_cut=len(self._hosts) >= _HOSTS_MAX,
            sizes=self._sizes,
            waits_s=scheduler.leases.completion.waits_s,
            frontier_at=frontier_at(settings, scheduler.crawl),
            pages_at=pages_at(settings),
            has_store=bool(named_sinks(settings)),
            spool_at=spool_at(settings, scheduler.crawl),
            commands=next_commands(
                settings,
                crawl=scheduler.crawl,
                page_url=self._page_url or await self._any_page(),
                argv=sys.argv,
                program=scrapy_program(sys.prefix, str(Path.cwd()), os.environ),
            ),
        )

    async def _any_page(self) -> str | None:
        """Return the URL of a page that an earlier run stored."""
        settings = self._crawler.settings
        none_yet = self._sizes is not None and not self._sizes.pages
        store = store_of(settings)
        if store is None or not targets(settings, store) or none_yet:
            return None
        wanted = Wanted(crawl=Scheduler.of(self._crawler).crawl, kept=True)
        with suppress(PyMongoError, CrawlerError, TimeoutError):
            async with asyncio.timeout(_ANY_PAGE_S):
                pages = await open_reader(settings, Servers.of(self._crawler))
                async for page in pages.find(wanted, 1):
                    return str(page["url"])
        return None


def write_summary(path: Path, summary: Summary) -> None:
    """Write the summary as JSON; readers see the old file or the new one. Blocking."""
    text = json.dumps(summary.to_json(), indent=2, ensure_ascii=False) + "\n"
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        logger.error("SUMMARY_FILE %s cannot be written: %s", path, error.strerror or error)
