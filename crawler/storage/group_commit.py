"""Write what waits in batches, one at a time: the next takes all that came meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from crawler.errors import NotStored
from crawler.storage.documents import Documents
from crawler.storage.writer import Faults

logger = logging.getLogger(__name__)

# A batch costs the client about 1 ms, as much as 40 pages in it: more need not be waited for.
_WORTH_WRITING = 64

Waiting = tuple[Documents, "asyncio.Future[None]"]


class GroupCommit:
    """Bounded by who waits: each page's lease is held until its future is done."""

    def __init__(
        self,
        write: Callable[[Sequence[Documents]], Awaitable[Faults]],
        *,
        batch_max: int,
        batch_max_bytes: int,
        linger_s: float,
    ) -> None:
        self._write = write
        self._batch_max = batch_max
        self._batch_max_bytes = batch_max_bytes
        # A batch costs as much as some pages do, so it waits a little for more of them.
        self._linger_s = linger_s
        self._enough = min(batch_max, _WORTH_WRITING)
        self._waiting: deque[Waiting] = deque()
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, documents: Documents) -> asyncio.Future[None]:
        """Write this soon; the future is done when it is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((documents, future))
        if len(self._waiting) >= self._enough:
            self._full.set()
        if self._task is None:
            self._task = loop.create_task(self._write_all())
        return future

    async def drain(self) -> None:
        """Write all that waits, at once."""
        self._linger_s = 0.0
        self._full.set()
        if self._task is not None:
            await self._task

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._linger()
                await self._commit(self._next_batch())
        finally:
            self._task = None

    async def _linger(self) -> None:
        if self._linger_s and len(self._waiting) < self._enough:
            self._full.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._full.wait()

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
        """Write a batch and tell each page how it went."""
        try:
            faults: Mapping[int, Exception] = await self._write(
                [documents for documents, _ in batch]
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, the pages must not wait
            if len(batch) > 1 and not isinstance(error, NotStored):
                # One page may be at fault; the others must not suffer for it.
                for one in batch:
                    await self._commit([one])
                return
            faults = dict.fromkeys(range(len(batch)), error)
        for i, (documents, future) in enumerate(batch):
            fault = faults.get(i)
            if fault is not None and not isinstance(fault, NotStored):
                logger.error("MongoDB did not take %s: %s", documents.page.url, fault)
            if future.done():
                continue
            if fault is None:
                future.set_result(None)
            else:
                future.set_exception(fault)
