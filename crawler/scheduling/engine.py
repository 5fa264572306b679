"""Access the parts of Scrapy's engine that the scheduler needs; its private parts only here."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import isasyncgen
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.utils.defer import aiter_errback, iter_errback
from twisted.python.failure import Failure

from crawler.errors import ConfigurationError
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.frontier import Lease

logger = logging.getLogger(__name__)


# After a fetch found no file descriptor: no fetch starts for the first seconds, then fewer run,
# and one more after each step. It is logged again after the last of these times.
_FEWER_PAUSE_S = 1.0
_FEWER_STEP_S = 10.0
_FEWER_LOGGED_S = 600.0


class Engine:
    """Scrapy's engine: its room for more fetches, and the requests in progress."""

    def __init__(self, crawler: Crawler, concurrency: int) -> None:
        if concurrency < 1:
            raise ConfigurationError(f"CONCURRENT_REQUESTS is {concurrency}; set it to 1 or more.")
        self._crawler = crawler
        self._concurrency = concurrency
        self._total = crawler.settings.getint("CONCURRENT_REQUESTS")
        # After a shortage of file descriptors: the fetches that ran then, less a few, and when.
        self._fewer: tuple[int, float] | None = None
        self._fewer_logged_at = -math.inf

    def room(self) -> int | None:
        """Return how many fetches could start now; None while the engine closes."""
        engine = self._crawler.engine
        if self._slot() is None:
            return None
        scraper_slot = engine.scraper.slot
        if scraper_slot is None or scraper_slot.needs_backout() or engine.paused:
            return 0
        downloader = engine.downloader
        idle = downloader.total_concurrency - self._total
        return self._fetches_max() + idle - len(downloader.active)

    def run_fewer(self, error: Exception) -> None:
        """Start no fetch for a moment, then fewer: there was no file descriptor for one."""
        self._crawler.stats.inc_value("scheduler/out_of_sockets")
        now, most = monotonic(), self._fetches_max()
        if most == 0:
            # Several fetches failed for it at the same time.
            return
        at_once = min(most, len(self._crawler.engine.downloader.active))
        self._fewer = (max(1, at_once * 3 // 4), now)
        if now - self._fewer_logged_at > _FEWER_LOGGED_S:
            self._fewer_logged_at = now
            logger.warning(
                "This process has no file descriptor left (%s): URLs wait without a failed "
                "attempt, and fewer are fetched at a time. Raise the limit (`ulimit -n`; `scrapy "
                "doctor` says how many are needed), or lower CONCURRENT_REQUESTS or "
                "DOWNLOAD_KEEPALIVE_HOSTS",
                error,
            )

    def _fetches_max(self) -> int:
        """Return how many fetches may run at a time: after a shortage none, few, slowly more."""
        if self._fewer is None:
            return self._concurrency
        fetches, since = self._fewer
        quiet_s = monotonic() - since
        if quiet_s < _FEWER_PAUSE_S:
            return 0
        return min(self._concurrency, fetches + int(quiet_s / _FEWER_STEP_S))

    def starting(self) -> bool:
        """Tell whether the spider's start() is still being read."""
        return self._crawler.engine._start is not None  # noqa: SLF001

    def wake(self) -> None:
        """Let the engine ask for requests now; by itself it only does every 5 s."""
        slot = self._slot()
        if slot is not None:
            slot.nextcall.schedule()

    def lost(self, leases: Iterable[Lease]) -> list[Lease]:
        """Return the leases whose requests are no longer with the engine; none while it closes."""
        slot = self._slot()
        if slot is None:
            return []
        found = (request.meta.get(LEASE) for request in slot.inprogress)
        busy = {lease.key for lease in found if lease is not None}
        return [lease for lease in leases if lease.key not in busy]

    @staticmethod
    def take_outputs_in_turn(crawler: Crawler) -> None:
        """Handle the outputs of a callback one after the other, without a queue and tasks.

        Scrapy does the same with CONCURRENT_ITEMS = 1, but with two tasks a page.
        """
        scraper: Any = crawler.engine.scraper

        async def handle(result: Any, request: Request, response: Response | Failure) -> None:
            handle_error = scraper.handle_spider_error
            process = scraper._process_spidermw_output_async  # noqa: SLF001
            if isasyncgen(result):
                # An asynchronous generator ends with its first error.
                while True:
                    try:
                        output = await anext(result)
                    except StopAsyncIteration:
                        break
                    except Exception:  # noqa: BLE001 - that of a callback, of any kind
                        failure = Failure()  # type: ignore[no-untyped-call]
                        handle_error(failure, request, response)
                        break
                    await process(output, response)
            elif isinstance(result, AsyncIterator):
                async for output in aiter_errback(result, handle_error, request, response):
                    await process(output, response)
            else:
                for output in iter_errback(result, handle_error, request, response):
                    await process(output, response)

        if scraper.concurrent_items == 1:
            scraper.handle_spider_output_async = handle

    @staticmethod
    def close_unopened(crawler: Crawler, clean_up: Callable[[], Awaitable[None]]) -> None:
        """If the spider cannot be opened, only close what was opened, and send no spider_closed.

        Scrapy would close all components, and log a traceback for each that was never opened. The
        error itself reaches whoever started the crawl.
        """
        engine: Any = crawler.engine
        close = engine.close_spider_async

        async def close_quietly(*, reason: str = "cancelled") -> None:
            engine.downloader.close()
            parts = [clean_up]
            if engine.scraper.slot is not None:
                parts.insert(0, engine.scraper.close_spider_async)
            for close_part in parts:
                try:
                    await close_part()
                except Exception:
                    # For example a pipeline that was not opened.
                    logger.debug("Closing a spider that did not open (%s)", reason, exc_info=True)
            engine._slot = engine.spider = None  # noqa: SLF001

        def opened() -> None:
            engine.close_spider_async = close

        engine.close_spider_async = close_quietly
        crawler.signals.connect(opened, signals.spider_opened, weak=False)

    @staticmethod
    def is_closing(crawler: Crawler) -> bool:
        """Tell whether the crawl is closing: requests and items in progress are being finished."""
        slot = crawler.engine._slot  # noqa: SLF001
        return slot is not None and slot.closing is not None

    @staticmethod
    @contextmanager
    def set_aside(crawler: Crawler, size: int) -> Iterator[None]:
        """Do not count the bytes of a response among those for which fetching pauses.

        Whoever calls this bounds such bytes.
        """
        engine: Any = crawler.engine
        slot = engine.scraper.slot
        size = max(size, slot.MIN_RESPONSE_SIZE)
        slot.active_size -= size
        try:
            yield
        finally:
            slot.active_size += size

    @staticmethod
    @contextmanager
    def not_fetching(crawler: Crawler) -> Iterator[None]:
        """Let another fetch start: a request that is with the downloader fetches nothing.

        Whoever calls this bounds the number of such requests.
        """
        downloader: Any = crawler.engine.downloader
        downloader.total_concurrency += 1
        slot = crawler.engine._slot  # noqa: SLF001
        if slot is not None:
            slot.nextcall.schedule()
        try:
            yield
        finally:
            downloader.total_concurrency -= 1

    def _slot(self) -> Any:
        slot = self._crawler.engine._slot  # noqa: SLF001
        return slot if slot is not None and slot.closing is None else None


async def _nowhere() -> list[str]:
    return []


async def _no_messages() -> bool:
    return False


async def _nothing() -> None:
    pass


@dataclass(slots=True)
class EngineHooks:
    """Functions that the lease pool needs from its surroundings."""

    # How many fetches could start now; None while this process closes.
    room: Callable[[], int | None]
    # Let the engine notice that leases are ready, or that the crawl is over.
    wake: Callable[[], None]
    # Take in seeds and URLs that wait outside the frontier; returns how many there were.
    take_in: Callable[[], Awaitable[int]]
    # Is the spider's start() still being read? Then an empty frontier is not the end.
    starting: Callable[[], bool] = lambda: False
    # Where other processes have URLs or pages of the crawl on their disks.
    elsewhere: Callable[[], Awaitable[list[str]]] = _nowhere
    # Do messages of a stream wait that give seeds?
    messages_wait: Callable[[], Awaitable[bool]] = _no_messages
    # Awaited before the crawl is taken for over: it may find another reason to end.
    before_end: Callable[[], Awaitable[None]] = _nothing
    # Add one to a stat.
    count: Callable[[str], None] = lambda _name: None
