"""Write pages to the two collections in batches, one at a time; says which pages were at fault.

Content goes first, so that metadata never points to what is not there. Every write may be repeated.
The next batch takes all that came meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure

from crawler.errors import NotStored
from crawler.servers.mongo import DUPLICATE_KEY, code_may_pass
from crawler.storage.documents import Documents, Operation
from crawler.storage.schema import CONTENT, METADATA

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

logger = logging.getLogger(__name__)


# Position in the batch → why it was not written.
Faults = dict[int, OperationFailure]


class Writer:
    """The pages of one database."""

    def __init__(
        self, database: AsyncDatabase[dict[str, Any]], concern: WriteConcern, *, one_journal: bool
    ) -> None:
        # Where both collections have one journal, what was written before is safe with it.
        first = {**concern.document, "j": False} if one_journal else concern.document
        self._content = database.get_collection(CONTENT, write_concern=WriteConcern(**first))
        self._metadata = database.get_collection(METADATA, write_concern=concern)

    async def write(self, batch: Sequence[Documents]) -> Faults:
        """Store a batch; raises what may pass, see servers/mongo.py."""
        with_content = [i for i, each in enumerate(batch) if each.content is not None]
        faults, _ = await _write(
            self._content, batch, with_content, Documents.insert_content, Documents.update_content
        )
        whole = [i for i in range(len(batch)) if i not in faults]
        more, updated = await _write(
            self._metadata, batch, whole, Documents.insert_metadata, Documents.update_metadata
        )
        bare = [batch[i] for i in updated if _has_no_content_now(batch[i])]
        if bare:
            await self._content.bulk_write([each.delete_content() for each in bare], ordered=False)
        return faults | more


Make = Callable[[Documents], Operation]


async def _write(
    collection: AsyncCollection[dict[str, Any]],
    batch: Sequence[Documents],
    chosen: Sequence[int],
    insert: Make,
    update: Make,
) -> tuple[Faults, list[int]]:
    """Insert what is new and update what is known; also returns which were updated."""
    fresh = [i for i in chosen if not batch[i].known]
    errors = await _bulk(collection, [insert(batch[i]) for i in fresh])
    existing = {fresh[n] for n, error in errors.items() if _is_duplicate(error)}
    faults = {fresh[n]: error for n, error in errors.items() if not _is_duplicate(error)}
    updated = [i for i in chosen if i in existing or batch[i].known]
    errors = await _bulk(collection, [update(batch[i]) for i in updated])
    # A duplicate key here: what is stored is newer.
    faults |= {updated[n]: error for n, error in errors.items() if not _is_duplicate(error)}
    return faults, updated


async def _bulk(collection: AsyncCollection[dict[str, Any]], operations: list[Operation]) -> Faults:
    """Write, and return the errors of single operations by their positions."""
    if not operations:
        return {}
    try:
        await collection.bulk_write(operations, ordered=False)
    except BulkWriteError as error:
        details = error.details
        errors = details["writeErrors"]
        passing = [each for each in errors if code_may_pass(each["code"])]
        for each in (*passing, *details["writeConcernErrors"]):
            raise OperationFailure(each["errmsg"], each["code"], each) from error
        return {
            each["index"]: OperationFailure(each["errmsg"], each["code"], each) for each in errors
        }
    return {}


def _is_duplicate(error: OperationFailure) -> bool:
    return error.code == DUPLICATE_KEY


def _has_no_content_now(documents: Documents) -> bool:
    """Was it answered, but not with content of its own? What a page had before is not it."""
    page = documents.page
    return 200 <= page.status < 300 and documents.content is None


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
