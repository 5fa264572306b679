"""Write pages in batches, one at a time, until they are durable. The same for every sink.

    GroupCommit     collects the next batch while one is written
    RetryingWriter  repeats writes while the server is away; gives up only when the crawl ends
    StoreStats      counts, as Scrapy's stats `store/…`

A circuit breaker (util/breaker.py) decides when fetching should pause. Fetched pages wait in
memory, and the heartbeat keeps their leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pymongo.errors import NetworkTimeout, PyMongoError

from crawler.errors import NotStored
from crawler.servers.health import ServerHealth
from crawler.servers.mongo import may_pass
from crawler.util.backoff import Backoff
from crawler.util.breaker import CLOSED, Breaker
from crawler.util.tasks import abandon

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector

    from crawler.items import Page

logger = logging.getLogger(__name__)

# A batch costs the client about 1 ms, as much as 40 pages in it: more need not be waited for.
_WORTH_WRITING = 64


# Position in the batch → why the item was not written.
Faults = Mapping[int, Exception]


class Storable(Protocol):
    """Page in the form in which a sink writes it."""

    page: Page
    # Bytes that it takes in a batch, and those of its compressed body.
    size_bytes: int
    compressed_bytes: int
    # None if no content is kept.
    content: bytes | None


Waiting = tuple[Storable, "asyncio.Future[None]"]


class GroupCommit:
    """Queue of items for one writer, each with a future that is done when the item is durable.

    The queue is bounded by those who wait: each page's lease is held until its future is done.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Any]], Coroutine[Any, Any, Faults]],
        writer: RetryingWriter,
        stats: StoreStats,
        *,
        batch_max: int,
        batch_max_bytes: int,
        linger_s: float,
    ) -> None:
        """A batch that is not worth its cost yet waits `linger_s` for more items."""
        self._write = write
        self._writer = writer
        self._stats = stats
        self._batch_max = batch_max
        self._batch_max_bytes = batch_max_bytes
        self._linger_s = linger_s
        self._enough = min(batch_max, _WORTH_WRITING)
        self._waiting: deque[Waiting] = deque()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, item: Storable) -> asyncio.Future[None]:
        """Write an item soon; the future is done when it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((item, future))
        if len(self._waiting) >= self._enough:
            self._full.set()
        if self._task is None:
            self._task = loop.create_task(self._write_all())
        return future

    async def drain(self) -> None:
        """Write everything that waits, without lingering."""
        self._linger_s = 0.0
        self._full.set()
        if self._task is not None:
            await self._task

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                if self._linger_s and len(self._waiting) < self._enough:
                    self._full.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._linger_s):
                            await self._full.wait()
                await self._commit(self._next_batch())
        finally:
            self._task = None

    def _next_batch(self) -> list[Waiting]:
        batch = [self._waiting.popleft()]
        size_bytes = batch[0][0].size_bytes
        while self._waiting and len(batch) < self._batch_max:
            size_bytes += self._waiting[0][0].size_bytes
            if size_bytes > self._batch_max_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _commit(self, batch: list[Waiting]) -> None:
        """Write a batch and settle the future of each item."""
        items, started_s = [item for item, _ in batch], monotonic()
        try:
            faults = await self._writer.write(partial(self._write, items))
            written = [item for i, item in enumerate(items) if i not in faults]
            self._stats.wrote(written, monotonic() - started_s)
        except Exception as error:  # noqa: BLE001 - pages must not wait for ever, whatever it was
            if len(batch) > 1 and not isinstance(error, NotStored):
                # One page may be the cause; the others must not fail for it.
                for one in batch:
                    await self._commit([one])
                return
            faults = dict.fromkeys(range(len(batch)), error)
        for i, (item, future) in enumerate(batch):
            fault = faults.get(i)
            if fault is not None and not isinstance(fault, NotStored):
                logger.error("MongoDB did not take %s: %s", item.page.url, fault)
            if future.done():
                continue
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)


# Scrapy does not tell pipelines that the crawl ends while they have items: it is polled.
_POLL_S = 0.5
# With the polls before and after it, and closing the connections, below 10 s.
_GIVE_UP_S = 6.0
# Spread, so that a fleet does not come back all at once.
_BACKOFF = Backoff(0.1, 5.0, jitter=-0.5)

Result = TypeVar("Result")
Send = Callable[[], Coroutine[Any, Any, Result]]


class RetryingWriter:
    """Writer that repeats failed writes. `what` names what waits for them, for the log.

    `on_failure` is called for each failed write, `on_change` for each new state of the breaker.
    """

    def __init__(
        self,
        what: str,
        is_closing: Callable[[], bool],
        health: ServerHealth,
        *,
        timeout_s: float,
        on_failure: Callable[[], None] = lambda: None,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._what = what
        self._is_closing = is_closing
        self._health = health
        # A write that takes longer has failed, however many messages it consists of.
        self._timeout_s = timeout_s
        self._on_failure = on_failure
        self._on_change = on_change
        # Few attempts count: each takes seconds to fail, and what is fetched meanwhile waits.
        self._breaker = Breaker(2, among=4, backoff=_BACKOFF)
        self._state = self._breaker.state
        self._give_up_at: float | None = None
        self._given_up = False

    async def write(self, send: Send[Result]) -> Result:
        """Call `send` until it works; raises NotStored if the crawl ends first.

        `send` is repeated after errors that may pass, and raises all others.
        """
        while True:
            self._check_end()
            try:
                result = await self._attempt(send)
            except PyMongoError as error:
                if not may_pass(error):
                    raise
                self._on_failure()
                self._health.failed(self._what, error)
                self._breaker.failed(monotonic(), random.random())
                await self._wait(self._breaker.retry_at)
            else:
                self._breaker.worked()
                self._report_state()
                # The end of a crawl may have more to write than fits into its time.
                self._give_up_at = None
                self._health.worked(self._what)
                return result

    async def _attempt(self, send: Send[Result]) -> Result:
        task = asyncio.get_running_loop().create_task(send())
        try:
            until_s = monotonic() + self._timeout_s
            while not (await asyncio.wait({task}, timeout=_POLL_S))[0]:
                self._check_end()
                if monotonic() > until_s:
                    raise NetworkTimeout(f"no answer within {self._timeout_s:g} s")
            return task.result()
        finally:
            abandon(task)

    async def _wait(self, until_s: float) -> None:
        self._report_state()
        while (left_s := until_s - monotonic()) > 0:
            await asyncio.sleep(min(left_s, _POLL_S))
            self._check_end()
        self._breaker.enter(monotonic())
        self._report_state()

    def _check_end(self) -> None:
        """Raise NotStored when the crawl ends and MongoDB had time to answer."""
        if self._given_up:
            raise NotStored("MongoDB was given up on.")
        if not self._is_closing():
            return
        if self._give_up_at is None:
            self._give_up_at = monotonic() + _GIVE_UP_S
        elif monotonic() > self._give_up_at:
            self._given_up = True
            logger.error(
                "MongoDB does not answer and the crawl ends: pages that are not stored go back to "
                "the frontier"
            )
            raise NotStored("MongoDB does not answer.")

    def _report_state(self) -> None:
        if self._state != self._breaker.state:
            self._state = self._breaker.state
            self._on_change(self._state)


# The stat with the state of the store: "ok" or "away"; "off" in crawls without a store.
STORE_STATE = "store/state"
STORE_WORKS = frozenset({"ok", "off"})


class StoreStats:
    """Counters of one sink, updated once for each batch."""

    def __init__(self, stats: StatsCollector) -> None:
        self._stats = stats
        self._written = self._body_bytes = self._compressed_bytes = self._batches = 0

    def opened(self) -> None:
        self._stats.set_value("store/breaker", CLOSED)
        self._stats.set_value(STORE_STATE, "ok")

    def wrote(self, written: Sequence[Storable], flush_s: float) -> None:
        """Count a batch that is durable."""
        stats, pages = self._stats, [each.page for each in written if each.page.status]
        kept = [each for each in written if each.content is not None]
        # Successful pages without content that are no duplicates, such as noindex.
        not_kept = [
            each
            for each in written
            if each.content is None and each.page.is_success and not each.page.duplicate_of
        ]
        self._batches += 1
        self._written += len(written)
        self._body_bytes += sum(len(each.page.body) for each in kept)
        self._compressed_bytes += sum(each.compressed_bytes for each in kept)
        stats.set_value(STORE_STATE, "ok")
        stats.inc_value("store/pages", len(kept))
        stats.inc_value("store/not_kept", len(not_kept))
        stats.inc_value("store/records", len(pages))
        stats.inc_value("store/failed_urls", len(written) - len(pages))
        stats.inc_value("store/bytes", sum(page.size_bytes for page in pages))
        stats.set_value("store/batches", self._batches)
        stats.set_value("store/batch_fill", round(self._written / self._batches, 1))
        stats.max_value("store/batch_fill_max", len(written))
        stats.inc_value("store/flush_ms", round(flush_s * 1000))
        stats.max_value("store/flush_ms_max", round(flush_s * 1000))
        stats.set_value("store/compressed_bytes", self._compressed_bytes)
        if self._compressed_bytes:
            ratio = self._body_bytes / self._compressed_bytes
            stats.set_value("store/compression_ratio", round(ratio, 2))

    def failed(self) -> None:
        """Count a batch that failed; it is tried again."""
        self._stats.inc_value("store/failed_flushes")
        self._stats.set_value(STORE_STATE, "away")

    def breaker(self, state: str) -> None:
        """Note a new state of the breaker."""
        self._stats.set_value("store/breaker", state)
        if state != CLOSED:
            self._stats.inc_value(f"store/breaker_{state}")
