"""Show how the crawl goes, and a summary at its end. The drawing is in monitoring/console/."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from pymongo.errors import PyMongoError
from rich.console import Console
from scrapy import signals

from crawler.errors import ConfigurationError
from crawler.frontier import Sizes
from crawler.items import Page
from crawler.monitoring import logs
from crawler.monitoring.console import summary
from crawler.monitoring.console.figures import Snapshot, process_figures
from crawler.monitoring.console.summary import Summary, summary_text
from crawler.monitoring.console.view import Terminal, live_view, plain_line
from crawler.monitoring.logs import FIGURES
from crawler.monitoring.process_stats import ProcessStats, RecentRate
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.urls import host_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

MODES = ("auto", "live", "plain", "off")
_LIVE_INTERVAL_S = 1.0
# Hosts counted for the summary, about 100 bytes each.
_HOSTS_MAX = 100_000


class Progress:
    """A live view on a terminal, else a line every few seconds."""

    def __init__(
        self,
        crawler: Crawler,
        *,
        mode: str,
        interval_s: float,
        summary_file: Path | None,
        log_file: str | None,
    ) -> None:
        self._crawler = crawler
        self._mode = mode
        self._interval_s = interval_s
        self._summary_file = summary_file
        self._log_file = log_file
        self._terminal = Terminal() if mode == "live" else None
        self._task: asyncio.Task[None] | None = None
        self._started_s = monotonic()
        self._rate = RecentRate()
        self._sizes: Sizes | None = None
        self._hosts: set[str] = set()
        self._items = 0
        self._page_url: str | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        mode = settings["PROGRESS"]
        if mode not in MODES:
            raise ConfigurationError(f"PROGRESS is {mode!r}; use one of {', '.join(MODES)}.")
        interval_s = settings.getfloat("PROGRESS_INTERVAL")
        if interval_s <= 0:
            raise ConfigurationError(
                f"PROGRESS_INTERVAL is {interval_s:g}; give seconds above 0, or set PROGRESS=off."
            )
        if mode == "auto":
            mode = "live" if sys.stderr.isatty() else "plain"
        if mode == "live" and settings.getbool("LOG_JSON"):
            mode = "plain"
        file = settings["SUMMARY_FILE"]
        progress = cls(
            crawler,
            mode=mode,
            interval_s=interval_s,
            summary_file=Path(file) if file else None,
            log_file=settings["LOG_FILE"],
        )
        crawler.signals.connect(progress._opened, signals.spider_opened)
        crawler.signals.connect(progress._scraped, signals.item_scraped)
        crawler.signals.connect(progress._closed, signals.spider_closed)
        return progress

    # --- while it runs -------------------------------------------------------------------------

    def _opened(self) -> None:
        self._started_s = monotonic()
        self._rate.add(self._started_s, 0)
        if self._mode == "off":
            return
        if self._terminal is not None:
            self._terminal.start()
        self._task = asyncio.get_running_loop().create_task(self._show_forever())

    async def _show_forever(self) -> None:
        interval_s = _LIVE_INTERVAL_S if self._terminal is not None else self._interval_s
        has_failed = False
        if self._terminal is None:
            await asyncio.sleep(interval_s)
        while True:
            try:
                await self._show()
            except Exception:
                # Whatever it is, it must not be the end of the view; once says enough.
                if not has_failed:
                    logger.exception("The progress could not be shown; trying again each time")
                has_failed = True
            await asyncio.sleep(interval_s)

    async def _show(self) -> None:
        snapshot = await self._snapshot()
        if self._terminal is None:
            logger.info("%s", plain_line(snapshot))
        else:
            self._terminal.show(live_view(snapshot))

    async def _snapshot(self) -> Snapshot:
        await self._read_sizes()
        now_s = monotonic()
        stats = self._crawler.stats.get_stats()
        elapsed_s = now_s - self._started_s
        process = process_figures(stats, elapsed_s=elapsed_s, items=self._items)
        process = replace(
            process,
            in_flight=len(self._crawler.engine.downloader.active),
            recent_s=self._rate.add(now_s, process.pages),
        )
        scheduler = Scheduler.of(self._crawler)
        dashboard = ProcessStats.of(self._crawler).extra.get("admin", "")
        shards = scheduler.frontier.shards
        return Snapshot(scheduler.crawl, process, self._sizes, shards, dashboard)

    async def _read_sizes(self) -> None:
        # An old reading is better than none; the lease pool says that Redis is away.
        with suppress(*RedisAway):
            self._sizes = await Scheduler.of(self._crawler).frontier.sizes()

    def _scraped(self, item: Any) -> None:
        if not isinstance(item, Page):
            self._items += 1
            return
        if item.is_success and len(self._hosts) < _HOSTS_MAX:
            self._hosts.add(host_of(item.url))
        if self._page_url is None and item.stored and not item.duplicate_of:
            self._page_url = item.url

    # --- at the end ----------------------------------------------------------------------------

    async def _closed(self, reason: str) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        summary = await self._summary(reason)
        if self._terminal is not None:
            self._terminal.stop()
            self._terminal.console.print(summary_text(summary), soft_wrap=True)
        elif self._mode == "plain":
            self._print_plain(summary)
        if self._summary_file is not None:
            await asyncio.to_thread(write_summary, self._summary_file, summary)

    async def _summary(self, reason: str) -> Summary:
        scheduler = Scheduler.of(self._crawler)
        self._sizes = None
        if not scheduler.health.away:
            await self._read_sizes()
        settings, stats = self._crawler.settings, self._crawler.stats
        if self._page_url is None:
            self._page_url = await self._any_page()
        return Summary(
            crawl=scheduler.crawl,
            reason=reason,
            ended_at=datetime.now().astimezone(),
            process=process_figures(
                stats.get_stats(), elapsed_s=monotonic() - self._started_s, items=self._items
            ),
            hosts=len(self._hosts),
            hosts_cut=len(self._hosts) >= _HOSTS_MAX,
            seeds_added=stats.get_value("seeds/added", 0) + stats.get_value("seeds/pushed", 0),
            seeds_pushed=stats.get_value("seeds/pushed", 0),
            sitemaps_added=stats.get_value("sitemaps/added", 0),
            seeds_known=stats.get_value("seeds/known", 0),
            sizes=self._sizes,
            waits_s=scheduler.leases.completion.waits_s,
            frontier_at=summary.frontier_at(settings, scheduler.crawl),
            pages_at=summary.pages_at(settings),
            has_store=settings["PAGES_STORE"] != "none",
            commands=summary.commands(
                settings,
                crawl=scheduler.crawl,
                page_url=self._page_url,
                argv=sys.argv,
                program=summary.scrapy_program(sys.prefix, str(Path.cwd()), os.environ),
            ),
        )

    async def _any_page(self) -> str | None:
        """A page of an earlier run."""
        settings = self._crawler.settings
        none_yet = self._sizes is not None and not self._sizes.pages
        if settings["PAGES_STORE"] == "none" or none_yet:
            return None
        with suppress(PyMongoError):
            database = (await Servers.of(self._crawler).mongo())[settings["MONGO_DATABASE"]]
            content = await database["pages_content"].find_one({}, {"page_id": True})
            if content is not None:
                wanted = {"url_hash": content["page_id"]}
                page = await database["pages_metadata"].find_one(wanted, {"url": True})
                return str(page["url"]) if page is not None else None
        return None

    def _print_plain(self, summary: Summary) -> None:
        text, figures = summary_text(summary), summary.figures()
        if self._log_file:
            logger.info("%s", text.plain.strip("\n"), extra={FIGURES: figures})
        elif logs.is_json():
            sys.stderr.write(logs.line(text.plain.strip("\n"), figures=figures) + "\n")
        else:
            Console(stderr=True, no_color=True).print(text, soft_wrap=True)


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
