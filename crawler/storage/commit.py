"""Write items in batches, one at a time, and repeat what fails. The same for every sink.

GroupCommit     collects the next batch while one is written
RetryingWriter  repeats writes while a server is away; gives up only when the crawl ends
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from crawler.errors import NotStored, SinkAway
from crawler.util.backoff import Backoff
from crawler.util.breaker import CLOSED, Breaker
from crawler.util.tasks import abandon

if TYPE_CHECKING:
    from crawler.servers.health import ServerHealth
    from crawler.storage.sink import Place, Results

logger = logging.getLogger(__name__)

# A batch costs the client about 1 ms, as much as 40 pages in it: more need not be waited for.
_WORTH_WRITING = 64
# Items whose waiters go on at once; what they do takes about 50 µs each.
_WOKEN = 16

Item = TypeVar("Item")


class _Waiting(NamedTuple, Generic[Item]):
    item: Item
    size_bytes: int
    since_s: float
    future: asyncio.Future[Place | None]


# Items, and what became of each: an error, its place, or nothing to tell.
_Outcomes = list[tuple[_Waiting[Item], "Exception | Place | None"]]


class GroupCommit(Generic[Item]):
    """Queue of items for one writer, each with a future that is done when the item is durable.

    The queue is bounded by those who wait: each page's lease is held until its future is done.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Coroutine[Any, Any, Results | None]],
        *,
        batch_max: int,
        batch_max_bytes: int,
        linger_s: float = 0.0,
    ) -> None:
        """A batch that is not worth its cost yet waits `linger_s` for more items."""
        self._write = write
        self._batch_max = batch_max
        self._batch_max_bytes = batch_max_bytes
        self._linger_s = linger_s
        self._enough = min(batch_max, _WORTH_WRITING)
        self._waiting: deque[_Waiting[Item]] = deque()
        self._batch: list[_Waiting[Item]] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, item: Item, size_bytes: int) -> asyncio.Future[Place | None]:
        """Write an item soon; the future is done when it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Place | None] = loop.create_future()
        self._waiting.append(_Waiting(item, size_bytes, monotonic(), future))
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

    @property
    def waiting(self) -> int:
        """Number of items that are not durable yet."""
        return len(self._batch) + len(self._waiting)

    @property
    def oldest_s(self) -> float | None:
        """When the oldest of them came, by monotonic(); None without any."""
        for waiting in (self._batch, self._waiting):
            if waiting:
                return waiting[0].since_s
        return None

    async def _write_all(self) -> None:
        written: _Outcomes[Item] = []
        try:
            while True:
                if len(self._waiting) < self._enough:
                    # Others may wait for these before they bring more.
                    await self._settle(written)
                    if not self._waiting:
                        return
                    await self._linger()
                self._batch = self._next_batch()
                write = asyncio.get_running_loop().create_task(self._commit(self._batch))
                # Those who waited go on while the server is at work.
                await self._settle(written)
                written = await write
                self._batch = []
        finally:
            self._task = None

    async def _linger(self) -> None:
        """Wait for more items, but not for long."""
        if self._linger_s and len(self._waiting) < self._enough:
            self._full.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._full.wait()

    async def _settle(self, written: _Outcomes[Item]) -> None:
        """Set the future of each item, in groups: the next write gets its turns in between.

        Takes the items out of the list, so that none is held in memory longer than it is needed.
        """
        while written:
            some = written[:_WOKEN]
            del written[:_WOKEN]
            for each, result in some:
                if each.future.done():
                    continue
                if isinstance(result, Exception):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)
            await asyncio.sleep(0)

    def _next_batch(self) -> list[_Waiting[Item]]:
        batch = [self._waiting.popleft()]
        size_bytes = batch[0].size_bytes
        while self._waiting and len(batch) < self._batch_max:
            size_bytes += self._waiting[0].size_bytes
            if size_bytes > self._batch_max_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _commit(self, batch: list[_Waiting[Item]]) -> _Outcomes[Item]:
        """Write a batch; return what became of each item."""
        try:
            results = await self._write([each.item for each in batch]) or {}
        except Exception as error:  # noqa: BLE001 - pages must not wait for ever, whatever it was
            if len(batch) > 1 and not isinstance(error, (NotStored, SinkAway)):
                # One page may be the cause; the others must not fail for it.
                return [outcome for one in batch for outcome in await self._commit([one])]
            results = dict.fromkeys(range(len(batch)), error)
        return [(each, results.get(i)) for i, each in enumerate(batch)]


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

    `is_away` tells the errors that pass from all others. `at_end` says what becomes of what is not
    written when the crawl ends, for the log. `on_failure` is called for each failed write;
    `on_change` gets the state of the breaker whenever that or the server's may have changed.
    """

    def __init__(
        self,
        what: str,
        health: ServerHealth,
        *,
        is_away: Callable[[Exception], bool],
        is_closing: Callable[[], bool],
        timeout_s: float,
        at_end: str = "pages that are not stored go back to the frontier",
        on_failure: Callable[[], None] = lambda: None,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._what = what
        self._health = health
        self._is_away = is_away
        self._is_closing = is_closing
        # A write that takes longer has failed, however many messages it consists of.
        self._timeout_s = timeout_s
        self._at_end = at_end
        self._on_failure = on_failure
        self._on_change = on_change
        # Few attempts count: each takes seconds to fail, and what is fetched meanwhile waits.
        self._breaker = Breaker(2, among=4, backoff=_BACKOFF)
        self._is_failing = False
        self._give_up_at: float | None = None
        self._given_up = False

    async def write(self, send: Send[Result], *, is_patient: bool = True) -> Result:
        """Call `send` until it works; raises NotStored if the crawl ends first.

        `send` is repeated after errors that pass, and raises all others. An impatient caller gets
        SinkAway as soon as the breaker is not closed.
        """
        while True:
            if not is_patient and self._breaker.state != CLOSED:
                raise SinkAway(f"{self._health.server} is away.")
            self._check_end()
            try:
                result = await self._attempt(send)
            except NotStored:
                # The crawl ends while an attempt waits: that was no answer.
                raise
            except Exception as error:
                if not (isinstance(error, (TimeoutError, SinkAway)) or self._is_away(error)):
                    # It answered.
                    self._worked()
                    raise
                self._is_failing = True
                self._health.failed(self._what, error)
                self._breaker.failed(monotonic(), random.random())
                self._on_failure()
                self._on_change(self._breaker.state)
                await self._wait(self._breaker.retry_at, is_patient=is_patient)
            else:
                self._worked()
                return result

    def _worked(self) -> None:
        self._breaker.worked()
        self._health.worked(self._what)
        if self._is_failing:
            self._is_failing = False
            self._on_change(self._breaker.state)
        # The end of a crawl may have more to write than fits into its time.
        self._give_up_at = None

    async def _attempt(self, send: Send[Result]) -> Result:
        task = asyncio.get_running_loop().create_task(send())
        try:
            until_s = monotonic() + self._timeout_s
            while not (await asyncio.wait({task}, timeout=_POLL_S))[0]:
                self._check_end()
                if monotonic() > until_s:
                    raise TimeoutError(f"no answer within {self._timeout_s:g} s")
            return task.result()
        finally:
            abandon(task)

    async def _wait(self, until_s: float, *, is_patient: bool) -> None:
        if not is_patient and self._breaker.state != CLOSED:
            return
        while (left_s := until_s - monotonic()) > 0:
            await asyncio.sleep(min(left_s, _POLL_S))
            self._check_end()
        self._breaker.enter(monotonic())
        self._on_change(self._breaker.state)

    def _check_end(self) -> None:
        """Raise NotStored when the crawl ends and the server had time to answer."""
        server = self._health.server
        if self._given_up:
            raise NotStored(f"{server} was given up on.")
        if not self._is_closing():
            return
        if self._give_up_at is None:
            self._give_up_at = monotonic() + _GIVE_UP_S
        elif monotonic() > self._give_up_at:
            self._given_up = True
            logger.error("%s does not answer and the crawl ends: %s", server, self._at_end)
            raise NotStored(f"{server} does not answer.")
