"""Collect what is to be stored into batches, and write one batch at a time.

While a batch is written, the next one collects. This is the part of a sink that does not depend on
where pages go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from crawler.errors import NotStored

logger = logging.getLogger(__name__)

# A batch costs the client about 1 ms, as much as 40 pages in it: more need not be waited for.
_WORTH_WRITING = 64


# Position in the batch → why the item was not written.
Faults = Mapping[int, Exception]


class Storable(Protocol):
    """One page, in the form in which a sink writes it."""

    @property
    def url(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...


Waiting = tuple[Storable, "asyncio.Future[None]"]


class GroupCommit:
    """Queue of items for one writer, each with a future that is done when the item is durable.

    The queue is bounded by those who wait: each page's lease is held until its future is done.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Any]], Awaitable[Faults]],
        *,
        batch_max: int,
        batch_max_bytes: int,
        linger_s: float,
    ) -> None:
        """A batch that is not worth its cost yet waits `linger_s` for more items."""
        self._write = write
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
        try:
            faults = await self._write([item for item, _ in batch])
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
                logger.error("MongoDB did not take %s: %s", item.url, fault)
            if future.done():
                continue
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)
