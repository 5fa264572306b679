"""Collections of pages in MongoDB: names, indexes, version, and the migration of an older version.

`pages_metadata` has a document for each URL of each crawl, `pages_content` one for each page whose
content is kept (its `page_id` is the `url_hash` of the metadata). Both are found by their crawl and
hash. The collection `pages_schema` has a document with the version, and the locks of tiers.

Documents of version 1 do not say which crawl they are of. The migration gives them the name of one:

    1  the schema gets the new version and a field `migration`: the name, and a lock
    2  documents without a crawl get the name, in batches by `_id`
    3  the new indexes are made, then the old unique ones are dropped
    4  `migration` is removed from the schema

While it has that field, the database is read and written by nobody else. Every step may be
repeated: after a crash another process takes the lock when it has expired, and goes on.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pymongo
from pymongo import ASCENDING, HASHED, IndexModel, ReturnDocument, WriteConcern
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.mongo import READ_ONLY, UNAUTHORIZED
from crawler.util.tasks import end

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

logger = logging.getLogger(__name__)

Document = dict[str, Any]

METADATA, CONTENT = "pages_metadata", "pages_content"
# Raised when documents change so that other versions of this program would misread them.
VERSION = 2
# Seconds that an operation on a whole collection may take, whatever MONGO_TIMEOUT is.
LONG_S = 3600.0

SCHEMA = "pages_schema"
_ID = {"_id": "pages"}
# For people who ask by URL. Hashed: 20 to 40 bytes a page, where the URLs take 50 to 60.
_BY_URL = IndexModel([("url", HASHED)])
_BY_PRIORITY = IndexModel([("priority", ASCENDING), ("next_crawl", ASCENDING)])
# With the crawl, the identity of a document.
_HASH = {METADATA: "url_hash", CONTENT: "page_id"}
_IDENTITY = {
    name: IndexModel([("crawl", ASCENDING), (key, ASCENDING)], unique=True)
    for name, key in _HASH.items()
}
_INDEXES = {
    METADATA: [
        _IDENTITY[METADATA],
        _BY_URL,
        IndexModel("domain"),
        IndexModel("crawled_at"),
        IndexModel("content_hash"),
        IndexModel("depth"),
        IndexModel("next_crawl"),
        _BY_PRIORITY,
        IndexModel([("status", ASCENDING), ("crawled_at", ASCENDING)]),
    ],
    CONTENT: [_IDENTITY[CONTENT]],
}
# Unique indexes of version 1: with them, only one crawl could store a URL.
_OLD_INDEXES = {METADATA: "url_hash_1", CONTENT: "page_id_1"}
_INDEX_NOT_FOUND = 27
# Crawl of a document that has none; None finds missing fields.
_NAMELESS = {"$in": [None, ""]}


async def prepare(database: AsyncDatabase[Document], crawl: str) -> None:
    """Make the indexes of a new database, or migrate one of an older version.

    Raises ConfigurationError for a database of a newer version.
    """
    found = await _read(database)
    if found is None and await database[METADATA].find_one({"crawl": _NAMELESS}, {"_id": True}):
        # Pages without a schema, as after a restore of some collections.
        found = {**_ID, "version": 1}
        with suppress(DuplicateKeyError):
            await database[SCHEMA].insert_one(found)
    if found is None:
        await make_indexes(database)
        await _drop_old_indexes(database)
        new = {**_ID, "version": VERSION, "created_at": datetime.now(UTC)}
        try:
            await database[SCHEMA].insert_one(new)
        except DuplicateKeyError:
            # Another process was faster, and may be of another version.
            await prepare(database, crawl)
    elif _is_old(found):
        await Migration(database, crawl).run()


async def identity(database: AsyncDatabase[Document]) -> str:
    """Return when the schema was made, by which a new database is known; empty if it is not whole.

    A collection that was dropped comes back with the next page, and without its indexes.
    """
    found = await database[SCHEMA].find_one(_ID, {"created_at": True})
    try:
        for name, index in _IDENTITY.items():
            if index.document["name"] not in await database[name].index_information():
                return ""
    except OperationFailure as error:
        # A user who may not list indexes learns of dropped databases all the same.
        if error.code != UNAUTHORIZED:
            raise
    made = (found or {}).get("created_at")
    return made.isoformat() if made is not None else ""


async def check_writable(database: AsyncDatabase[Document]) -> None:
    """Raise ServerAway if the server takes no writes now."""
    hello = await database.client.admin.command("hello")
    if not hello.get("isWritablePrimary"):
        raise ServerAway(f"MongoDB cannot be written to: {READ_ONLY}.")


async def check(database: AsyncDatabase[Document]) -> None:
    """Raise ConfigurationError for a database of another version."""
    if await is_old(database):
        raise ConfigurationError(
            f"The database {database.name!r} has pages of an earlier version, which do not say "
            "which crawl they are of: start their crawl, or give them its name with "
            "`scrapy pages migrate --crawl NAME`."
        )


async def is_old(database: AsyncDatabase[Document]) -> bool:
    """Whether the pages are of an earlier version, or their migration has not ended."""
    found = await _read(database)
    return found is not None and _is_old(found)


async def make_indexes(database: AsyncDatabase[Document]) -> None:
    """Make all indexes that are missing."""
    with pymongo.timeout(LONG_S):
        for name, indexes in _INDEXES.items():
            await database[name].create_indexes(indexes)


async def count_documents(database: AsyncDatabase[Document]) -> int:
    """Estimate the number of documents of all pages."""
    return sum([await database[name].estimated_document_count() for name in _INDEXES])


async def _read(database: AsyncDatabase[Document]) -> Document | None:
    """Read the schema; None for a new database, ConfigurationError for one of a newer version."""
    found = await database[SCHEMA].find_one(_ID)
    if found is not None and found["version"] > VERSION:
        raise ConfigurationError(
            f"The database {database.name!r} has pages of version {found['version']}, and this "
            f"program knows version {VERSION}: use the program that wrote them, or another "
            "database (-s MONGO_DATABASE=…)."
        )
    return found


def _is_old(found: Document) -> bool:
    return found["version"] < VERSION or "migration" in found


async def _drop_old_indexes(database: AsyncDatabase[Document]) -> None:
    with pymongo.timeout(LONG_S):
        for name, index in _OLD_INDEXES.items():
            try:
                await database[name].drop_index(index)
            except OperationFailure as error:
                if error.code != _INDEX_NOT_FOUND:
                    raise


# --- migration from version 1 ---------------------------------------------------------------------

# Documents that get their crawl's name together, and seconds that this may take.
_BATCH, _BATCH_S = 1000, 300.0
# A lock that is not renewed for this long is free: its process has died.
_LOCK_S, _RENEW_S, _POLL_S = 15.0, 4.0, 1.0
_LOG_S = 5.0
_RELEASE_S = 2.0


class Progress(Protocol):
    """What is told of a migration. `done` and `total` are numbers of documents."""

    def named(self, crawl: str, done: int, total: int) -> None:
        """Tell that a batch has the name of its crawl."""

    def waits(self, crawl: str, done: int) -> None:
        """Tell, about once a second, that another process does the work."""


class Migration:
    """Migration from version 1 to 2, by one process at a time; the others wait for its end.

    `crawl` is the name that documents get, unless a migration that began earlier has another.
    """

    def __init__(
        self, database: AsyncDatabase[Document], crawl: str, progress: Progress | None = None
    ) -> None:
        """`progress` is told how far it is; None writes to the log."""
        self.crawl = crawl
        self._database = database
        # A failover must not bring the old indexes back when pages are written by the new ones.
        self._schema = database.get_collection(SCHEMA, write_concern=WriteConcern("majority"))
        self._progress = progress or _LoggedProgress()
        # Names this attempt, also among those of one process.
        self._owner = uuid4().hex

    async def run(self) -> None:
        """Migrate the database, or wait until another process has; may be cancelled."""
        while (state := await self._take_lock()) is not None:
            if state["owner"] == self._owner:
                await self._migrate(state)
            else:
                self._progress.waits(self.crawl, _done(state))
                await asyncio.sleep(_POLL_S)

    async def _take_lock(self) -> Document | None:
        """Take the lock if it is free; return the state, or None if the migration has ended."""
        # A missing field is less than any time.
        is_free = {"$lte": ["$migration.expires_at", "$$NOW"]}
        state = {
            "crawl": {"$ifNull": ["$migration.crawl", {"$literal": self.crawl}]},
            "owner": {"$cond": [is_free, self._owner, "$migration.owner"]},
            "expires_at": {"$cond": [is_free, _LOCK_END, "$migration.expires_at"]},
        }
        found = await self._schema.find_one_and_update(
            {**_ID, "$or": [{"version": {"$lt": VERSION}}, {"migration": {"$exists": True}}]},
            # The version comes first: programs of version 1 refuse to start from here on.
            [{"$set": {"version": VERSION, "migration": state}}],
            return_document=ReturnDocument.AFTER,
        )
        if found is None:
            return None
        self.crawl = found["migration"]["crawl"]
        return {**found["migration"], "indexes": found.get("indexes", 1)}

    async def _migrate(self, state: Document) -> None:
        logger.info(
            "The database %r has pages of an earlier version, which do not say which crawl they "
            "are of: all of them get the name %r",
            *(self._database.name, self.crawl),
        )
        renewal = asyncio.create_task(self._renew_lock())
        try:
            await self._name_documents(state)
            await self._change_indexes(state)
            # Only with the lock: a process that took it over may not be as far.
            ended = await self._schema.update_one(
                {**_ID, "migration.owner": self._owner},
                {"$unset": {"migration": True, "indexes": True}},
            )
            if ended.modified_count:
                logger.info("All pages of the database %r have a crawl now", self._database.name)
        finally:
            await end(renewal)
            # After an error or Ctrl-C, the next one need not wait for the lock's end.
            with suppress(PyMongoError), pymongo.timeout(_RELEASE_S):
                await self._schema.update_one(
                    {**_ID, "migration.owner": self._owner},
                    {"$unset": {"migration.expires_at": True}},
                )

    async def _renew_lock(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            # If the lock is lost, two processes do the same for a while, which is harmless.
            with suppress(PyMongoError):
                await self._schema.update_one(
                    {**_ID, "migration.owner": self._owner},
                    [{"$set": {"migration.expires_at": _LOCK_END}}],
                )

    async def _name_documents(self, state: Document) -> None:
        done, total = _done(state), await count_documents(self._database)
        for name in _INDEXES:
            after = state.get("progress", {}).get(name, {}).get("after")
            while (batch := await self._next_batch(name, after)) is not None:
                await self._name_batch(name, after, batch)
                after, done = batch.last, done + batch.count
                self._progress.named(self.crawl, done, max(done, total))

    async def _next_batch(self, name: str, after: Any) -> _Batch | None:
        chosen = {} if after is None else {"_id": {"$gt": after}}
        found = self._database[name].find(chosen, {"_id": True}, sort=[("_id", ASCENDING)])
        ids = [each["_id"] for each in await found.limit(_BATCH).to_list()]
        return _Batch(ids[-1], len(ids)) if ids else None

    async def _name_batch(self, name: str, after: Any, batch: _Batch) -> None:
        ids = {"$lte": batch.last} | ({} if after is None else {"$gt": after})
        # With the new indexes, after a resume: stragglers are named one by one, later.
        with suppress(DuplicateKeyError), pymongo.timeout(_BATCH_S):
            await self._database[name].update_many(
                {"_id": ids, "crawl": _NAMELESS}, {"$set": {"crawl": self.crawl}}
            )
        # Written afterwards, so that it never claims too much. Without the lock, nothing is.
        await self._schema.update_one(
            {**_ID, "migration.owner": self._owner},
            {
                "$set": {f"migration.progress.{name}.after": batch.last},
                "$inc": {f"migration.progress.{name}.done": batch.count},
            },
        )

    async def _change_indexes(self, state: Document) -> None:
        logger.info("All pages have the name of their crawl %r: indexes are made", self.crawl)
        # Only those that are new: if others are missing, somebody dropped them on purpose.
        added = [_BY_PRIORITY, *([_BY_URL] if state["indexes"] < 2 else [])]
        new = {METADATA: [_IDENTITY[METADATA], *added], CONTENT: [_IDENTITY[CONTENT]]}
        with pymongo.timeout(LONG_S):
            for name, indexes in new.items():
                await self._database[name].create_indexes(indexes)
                await self._name_stragglers(name)
        await _drop_old_indexes(self._database)

    async def _name_stragglers(self, name: str) -> None:
        """Name documents that a process of version 1 wrote meanwhile, some of them again."""
        collection, key = self._database[name], _HASH[name]
        found = collection.find({"crawl": _NAMELESS}, {key: True, "crawled_at": True})
        async for document in found:
            twin = {"crawl": self.crawl, key: document[key]}
            await collection.delete_one({**twin, "crawled_at": {"$lt": document["crawled_at"]}})
            try:
                named = {"$set": {"crawl": self.crawl}}
                await collection.update_one({"_id": document["_id"]}, named)
            except DuplicateKeyError:
                # The one that has the name is newer.
                await collection.delete_one({"_id": document["_id"]})


# When a lock that is taken or renewed now expires, by the server's clock.
_LOCK_END = {"$add": ["$$NOW", round(_LOCK_S * 1000)]}


@dataclass(frozen=True, slots=True)
class _Batch:
    """Documents up to an `_id`, and their number."""

    last: Any
    count: int


def _done(state: Document) -> int:
    return sum(each["done"] for each in state.get("progress", {}).values())


class _LoggedProgress:
    """Progress as a line in the log every few seconds."""

    def __init__(self) -> None:
        # Time and documents at the first batch.
        self._first: tuple[float, int] | None = None
        self._log_at = 0.0

    def named(self, crawl: str, done: int, total: int) -> None:
        now = monotonic()
        self._first = self._first or (now, done)
        if now < self._log_at and done < total:
            return
        self._log_at = now + _LOG_S
        first_at, before = self._first
        left = ""
        if before < done < total:
            left = f", {(total - done) * (now - first_at) / (done - before):.0f} s left"
        logger.info(
            "Pages of an earlier version get the name of their crawl %r: %s of %s documents%s",
            *(crawl, f"{done:,}", f"{total:,}", left),
        )

    def waits(self, crawl: str, done: int) -> None:
        if monotonic() < self._log_at:
            return
        self._log_at = monotonic() + _LOG_S
        logger.info(
            "Another process gives pages of an earlier version the name of their crawl %r "
            "(%s documents so far): this one waits for it",
            *(crawl, f"{done:,}"),
        )
