"""Move content from MongoDB to an object store, and delete it there, by its age.

Retention decides what is due. storage/mongo/moved.py has the states of a document. A batch of
content becomes warm or cold in these steps, and every step may be repeated:

    1  each document gets the name of its object as `loose_object`
    2  the objects are written, and their sizes compared
    3  documents of the same visit get `tier` and `object`, and lose body and text

A process that dies leaves content in MongoDB, and perhaps an object with a document that names it;
the next run writes both again. Content that a crawl stores meanwhile wins: the document keeps it,
and names the object of the earlier visit as loose.

An object that the store does not take, and content that cannot be read, stay as they are, and the
others are moved.

One process at a time works on a crawl, under a lock in `pages_schema` that also says when the next
turn is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pymongo
from pymongo import ASCENDING, IndexModel, ReturnDocument, UpdateOne
from pymongo.errors import DuplicateKeyError, PyMongoError

from crawler.errors import ConfigurationError, CrawlerError, SinkAway
from crawler.storage import objects
from crawler.storage.documents import MADE
from crawler.storage.mongo.moved import (
    GONE,
    NOT_MOVED,
    PARALLEL,
    STATE_FIELDS,
    MovedContent,
    delete_contents,
    is_of_visit,
    object_name,
)
from crawler.storage.mongo.schema import CONTENT, LONG_S, METADATA, SCHEMA
from crawler.storage.mongo.sink import decompress
from crawler.storage.retention import COLD, EXPIRED, HOT, TARGETS, WARM, Retention, Step
from crawler.util.format import plural
from crawler.util.tasks import end, in_parallel

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

logger = logging.getLogger(__name__)

Document = dict[str, Any]

# Content that is moved together: whichever is reached first.
_BATCH, _BATCH_BYTES = 200, 16_000_000
# A lock that is not renewed for this long is free: its process has died.
_LOCK_S, _RENEW_S = 30.0, 8.0
_RELEASE_S = 2.0
# Time from one scheduled run on a crawl to the next.
_TURN_S = 3600.0
_INDEXES = [
    IndexModel([("crawl", ASCENDING), ("tier", ASCENDING), ("crawled_at", ASCENDING)]),
    # Nearly no document has one.
    IndexModel("loose_object", sparse=True),
]


@dataclass(slots=True)
class Moved:
    """Number of pages, and bytes of their content where it was."""

    pages: int = 0
    bytes: int = 0


class Tiering:
    """Pass over the content of one crawl that is due. It may be interrupted and run again."""

    def __init__(
        self,
        database: AsyncDatabase[Document],
        retention: Retention,
        crawl: str,
        *,
        parallel: int = PARALLEL,
    ) -> None:
        """`parallel` is the number of requests to the object store at a time."""
        self._database = database
        self._metadata = database[METADATA]
        self._content = database[CONTENT]
        self._retention = retention
        self._crawl = crawl
        self._parallel = parallel
        self._moved = MovedContent(retention.url)
        self._now = datetime.now(UTC)
        # By target: what was done, or what would be.
        self.done = {to: Moved() for to in TARGETS}
        # Pages that were due and stay as they are: crawled meanwhile, not readable, or refused.
        self.left = 0
        # Objects of earlier visits that were deleted.
        self.loose = 0
        self._steps = retention.keep.steps(self._now)
        # Why pages are left, but for those that were crawled meanwhile.
        self._problems = 0
        self._first_problem = ""

    async def plan(self) -> None:
        """Count what is due, and change nothing. Without its index, all content is read."""
        if not self._steps:
            return
        to = {"branches": [{"case": _is_of_age(step), "then": step.to} for step in self._steps]}
        sums = {"pages": {"$sum": 1}, "bytes": {"$sum": _SIZE}}
        stages: list[Document] = [
            {"$match": {"$or": [self._due(step) for step in self._steps]}},
            {"$group": {"_id": {"$switch": to}, **sums}},
        ]
        with pymongo.timeout(LONG_S):
            for found in await (await self._content.aggregate(stages)).to_list():
                self.done[found["_id"]] = Moved(found["pages"], found["bytes"])

    async def count(self) -> int:
        """Return the number of pages that are due."""
        await self._make_indexes()
        count = self._content.count_documents
        with pymongo.timeout(LONG_S):
            return sum([await count(self._due(step)) for step in self._steps])

    async def run(self) -> AsyncIterator[int]:
        """Move and delete what is due; yields the number of pages looked at since the last time.

        Raises SinkAway and ConfigurationError of the object store.
        """
        await self._make_indexes()
        await self._check_store()
        youngest = self._steps[0].before if self._steps else self._now
        await self._make_hot({"crawled_at": {"$gte": youngest}})
        try:
            await self._delete_loose()
            for step in self._steps:
                async for batch in self._batches(step):
                    if step.to == EXPIRED:
                        handled = await self._expire(batch)
                    else:
                        handled = await self._move(batch, step.to)
                    self.done[step.to].pages += len(handled)
                    self.done[step.to].bytes += sum(each["size"] for each in handled)
                    self.left += len(batch) - len(handled)
                    yield len(batch)
            # Of pages that were crawled meanwhile.
            await self._delete_loose()
        finally:
            if self._problems:
                logger.warning(
                    "Content of %s stays where it is. The first one: %s",
                    *(plural(self._problems, "page"), self._first_problem),
                )

    async def _make_indexes(self) -> None:
        with pymongo.timeout(LONG_S):
            await self._content.create_indexes(_INDEXES)

    async def _check_store(self) -> None:
        """Ask the store if content is there: no page is marked as expired that cannot be deleted.

        Raises SinkAway and ConfigurationError.
        """
        moved = {"crawl": self._crawl, "tier": {"$in": [WARM, COLD, GONE]}}
        if await self._content.find_one(moved, {"_id": True}):
            await self._moved.store.check_deletion()

    async def _make_hot(self, chosen: Document) -> None:
        """Correct documents to which a version without tiers gave new content.

        A run looks for them among content that is too young to be moved, and later when they are
        due: an index finds both.
        """
        stored_again = {"tier": {"$in": [WARM, COLD]}, "body": {"$exists": True}}
        await self._content.update_many({"crawl": self._crawl, **chosen, **stored_again}, NOT_MOVED)

    def _leave(self, why: object) -> None:
        logger.debug("Content stays where it is: %s", why)
        self._problems += 1
        self._first_problem = self._first_problem or str(why)

    def _due(self, step: Step) -> Document:
        since = {} if step.since is None else {"$gte": step.since}
        return {
            "crawl": self._crawl,
            "tier": {"$in": list(step.tiers)},
            "crawled_at": {"$lt": step.before, **since},
        }

    async def _batches(self, step: Step) -> AsyncIterator[list[Document]]:
        """Yield the STATE_FIELDS and the size of documents that are due, in bounded batches."""
        batch: list[Document] = []
        size = 0
        fields = {**STATE_FIELDS, "size": _SIZE}
        async for document in self._content.find(self._due(step), fields, batch_size=_BATCH):
            if batch and (len(batch) == _BATCH or size + document["size"] > _BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append(document)
            size += document["size"]
        if batch:
            yield batch

    # --- warm and cold ----------------------------------------------------------------------------

    async def _move(self, batch: Sequence[Document], to: str) -> list[Document]:
        """Move content to a tier; return the documents that are there now."""
        hot = [each for each in batch if each.get("tier") is HOT]
        others = [each for each in batch if each.get("tier") is not HOT]
        if others:
            await self._make_hot({"_id": {"$in": [each["_id"] for each in others]}})
        copies = [
            *await self._copies_of_hot(hot),
            *[_Copy(each, each["object"]) for each in others if each.get("object")],
        ]
        storage_class = self._retention.cold_class if to == COLD else ""
        written = [
            copy
            for copy in await in_parallel(
                self._parallel, lambda copy: self._write(copy, storage_class), copies
            )
            if copy is not None
        ]
        if not written:
            return []
        updates = [
            UpdateOne(
                _same_visit(copy.document),
                {
                    "$set": {"tier": to, "object": copy.name, "object_size": copy.size_bytes},
                    "$unset": dict.fromkeys(("body", "text", *MADE, "loose_object"), True),
                },
            )
            for copy in written
        ]
        await self._content.bulk_write(updates, ordered=False)
        return await self._moved_ones(written, to)

    async def _copies_of_hot(self, batch: Sequence[Document]) -> list[_Copy]:
        """Make the objects of content in MongoDB, and note their names in the documents."""
        if not batch:
            return []
        hashes = [each["page_id"] for each in batch]
        known = {
            page["url_hash"]: page
            async for page in self._metadata.find(
                {"crawl": self._crawl, "url_hash": {"$in": hashes}}, {"_id": False}
            )
        }
        copies = []
        full = self._content.find({"_id": {"$in": [each["_id"] for each in batch]}})
        states = {each["_id"]: each for each in batch}
        async for found in full:
            state, page = states[found["_id"]], known.get(found["page_id"])
            if found["crawled_at"] != state["crawled_at"] or found.get("tier") is not HOT:
                continue
            if page is None:
                self._leave(f"the page {found['page_id']} has no metadata (scrapy pages repair)")
                continue
            name = object_name(page.get("domain", ""), found)
            if found.get("loose_object") not in (None, name):
                # That of an earlier visit is deleted first.
                continue
            copies.append(_Copy(state, name, {**page, **found}))
        notes = [
            UpdateOne(_same_visit(copy.document), {"$set": {"loose_object": copy.name}})
            for copy in copies
        ]
        if notes:
            await self._content.bulk_write(notes, ordered=False)
        return copies

    async def _write(self, copy: _Copy, storage_class: str) -> _Copy | None:
        """Write an object; None if its content cannot be read, or the store does not take it."""
        store = self._moved.store
        try:
            if copy.page is None:
                data = await store.get(copy.name)
            else:
                data = await asyncio.to_thread(_packed, copy.page)
            copy.page = None
            copy.size_bytes = len(data)
            await store.put(copy.name, data, storage_class=storage_class)
            found = await store.size(copy.name)
        except (SinkAway, ConfigurationError):
            raise
        except CrawlerError as error:
            self._leave(error)
            return None
        if found != len(data):
            raise SinkAway(f"{store.url}/{copy.name} has {found} bytes instead of {len(data)}.")
        return copy

    async def _moved_ones(self, copies: Sequence[_Copy], to: str) -> list[Document]:
        """Return the documents that name their objects; delete objects that none names.

        Without the lock, another run may have deleted the name of an earlier visit's object that
        was written only then.
        """
        chosen = {"_id": {"$in": [copy.document["_id"] for copy in copies]}}
        found = {each["_id"]: each async for each in self._content.find(chosen, STATE_FIELDS)}
        lost = [copy.name for copy in copies if _is_lost(copy, found.get(copy.document["_id"]))]
        await self._moved.delete(lost)
        return [
            copy.document
            for copy in copies
            if (now := found.get(copy.document["_id"]))
            and (now.get("object"), now.get("tier")) == (copy.name, to)
        ]

    # --- expired ----------------------------------------------------------------------------------

    async def _expire(self, batch: Sequence[Document]) -> list[Document]:
        """Delete content, and note that in the metadata; return the documents that were deleted."""
        of_pages = {
            "crawl": self._crawl,
            "url_hash": {"$in": [each["page_id"] for each in batch]},
        }
        fields = {"url_hash": True, "crawled_at": True}
        visits = await self._metadata.find(of_pages, fields).to_list()
        # Read after the metadata: what still is of the same visit has no newer metadata.
        chosen = {"_id": {"$in": [each["_id"] for each in batch]}}
        states = {each["_id"]: each async for each in self._content.find(chosen, STATE_FIELDS)}
        same = [
            {**each, **states[each["_id"]]}
            for each in batch
            if each["_id"] in states
            and states[each["_id"]]["crawled_at"] == each["crawled_at"]
            and states[each["_id"]].get("tier") != GONE
        ]
        hashes = {each["page_id"] for each in same}
        marks = [
            UpdateOne({"_id": each["_id"], "crawled_at": each["crawled_at"]}, _EXPIRE)
            for each in visits
            if each["url_hash"] in hashes
        ]
        if marks:
            await self._metadata.bulk_write(marks, ordered=False)
        # Visited meanwhile: the next run deletes their content, if it still is the same.
        unmarked = {
            each["url_hash"]
            async for each in self._metadata.find(
                {**of_pages, "content_hash": {"$gt": ""}}, {"url_hash": True}
            )
        }
        expired = [each for each in same if each["page_id"] not in unmarked]
        await delete_contents(self._content, self._moved, expired)
        return expired

    # --- objects that no reader needs -------------------------------------------------------------

    async def _delete_loose(self) -> None:
        """Delete the objects of earlier visits, and documents that only name such an object."""
        chosen = {"crawl": self._crawl, "loose_object": {"$gt": ""}}
        found = self._content.find(chosen, STATE_FIELDS, batch_size=_BATCH)
        batch: list[Document] = []
        async for document in found:
            is_gone = document.get("tier") == GONE
            if is_gone or not is_of_visit(document["loose_object"], document):
                batch.append(document)
            if len(batch) == _BATCH:
                await self._delete_loose_of(batch)
                batch = []
        await self._delete_loose_of(batch)

    async def _delete_loose_of(self, batch: Sequence[Document]) -> None:
        self.loose += len(batch)
        gone = [each for each in batch if each.get("tier") == GONE]
        await delete_contents(self._content, self._moved, gone)
        others = [each for each in batch if each.get("tier") != GONE]
        await self._moved.delete([each["loose_object"] for each in others])
        updates = [
            UpdateOne(
                {"_id": each["_id"], "loose_object": each["loose_object"]},
                {"$unset": {"loose_object": True}},
            )
            for each in others
        ]
        if updates:
            await self._content.bulk_write(updates, ordered=False)


@dataclass(slots=True)
class _Copy:
    """Object of a page that is being written. Without `page`, it is written from the store."""

    document: Document
    name: str
    page: Document | None = None
    size_bytes: int = 0


def _is_lost(copy: _Copy, document: Document | None) -> bool:
    """Whether an object is that of no visit which its document knows."""
    if document is None:
        return True
    names = (document.get("object"), document.get("loose_object"))
    # One that the document does not name yet may be written by another run at this moment.
    return copy.name not in names and not is_of_visit(copy.name, document)


def _packed(page: Document) -> bytes:
    """Make the object of a page; CrawlerError if its content cannot be read."""
    try:
        page["body"] = decompress(page["codec"], page["body"])
    except CrawlerError as error:
        raise CrawlerError(f"{page['url']}: {error}") from error
    except KeyError as error:
        raise CrawlerError(f"{page['url']}: its content has no field {error}") from error
    left_out = ("_id", "page_id", "codec", "original_size", "compressed_size", "loose_object")
    return objects.pack({name: value for name, value in page.items() if name not in left_out})


def _same_visit(document: Document) -> Document:
    """Make the filter for a document that is as it was found."""
    keys = ["_id", "crawled_at", "tier"]
    if document.get("tier") is not HOT:
        # Stored again by a version without tiers.
        keys.append("body")
    return {key: document.get(key) for key in keys}


def _is_of_age(step: Step) -> Document:
    """Make the expression for content of the age that is due."""
    ages = [{"$lt": ["$crawled_at", step.before]}]
    if step.since is not None:
        ages.append({"$gte": ["$crawled_at", step.since]})
    return {"$and": ages}


# Bytes of content where it is now.
_SIZE = {"$ifNull": ["$object_size", {"$bsonSize": "$$ROOT"}]}
# As of content that is missing: without a hash, "not modified" does not bring it back.
_IS_KEPT = {
    "$and": [{"$gte": ["$status", 200]}, {"$lt": ["$status", 300]}, {"$eq": ["$reason", ""]}]
}
_EXPIRE = [
    {"$set": {"content_hash": "", "reason": {"$cond": [_IS_KEPT, EXPIRED, "$reason"]}}},
]


# --- one process at a time ------------------------------------------------------------------------


class TierLock:
    """Lock on the tiers of one crawl, by the server's clock."""

    def __init__(self, database: AsyncDatabase[Document], crawl: str) -> None:
        self._schema = database[SCHEMA]
        self._id = f"tiers/{crawl}"
        # Names this attempt, also among those of one process.
        self._owner = uuid4().hex

    @asynccontextmanager
    async def taken(self, *, scheduled: bool = False) -> AsyncIterator[bool]:
        """Take the lock for the block, which gets whether it has it; `scheduled`: at its turn."""
        if not await self._take(scheduled=scheduled):
            yield False
            return
        renewal = asyncio.create_task(self._renew())
        try:
            yield True
        finally:
            await end(renewal)
            with suppress(PyMongoError), pymongo.timeout(_RELEASE_S):
                await self._schema.update_one(
                    {"_id": self._id, "owner": self._owner}, {"$unset": {"expires_at": True}}
                )

    async def _take(self, *, scheduled: bool) -> bool:
        # A missing field is less than any time.
        is_free: Document = {"$lte": ["$expires_at", "$$NOW"]}
        if scheduled:
            is_free = {"$and": [is_free, {"$lte": ["$next_at", "$$NOW"]}]}
        mine = {
            "owner": self._owner,
            "expires_at": _after(_LOCK_S),
            # Also after an error or a crash.
            "next_at": _after(_TURN_S),
        }
        taken = {name: {"$cond": [is_free, value, f"${name}"]} for name, value in mine.items()}
        with suppress(DuplicateKeyError):  # two first ones at once
            found = await self._schema.find_one_and_update(
                {"_id": self._id},
                [{"$set": taken}],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            return found is not None and found["owner"] == self._owner
        return False

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            # If the lock is lost, two processes do the same for a while. Nothing is lost; an object
            # may be left behind if this one is killed before it has looked at the documents again.
            with suppress(PyMongoError):
                await self._schema.update_one(
                    {"_id": self._id, "owner": self._owner},
                    [{"$set": {"expires_at": _after(_LOCK_S)}}],
                )


def _after(wait_s: float) -> Document:
    return {"$add": ["$$NOW", round(wait_s * 1000)]}
