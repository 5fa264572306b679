"""Send the figures of this process to the fleet every two seconds, and to the log every minute.

Measures the lag of the event loop as well.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler.frontier import Sizes
from crawler.monitoring.figures import grown
from crawler.monitoring.ledger import Ledger, instances, silent_line
from crawler.monitoring.logs import FIGURES
from crawler.monitoring.process_stats import ProcessStats
from crawler.monitoring.report import minute_figures, minute_line
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# As often as a process beats.
_FLUSH_S = 2.0
_LAG_S = 0.5
_LINE_S = 60.0


class Monitoring:
    """Background tasks that report the figures of this process and measure its event loop."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._process_stats = ProcessStats.of(crawler)
        self._ledger: Ledger | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler)
        crawler.signals.connect(extension._opened, signals.spider_opened)
        crawler.signals.connect(extension._closed, signals.spider_closed)
        return extension

    async def _opened(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        crawl = Scheduler.of(self._crawler).crawl
        self._ledger = Ledger(redis, crawl)
        # So that the last process of the crawl sees the figures of all others.
        Scheduler.of(self._crawler).before_leaving = self._flush
        # Redis may be away by now; other components log that.
        with suppress(*RedisAway):
            found = await instances(redis, crawl)
            if line := silent_line(found, self._crawler.settings.getfloat("LEASE_TTL")):
                logger.info("%s", line)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._flush_forever()),
            loop.create_task(self._measure_lag_forever()),
            loop.create_task(self._log_forever()),
        ]

    async def _closed(self) -> None:
        for task in self._tasks:
            await end(task)
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        if not isinstance(scheduler, Scheduler) or not scheduler.health.away:
            await self._flush()

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self._flush()

    async def _flush(self) -> None:
        if self._ledger is None:
            return
        started_s = time.monotonic()
        try:
            await self._ledger.add(self._process_stats.figures(), now_s=time.time())
        except RedisAway as error:
            logger.debug("The figures of this process are sent later: %s", error)
        except Exception:
            # Neither the crawl nor this task may end because of figures.
            logger.exception("The figures of this process could not be sent; trying again")
        else:
            self._process_stats.observe_redis(time.monotonic() - started_s)

    async def _measure_lag_forever(self) -> None:
        """Measure how late the event loop is: if something blocks it, all fetches wait."""
        while True:
            due_s = time.monotonic() + _LAG_S
            await asyncio.sleep(_LAG_S)
            self._process_stats.observe_lag(max(0.0, time.monotonic() - due_s))

    async def _log_forever(self) -> None:
        before, since_s = self._process_stats.figures(), time.monotonic()
        while True:
            await asyncio.sleep(_LINE_S)
            now, now_s = self._process_stats.figures(), time.monotonic()
            figures = minute_figures(
                grown(before, now),
                now_s - since_s,
                held=Scheduler.of(self._crawler).leases.held,
                store=self._process_stats.store_state,
                sinks=self._process_stats.sinks(),
                sizes=await self._sizes(),
            )
            logger.info("%s", minute_line(figures), extra={FIGURES: figures})
            before, since_s = now, now_s

    async def _sizes(self) -> Sizes | None:
        try:
            return await Scheduler.of(self._crawler).frontier.sizes()
        except RedisAway:
            return None
