"""Send what a process has to tell the frontier, in batches, until Redis has acknowledged it.

Group commit: one flush is in flight, the next takes all that waits. Every verb may be repeated, so
a flush that failed is sent again as it was; while Redis is away everything waits here. What waits
is bounded by the leases a process holds, since nothing new is claimed meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice

from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier, Lease, RedisAway

logger = logging.getLogger(__name__)

_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 5.0

Add = tuple[Sequence[Entry], bool, "asyncio.Future[list[bool]]"]


class Outbox:
    """Adds and settlements on their way to Redis."""

    def __init__(self, frontier: Frontier, on_flushed: Callable[[], None]) -> None:
        self._frontier = frontier
        # Called after each flush: hosts and URLs may have become claimable.
        self._on_flushed = on_flushed
        self._clear()
        self._task: asyncio.Task[None] | None = None

    def _clear(self) -> None:
        self._adds: list[Add] = []
        self._releases: list[tuple[Lease, int]] = []
        self._done: list[tuple[Lease, bool]] = []
        self._retries: list[tuple[Lease, int, Entry]] = []
        self._buried: list[tuple[Lease, str]] = []
        self._handed_back: list[tuple[Lease, int]] = []

    @property
    def empty(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return self._task is None

    def add(
        self, entries: Sequence[Entry], *, force: bool = False
    ) -> asyncio.Future[list[bool]]:
        """Add URLs; the future says of each whether it was new, when Redis has them.

        What is passed here before a settlement reaches Redis before it.
        """
        future: asyncio.Future[list[bool]] = asyncio.get_running_loop().create_future()
        self._adds.append((entries, force, future))
        self._flush_soon()
        return future

    def release(self, lease: Lease, rest_ms: int) -> None:
        """The fetch ended; its host rests."""
        self._releases.append((lease, rest_ms))
        self._flush_soon()

    def done(self, lease: Lease, *, page: bool) -> None:
        """The URL is finished. Call it after its links were acknowledged."""
        self._done.append((lease, page))
        self._flush_soon()

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """The URL comes back later as `entry`."""
        self._retries.append((lease, wait_ms, entry))
        self._flush_soon()

    def bury(self, lease: Lease, reason: str) -> None:
        """The URL goes to the dead-letter queue."""
        self._buried.append((lease, reason))
        self._flush_soon()

    def hand_back(self, lease: Lease, wait_ms: int) -> None:
        """The URL was not fetched; its host rests, and it is next in line."""
        self._handed_back.append((lease, wait_ms))
        self._flush_soon()

    async def drain(self) -> None:
        """Return when Redis has acknowledged all of it."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def _flush_soon(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while batch := self._take():
                for send in batch:
                    await self._insist(send)
                self._on_flushed()
        finally:
            self._task = None

    def _take(self) -> list[Callable[[], Awaitable[None]]]:
        """All that waits, as calls in the order they must reach Redis: adds come first."""
        frontier = self._frontier
        calls: list[Callable[[], Awaitable[None]]] = []
        for force in (False, True):
            adds = [add for add in self._adds if add[1] is force]
            if adds:
                calls.append(partial(self._send_adds, adds, force))
        for send, waiting in (
            (frontier.release, self._releases),
            (frontier.done, self._done),
            (frontier.retry, self._retries),
            (frontier.bury, self._buried),
            (frontier.hand_back, self._handed_back),
        ):
            if waiting:
                calls.append(partial(send, waiting))  # type: ignore[arg-type]
        self._clear()
        return calls

    async def _send_adds(self, adds: list[Add], force: bool) -> None:
        entries = [entry for part, _, _ in adds for entry in part]
        answers = iter(await self._frontier.add(entries, force=force))
        for part, _, future in adds:
            answer = list(islice(answers, len(part)))
            if not future.done():
                future.set_result(answer)

    async def _insist(self, call: Callable[[], Awaitable[None]]) -> None:
        """Repeat a call until Redis has taken it."""
        backoff = _BACKOFF_S
        while True:
            try:
                await call()
                return
            except RedisAway as error:
                if backoff == _BACKOFF_S:
                    logger.warning("Redis does not take what was sent (%s); sending again", error)
                await asyncio.sleep(backoff * (1 + random.random()))
                backoff = min(backoff * 2, _BACKOFF_MAX_S)
