"""Scrapy's scheduler on top of the frontier. Never blocks: Redis is spoken to by tasks.

The engine's three synchronous methods touch only memory. Components of this project use the rest:
`add` for discovered URLs, `release` when a fetch ended, and one of `done`, `retry`, `bury`,
`hand_back` to settle a lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import deferred_from_coro

from crawler.errors import ConfigurationError
from crawler.extensions.servers import Servers
from crawler.failures import Failures
from crawler.frontier import Entry, Frontier, Lease
from crawler.known import Known
from crawler.policy.retry import Bury, Retry, RetryPolicy
from crawler.requests import LEASE, NotCarried, to_entry, to_request
from crawler.seeds import parse_pushed
from crawler.urls import Rejected
from crawler.workbench import Limits, Workbench

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """The engine's source of requests."""

    def __init__(self, crawler: Crawler, *, crawl: str, limits: Limits) -> None:
        self.crawl = crawl
        settings = crawler.settings
        self.thresholds = [int(value) for value in settings.getlist("FRONTIER_THRESHOLDS")]
        self.frontier: Frontier
        self.workbench: Workbench
        self._opened = False
        self._crawler = crawler
        self._limits = limits
        self._concurrency = settings.getint("CONCURRENT_REQUESTS")
        self.failures = Failures(
            self,
            RetryPolicy(
                times=settings.getint("RETRY_TIMES"),
                base_s=settings.getfloat("RETRY_BASE"),
                max_s=settings.getfloat("RETRY_MAX"),
            ),
        )
        self._known = Known(settings.getint("KNOWN_CACHE_SIZE"))
        self._spider: Spider

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        spider = crawler.spider
        assert spider is not None
        idle = settings["CRAWL_IDLE"]
        if idle not in ("close", "wait"):
            raise ConfigurationError(f"CRAWL_IDLE is {idle!r}; set it to close or wait.")
        limits = Limits(
            max_pages=getattr(spider, "max_pages", 0),
            close_when_done=idle == "close",
            max_wait_s=settings.getfloat("CRAWL_MAX_WAIT"),
            lease_ttl_s=settings.getfloat("LEASE_TTL"),
            reclaim_rest_s=settings.getfloat("DELAY_MIN"),
        )
        scheduler = cls(crawler, crawl=settings["CRAWL"] or spider.name, limits=limits)
        crawler.signals.connect(scheduler._spider_idle, signals.spider_idle)
        return scheduler

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The scheduler of a running crawl."""
        scheduler = crawler.engine.scheduler
        if not isinstance(scheduler, cls):
            raise ConfigurationError(
                f"SCHEDULER is {crawler.settings['SCHEDULER']!r}; this component needs "
                "crawler.scheduler.Scheduler."
            )
        return scheduler

    # --- Scrapy's contract ---------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        return deferred_from_coro(self._open(spider))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        return self.workbench.over is None or self.workbench.held > 0 or not self.workbench.outbox.empty

    def next_request(self) -> Request | None:
        lease = self.workbench.take()
        if lease is None:
            return None
        request = to_request(lease.entry, self._spider)
        request.meta[LEASE] = lease
        request.errback = self.failures.errback(lease, request.errback)
        return request

    def enqueue_request(self, request: Request) -> bool:
        """Take a request from the engine: a start request, one of an errback, a replacement."""
        lease: Lease | None = request.meta.get(LEASE)
        if lease is not None and not self.holds(lease):
            # A middleware settled the lease and gave its request back to end the fetch quietly.
            return True
        entry = self.entry_of(request)
        if entry is None:
            if lease is not None:
                self.done(lease, page=False)
            return False
        # In this order: the outbox sends the new URL before it settles the old one.
        future = self._send([entry], force=request.dont_filter)
        if lease is not None:
            self.done(lease, page=False)
        if future is not None:
            future.add_done_callback(lambda _: self._wake_engine())
        return True

    # --- what the components use ---------------------------------------------------------------

    def entry_of(self, request: Request, *, parent: int = 0) -> Entry | None:
        """The entry of a request, or None for one that cannot be crawled: it is counted."""
        lease: Lease | None = request.meta.get(LEASE)
        depth = None
        if lease is not None:
            # A middleware put this request in the place of the leased one, as a redirect does: it
            # has the same depth, and of the headers those the user gave, not Scrapy's defaults.
            given = lease.entry.tail.get("headers", {})
            kept = {name: values for name, values in given.items() if name in request.headers}
            request = request.replace(headers=kept)
            depth, parent = lease.entry.depth, lease.entry.id
        try:
            entry = to_entry(request, self._spider, self.thresholds, depth=depth, parent=parent)
        except NotCarried as error:
            logger.error("%s", error)
            entry = Rejected("not_carried")
        if isinstance(entry, Rejected):
            self._count(f"scheduler/rejected/{entry.reason}")
            return None
        return entry

    def holds(self, lease: Lease) -> bool:
        """Is this lease still to be settled by this process?"""
        return self.workbench.holds(lease)

    async def add(self, entries: Sequence[Entry], *, force: bool = False) -> list[bool]:
        """Add discovered URLs; says of each whether it is new. Returns when Redis has them."""
        future = self._send(entries, force=force)
        return [False] * len(entries) if future is None else await future

    def release(self, lease: Lease, rest_ms: int) -> None:
        """A fetch ended."""
        self.workbench.outbox.release(lease, rest_ms)

    def done(self, lease: Lease, *, page: bool) -> None:
        """The URL is finished, its links are in the frontier."""
        self.workbench.outbox.done(lease, page=page)
        self.workbench.settled(lease)

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        """The URL failed; the retry policy decided what becomes of it."""
        if isinstance(decision, Retry):
            self.workbench.outbox.retry(lease, decision.wait_ms, lease.entry.retried())
            self._count(f"retry/{decision.reason}")
        else:
            self.workbench.outbox.bury(lease, decision.reason)
            self._count(f"dead/{decision.reason}")
            logger.info("Gave up on %s: %s", lease.entry.url, decision.reason)
        self.workbench.settled(lease)

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; it is next in line when its host has rested."""
        self.workbench.outbox.hand_back(lease, rest_ms)
        self.workbench.settled(lease)

    # -------------------------------------------------------------------------------------------

    async def _open(self, spider: Spider) -> None:
        self._spider = spider
        settings = self._crawler.settings
        servers = Servers.of(self._crawler)
        self.frontier = Frontier(
            await servers.redis(),
            self.crawl,
            shards=settings.getint("FRONTIER_SHARDS"),
            weights=_numbers(settings.getlist("FRONTIER_WEIGHTS")),
            load_weights=_numbers(settings.getlist("FRONTIER_LOAD_WEIGHTS")),
            load_threshold=settings.getint("FRONTIER_LOAD_THRESHOLD"),
            parallelism=settings.getint("HOST_PARALLELISM"),
            dead_max=settings.getint("DEAD_MAX"),
        )
        self.workbench = Workbench(
            self.frontier,
            self._limits,
            room=self._room,
            wake=self._wake_engine,
            look_for_seeds=self._take_start_urls,
        )
        await self.workbench.open()
        self._opened = True

    async def _close(self) -> None:
        if self._opened:
            await self.workbench.close()

    def _room(self) -> int:
        """How many fetches could start now."""
        engine = self._crawler.engine
        slot = engine.scraper.slot
        if slot is None or slot.needs_backout() or engine.paused:
            return 0
        return self._concurrency - len(engine.downloader.active)

    def _send(
        self, entries: Sequence[Entry], *, force: bool
    ) -> asyncio.Future[list[bool]] | None:
        """Pass URLs to the outbox; None when all of them are known."""
        self._count("frontier/discovered", len(entries))
        if not force and all(entry.id in self._known for entry in entries):
            return None
        future = self.workbench.outbox.add(entries, force=force)
        future.add_done_callback(lambda done: self._remember(entries, done))
        return future

    def _remember(self, entries: Sequence[Entry], future: asyncio.Future[list[bool]]) -> None:
        if future.cancelled():
            return
        # Only now: a URL that Redis does not have must not be taken for known.
        for entry in entries:
            self._known.add(entry.id)
        self._count("frontier/added", sum(future.result()))

    def _wake_engine(self) -> None:
        # Private, and the only place that uses it: without it the engine looks every 5 s.
        slot = self._crawler.engine._slot
        if slot is not None and slot.closing is None:
            slot.nextcall.schedule()

    def _spider_idle(self) -> None:
        if self.workbench.over not in (None, "finished"):
            raise CloseSpider(self.workbench.over)

    async def _take_start_urls(self) -> int:
        """Add what others pushed to `<spider>:start_urls`: read, add, and only then remove."""
        name = self._spider.name
        pushed = await self.frontier.read_start_urls(name)
        if not pushed:
            return 0
        entries = []
        for raw in pushed:
            found = parse_pushed(raw)
            if isinstance(found, Rejected):
                logger.warning("%s:start_urls: %r is no URL (%s)", name, raw[:200], found.reason)
            else:
                entries.append(found)
        await self.add(entries)
        await self.frontier.drop_start_urls(name, pushed)
        self._count("seeds/pushed", len(entries))
        return len(pushed)

    def _count(self, name: str, by: int = 1) -> None:
        self._crawler.stats.inc_value(name, by)


def _numbers(values: Iterable[Any]) -> list[int]:
    return [int(value) for value in values]
