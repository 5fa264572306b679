"""Write pages to MongoDB in batches; retry while it is away.

Content is written before metadata, so that metadata never points to content that is missing. Every
write may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError
from pymongo.errors import ConfigurationError as MongoConfigurationError

from crawler.errors import ConfigurationError
from crawler.servers.mongo import DUPLICATE_KEY, code_may_pass, explain, start_error
from crawler.storage.group_commit import GroupCommit
from crawler.storage.mongo import schema
from crawler.storage.mongo.documents import Documents, Operation, compressor, documents_of
from crawler.storage.mongo.schema import CONTENT, METADATA
from crawler.util.tasks import end

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

    from crawler.items import Page
    from crawler.storage.retry import RetryingWriter
    from crawler.storage.stats import StoreStats

logger = logging.getLogger(__name__)

# Larger pages are made into documents in a thread; this many bytes take about 0.5 ms.
_INLINE_BYTES = 150_000

# Position in the batch → why the page was not written.
Faults = dict[int, OperationFailure]


class MongoSink:
    """Sink that keeps pages in the collections `pages_metadata` and `pages_content`.

    A page is durable when the future of `put` is done. `commit` are the options of GroupCommit.
    """

    def __init__(
        self, codec: str, retrying_writer: RetryingWriter, stats: StoreStats, commit: dict[str, Any]
    ) -> None:
        self._codec = codec
        self._compress = compressor(codec)
        self._retrying_writer = retrying_writer
        self._stats = stats
        self._commit = GroupCommit(self._write, **commit)
        self._content: AsyncCollection[dict[str, Any]]
        self._metadata: AsyncCollection[dict[str, Any]]
        # Makes indexes that an older database lacks, while the crawl runs.
        self._indexing: asyncio.Task[None] | None = None

    async def open(
        self, client: AsyncMongoClient[dict[str, Any]], name: str, concern: dict[str, Any]
    ) -> None:
        """Prepare a database; ServerAway or ConfigurationError if it cannot be written to."""
        database = client[name]
        try:
            await schema.check_writable(database)
            if await schema.prepare(database):
                self._indexing = asyncio.create_task(_add_indexes(database))
        except PyMongoError as error:
            raise start_error(
                error,
                f"MongoDB cannot be written to: {explain(error)}. To write pages to a file "
                "instead: -s PAGES_STORE=none -O pages.jsonl",
            ) from error
        last = first = write_concern({**concern, **database.write_concern.document})
        if not await client.is_mongos:
            # On one server both collections share a journal: the last write makes both durable.
            first = WriteConcern(**{**last.document, "j": False})
        self._content = database.get_collection(CONTENT, write_concern=first)
        self._metadata = database.get_collection(METADATA, write_concern=last)
        self._stats.opened()

    async def close(self) -> None:
        """Write everything that waits."""
        if self._indexing is not None:
            await end(self._indexing)
        await self._commit.drain()

    def put(self, page: Page) -> asyncio.Future[None]:
        """Write a page soon; the future is done when it is durable."""
        if len(page.body) + len(page.text) > _INLINE_BYTES:
            return asyncio.ensure_future(self._put_large(page))
        return self._commit.put(documents_of(page, self._codec, self._compress))

    async def _put_large(self, page: Page) -> None:
        def make() -> Documents:
            # A compressor serves one thread at a time.
            return documents_of(page, self._codec, compressor(self._codec))

        await self._commit.put(await asyncio.to_thread(make))

    async def _write(self, batch: Sequence[Documents]) -> Faults:
        started_s = monotonic()
        faults = await self._retrying_writer.write(partial(self._write_once, batch))
        written = [each for i, each in enumerate(batch) if i not in faults]
        self._stats.wrote(written, monotonic() - started_s)
        return faults

    async def _write_once(self, batch: Sequence[Documents]) -> Faults:
        """Write a batch; raises errors that may pass (servers/mongo.py)."""
        with_content = [i for i, each in enumerate(batch) if each.content is not None]
        faults, _ = await _upsert(
            self._content, batch, with_content, Documents.insert_content, Documents.update_content
        )
        whole = [i for i in range(len(batch)) if i not in faults]
        more, updated = await _upsert(
            self._metadata, batch, whole, Documents.insert_metadata, Documents.update_metadata
        )
        # Pages that had content at an earlier visit, and have none of their own now.
        bare = [batch[i] for i in updated if batch[i].content is None and batch[i].page.is_success]
        if bare:
            await self._content.bulk_write([each.delete_content() for each in bare], ordered=False)
        return faults | more


Make = Callable[[Documents], Operation]


async def _upsert(
    collection: AsyncCollection[dict[str, Any]],
    batch: Sequence[Documents],
    chosen: Sequence[int],
    insert: Make,
    update: Make,
) -> tuple[Faults, list[int]]:
    """Insert new pages and update known ones; also returns the positions of the updated ones."""
    fresh = [i for i in chosen if not batch[i].is_known]
    errors = await _bulk(collection, [insert(batch[i]) for i in fresh])
    existing = {fresh[n] for n, error in errors.items() if error.code == DUPLICATE_KEY}
    faults = {fresh[n]: error for n, error in errors.items() if error.code != DUPLICATE_KEY}
    updated = [i for i in chosen if i in existing or batch[i].is_known]
    errors = await _bulk(collection, [update(batch[i]) for i in updated])
    # A duplicate key here means that the stored document is newer.
    faults |= {updated[n]: error for n, error in errors.items() if error.code != DUPLICATE_KEY}
    return faults, updated


async def _bulk(collection: AsyncCollection[dict[str, Any]], operations: list[Operation]) -> Faults:
    """Write, and return the errors of single operations by position."""
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


async def _add_indexes(database: AsyncDatabase[dict[str, Any]]) -> None:
    logger.info("The database %r gets an index to find a page by its url", database.name)
    try:
        await schema.add_indexes(database)
    except PyMongoError as error:
        logger.warning(
            "The index to find a page by its url is not made (%s); the next run tries again, "
            "or now: scrapy pages repair",
            explain(error),
        )


def write_concern(values: dict[str, Any]) -> WriteConcern:
    """Make the write concern; ConfigurationError if pymongo refuses it, or if it may lose pages."""
    try:
        concern = WriteConcern(**values)
    except (MongoConfigurationError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"STORE_WRITE_CONCERN is {values!r} ({error}); use names and values of MongoDB's write "
            'concern, as {"w": "majority", "j": true}.'
        ) from error
    if not concern.acknowledged:
        raise ConfigurationError(
            f"STORE_WRITE_CONCERN is {values!r}: a page that MongoDB does not acknowledge may be "
            "lost; set w to 1 or more."
        )
    return concern
