"""Send the figures of this process to the fleet every two seconds, and to the log every minute.

Measures the lag of the event loop as well, adds what people should know to the log of the crawl,
and stops the process when people ask for that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler.frontier import Frontier, Sizes, event_log
from crawler.frontier.event_log import ERROR, PROCESS, WARNING, Event
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

    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# As often as a process beats.
_FLUSH_S = 2.0
_LAG_S = 0.5
_LINE_S = 60.0
# Finish reason of a process that people stopped by the dashboard or the API.
STOPPED = "stopped"
# Warnings that a process adds to the log of its crawl within _FLUSH_S; others are only counted.
_EVENTS_MAX = 5
# A warning of the same kind comes into the log once in this time.
_REPEAT_S = 60.0
_REPEATS_MAX = 1000


class _Warnings(logging.Handler):
    """Handler that keeps warnings and errors until they are sent: few, and no two alike."""

    def __init__(self, who: str) -> None:
        super().__init__(logging.WARNING)
        self._who = who
        self._events: list[Event] = []
        # Place and text of a message -> when it was last kept.
        self._kept: dict[tuple[str, int], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        place, now = (record.pathname, record.lineno), time.monotonic()
        if now - self._kept.get(place, -_REPEAT_S) < _REPEAT_S or len(self._events) >= _EVENTS_MAX:
            return
        if len(self._kept) >= _REPEATS_MAX:
            self._kept.clear()
        self._kept[place] = now
        kind = ERROR if record.levelno >= logging.ERROR else WARNING
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        self._events.append(Event.now(kind, f"{self._who}: {text}"))

    def taken(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events


class Monitoring:
    """Background tasks that report the figures of this process and measure its event loop."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._process_stats = ProcessStats.of(crawler)
        self._ledger: Ledger | None = None
        self._redis: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._who = f"{socket.gethostname()} {os.getpid()}"
        self._warnings = _Warnings(self._who)
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler)
        crawler.signals.connect(extension._opened, signals.spider_opened)
        crawler.signals.connect(extension._ended, signals.spider_closed)
        return extension

    async def _opened(self) -> None:
        self._redis = redis = await Servers.of(self._crawler).redis()
        crawl = Scheduler.of(self._crawler).crawl
        self._ledger = Ledger(redis, crawl)
        # So that the last process of the crawl sees the figures of all others.
        Scheduler.of(self._crawler).before_leaving = self._flush
        # Redis may be away by now; other components log that.
        with suppress(*RedisAway):
            found = await instances(redis, crawl)
            if line := silent_line(found, self._crawler.settings.getfloat("LEASE_TTL")):
                logger.info("%s", line)
            await event_log.note(redis, crawl, [Event.now(PROCESS, f"process {self._who} began")])
        logging.getLogger().addHandler(self._warnings)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._flush_forever()),
            loop.create_task(self._measure_lag_forever()),
            loop.create_task(self._log_forever()),
        ]

    async def _ended(self, reason: str) -> None:
        logging.getLogger().removeHandler(self._warnings)
        for task in self._tasks:
            await end(task)
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        if not isinstance(scheduler, Scheduler) or not scheduler.health.away:
            await self._flush()
            await self._note(Event.now(PROCESS, f"process {self._who} ended: {reason}"))

    async def _flush_forever(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            await self._flush()
            await self._note()
            try:
                await self._stop_if_asked()
            except RedisAway as error:
                logger.debug("Redis was not asked whether this process is to stop: %s", error)

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

    async def _note(self, *events: Event) -> None:
        """Add events and the last warnings to the log of the crawl."""
        if self._redis is not None:
            crawl = Scheduler.of(self._crawler).crawl
            await event_log.note(self._redis, crawl, [*self._warnings.taken(), *events])

    async def _stop_if_asked(self) -> None:
        """Close the spider if people asked this process to stop: fetches in flight finish."""
        frontier: Frontier = Scheduler.of(self._crawler).frontier
        if self._closing is not None or not await frontier.is_asked_to_stop():
            return
        logger.info("This process was asked to stop: fetches in flight finish")
        # A task of its own: closing ends this one.
        self._closing = asyncio.get_running_loop().create_task(
            self._crawler.engine.close_spider_async(reason=STOPPED)
        )

    async def _measure_lag_forever(self) -> None:
        """Measure how late the event loop is: if something blocks it, all fetches wait."""
        while True:
            due_s = time.monotonic() + _LAG_S
            await asyncio.sleep(_LAG_S)
            self._process_stats.observe_lag(max(0.0, time.monotonic() - due_s))
            self._process_stats.observe_tasks(len(asyncio.all_tasks()))

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
