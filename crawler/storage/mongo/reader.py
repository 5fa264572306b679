"""Read stored pages from MongoDB, count and delete them, and repair those that are not whole.

A page is known by its crawl and its hash. Its content, and the page that it duplicates, are of the
same crawl.

Content is written before metadata, so a process that dies in between leaves content without
metadata; its URL is still leased and is crawled again. Metadata without content is the work of a
person or a broken disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import bson
import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo import ASCENDING, DESCENDING, DeleteOne, UpdateOne

from crawler.errors import ConfigurationError, CrawlerError, NotFound, SinkAway
from crawler.storage.mongo import schema
from crawler.storage.mongo.moved import (
    GONE,
    PARALLEL,
    STATE_FIELDS,
    MovedContent,
    delete_contents,
)
from crawler.storage.mongo.runs import MongoRuns
from crawler.storage.mongo.schema import CONTENT, LONG_S, METADATA
from crawler.storage.mongo.sink import decompress
from crawler.storage.reader import (
    BATCH,
    BATCH_BARE,
    BATCH_BYTES,
    CHAIN_MAX,
    MOST,
    NEEDED,
    Batch,
    Document,
    Overview,
    StoredContent,
    Wanted,
    batch_of,
    has_changed,
)
from crawler.urls import DEFAULT, Urls, fingerprint, icann_domain, registered_domain
from crawler.util.format import plural
from crawler.util.tasks import in_parallel

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

logger = logging.getLogger(__name__)

# Until a crawl that has written content has written the metadata, too.
_METADATA_S = 1.0
# Filter for the metadata of pages that have content.
KEPT: Document = {"status": {"$gte": 200, "$lt": 300}, "reason": "", "duplicate_of": ""}


class _OtherVisit(NotFound):
    """Error of content that is newer than the metadata."""


def filter_of(wanted: Wanted) -> Document:
    """Express a choice of pages as a MongoDB filter."""
    parts: list[Document] = [KEPT] if wanted.kept else []
    if wanted.crawl is not None:
        parts.append({"crawl": wanted.crawl})
    if wanted.domain is not None:
        parts.append(_of_domain(wanted.domain))
    if wanted.since is not None:
        parts.append({"crawled_at": {"$gte": wanted.since}})
    if wanted.before is not None:
        parts.append({"crawled_at": {"$lt": wanted.before}})
    if wanted.statuses is not None:
        first, last = wanted.statuses
        parts.append({"status": first if first == last else {"$gte": first, "$lte": last}})
    if wanted.reason is not None:
        parts.append({"reason": wanted.reason})
    if wanted.rendered:
        parts.append({"rendered": True})
    if wanted.after is not None:
        parts.append({"_id": {"$gt": wanted.after}})
    return {"$and": parts} if parts else {}


class MongoReader:
    """Reader of the pages of one database (storage/reader.py). `urls` are their URL rules."""

    name = "MongoDB"

    def __init__(
        self,
        database: AsyncDatabase[Document],
        urls: Urls = DEFAULT,
        *,
        tier_url: str | None = None,
    ) -> None:
        """`tier_url` is the object store to which content was moved (PAGES_TIER_URL)."""
        self.database = database
        self.urls = urls
        self.runs = MongoRuns(database)
        self.moved = MovedContent(tier_url)
        self._metadata = database[METADATA]
        self._content = database[CONTENT]
        # Contents that could not be read.
        self._unread = 0

    async def crawls(self, url: str | None = None) -> list[str]:
        """List the crawls that have pages, or a page of this canonical URL."""
        chosen = {} if url is None else _of_url(url)
        return sorted(await self._metadata.distinct("crawl", chosen))

    async def metadata(self, url: str, crawl: str | None = None) -> Document | None:
        """Read the metadata of a canonical URL; None if it was never crawled.

        Without a crawl, it is that of the newest visit by any crawl.
        """
        chosen = _of_url(url)
        if crawl is not None:
            chosen = {"crawl": crawl, "url_hash": chosen["url_hash"]}
        return await self._metadata.find_one(
            chosen, {"_id": False}, sort=[("crawled_at", DESCENDING)]
        )

    async def content(self, page: Document) -> StoredContent | None:
        """Read the content of a page, or of the page it duplicates; None if it was not kept.

        Of content in an object store: NotFound if it is gone, SinkAway if the store is away.
        """
        for _ in range(CHAIN_MAX):
            crawl, url_hash = _id(page)
            if not page.get("duplicate_of"):
                found = await self._content.find_one({"crawl": crawl, "page_id": url_hash})
                return None if found is None else await self._newest_content(page, found)
            kept = await self._metadata.find_one({"crawl": crawl, "url_hash": page["duplicate_of"]})
            if kept is None or has_changed(page, kept):
                return None
            page = kept
        return None

    async def find(self, wanted: Wanted, limit: int = 0) -> AsyncIterator[Document]:
        """Yield the metadata of pages, the newest first. A limit of 0 means all."""
        cursor = self._metadata.find(
            filter_of(wanted), {"_id": False}, sort=[("crawled_at", DESCENDING)], limit=limit
        )
        async for page in cursor.allow_disk_use(True):
            yield page

    async def count(self, wanted: Wanted) -> int:
        return await self._metadata.count_documents(filter_of(wanted))

    async def with_content(
        self,
        wanted: Wanted,
        *,
        fields: Sequence[str] | None = None,
        contents: bool = True,
        by_time: bool = False,
    ) -> AsyncIterator[Batch]:
        needed = NEEDED if contents else ()
        chosen = (
            None if fields is None else {"_id": True, **dict.fromkeys((*needed, *fields), True)}
        )
        async for pages in self._batches(wanted, chosen, contents=contents, by_time=by_time):
            if not contents:
                yield Batch([(page, None) for page in pages])
                continue
            found = await self._contents_of(pages, wanted, chosen)
            batch = batch_of(pages, found, self._unread)
            self._unread += batch.unread
            yield batch

    async def _batches(
        self, wanted: Wanted, chosen: Document | None, *, contents: bool, by_time: bool
    ) -> AsyncIterator[list[Document]]:
        """Yield metadata in lists that end early at BATCH_BYTES; with contents, bodies count."""
        options = self._metadata.codec_options
        # Undecoded, documents tell their size.
        raw = self._metadata.with_options(options.with_options(document_class=RawBSONDocument))
        key = "crawled_at" if by_time else "_id"
        cursor: Any = raw.find(filter_of(wanted), chosen, sort=[(key, ASCENDING)])
        most = BATCH if contents else BATCH_BARE
        batch: list[Document] = []
        found_bytes = 0
        async for document in cursor.allow_disk_use(True):
            page = bson.decode(document.raw, options)
            batch.append(page)
            found_bytes += len(document.raw)
            if contents:
                found_bytes += page.get("size_bytes") or 0
            if len(batch) == most or found_bytes >= BATCH_BYTES:
                yield batch
                batch, found_bytes = [], 0
        if batch:
            yield batch

    async def _contents_of(
        self, pages: list[Document], wanted: Wanted, chosen: Document | None
    ) -> list[StoredContent | CrawlerError | None]:
        """Read the own content of pages, or why it cannot be read.

        The metadata of a page that was crawled again since they were read are replaced in `pages`.
        """
        results = await self._read_contents(pages)
        for wait_s, kind in ((0.0, NotFound), (_METADATA_S, _OtherVisit)):
            again = {
                pages[at]["_id"]: at for at, each in enumerate(results) if isinstance(each, kind)
            }
            if not again:
                break
            await asyncio.sleep(wait_s)
            still_wanted = {"$and": [{"_id": {"$in": list(again)}}, filter_of(wanted)]}
            places = []
            async for page in self._metadata.find(still_wanted, chosen):
                places.append(again[page["_id"]])
                pages[places[-1]] = page
            found = await self._read_contents([pages[at] for at in places])
            for at, each in zip(places, found, strict=True):
                results[at] = each
        return results

    async def _read_contents(
        self, pages: Sequence[Document]
    ) -> list[StoredContent | CrawlerError | None]:
        ids = [_id(page) for page in pages if not page.get("duplicate_of")]
        found = {
            _id(document, "page_id"): document
            async for document in self._content.find(_any_of(ids, "page_id"))
        }

        async def read(page: Document) -> StoredContent | CrawlerError | None:
            if _id(page) not in found:
                return None
            document = found[_id(page)]
            # The metadata were read before: content that is not newer is theirs.
            at, described = document.get("crawled_at"), page.get("crawled_at")
            if at is not None and described is not None and at > described:
                return _OtherVisit("it is of a later visit than the metadata; export it again.")
            try:
                return await self._content_of(page, document)
            except (ConfigurationError, SinkAway):
                raise
            except CrawlerError as error:
                # One damaged or lost object must not end the export of all others.
                return error

        return await in_parallel(PARALLEL, read, pages)

    async def _newest_content(self, page: Document, found: Document) -> StoredContent | None:
        """Read the content of a document, or of what a crawl has stored since in its place."""
        try:
            return await self._content_of(page, found)
        except NotFound:
            again = await self._content.find_one({"_id": found["_id"]})
            if again is None or again.get("object") == found["object"]:
                raise
            return await self._content_of(page, again)

    async def _content_of(self, page: Document, found: Document) -> StoredContent | None:
        """Read the content of a document, wherever it is."""
        if "body" in found:
            body = decompress(found["codec"], found["body"])
            return StoredContent.of(page["url"], body, found)
        if "object" in found:
            return await self.moved.read(found["object"], page["url"])
        return None

    async def overview(self, crawl: str | None = None) -> Overview:
        """Read all metadata, or those of a crawl, in one pass, and no content."""
        is_duplicate = {"$gt": ["$duplicate_of", ""]}
        sums = {
            "urls": {"$sum": 1},
            "duplicates": {"$sum": {"$cond": [is_duplicate, 1, 0]}},
            "first": {"$min": "$crawled_at"},
            "last": {"$max": "$crawled_at"},
        }
        sums_of_kept = {"pages": {"$sum": 1}, "bytes": {"$sum": "$size_bytes"}}
        facets = {
            "all": [{"$group": {"_id": None, **sums}}],
            "kept": [{"$match": KEPT}, {"$group": {"_id": None, **sums_of_kept}}],
            "crawls": _most_frequent("crawl"),
            "statuses": _most_frequent("status"),
            "reasons": [{"$match": {"reason": {"$gt": ""}}}, *_most_frequent("reason")],
            "domains": _most_frequent("domain"),
        }
        stages = [{"$match": filter_of(Wanted(crawl=crawl))}, {"$facet": facets}]
        (found,) = await (await self._metadata.aggregate(stages)).to_list()
        total, kept = (found[name][0] if found[name] else {} for name in ("all", "kept"))
        disk_bytes = 0
        for name in (METADATA, CONTENT):
            stats = await self.database.command("collStats", name)
            disk_bytes += int(stats["storageSize"] + stats["totalIndexSize"])
        return Overview(
            urls=total.get("urls", 0),
            pages=kept.get("pages", 0),
            duplicates=total.get("duplicates", 0),
            fetched_bytes=kept.get("bytes", 0),
            disk_bytes=disk_bytes,
            first_crawled=total.get("first"),
            last_crawled=total.get("last"),
            **{
                name: {each["_id"]: each["n"] for each in found[name]}
                for name in ("crawls", "statuses", "reasons", "domains")
            },
        )

    async def set_page_ranks(self, crawl: str, ranks: Mapping[str, float]) -> None:
        updates = [
            UpdateOne({"crawl": crawl, "url_hash": url_hash}, {"$set": {"page_rank": rank}})
            for url_hash, rank in ranks.items()
        ]
        if updates:
            await self._metadata.bulk_write(updates, ordered=False)

    async def delete(self, wanted: Wanted) -> AsyncIterator[int]:
        """Delete pages, content first; yields the number of pages deleted since the last time.

        Metadata are deleted when their content is.
        """
        started, busy = datetime.now(UTC), 0
        metadata, content = self._metadata, self._content
        found = metadata.find(filter_of(wanted), _VISIT_FIELDS)
        async for batch in batches(found, _DELETE_BATCH):
            visits = {_id(page): page["crawled_at"] for page in batch}
            older = await _contents_until(content, visits)
            if await delete_contents(content, self.moved, older) < len(older):
                for each in await _contents_until(content, visits):
                    del visits[_id(each, "page_id")]
                    busy += 1
            of_metadata = [
                DeleteOne({"crawl": crawl, "url_hash": url_hash, "crawled_at": at})
                for (crawl, url_hash), at in visits.items()
            ]
            if of_metadata:
                yield (await metadata.bulk_write(of_metadata, ordered=False)).deleted_count
        if busy:
            logger.warning(
                "%s stay: their content is being moved; delete again", plural(busy, "page")
            )
        if wanted == Wanted(crawl=wanted.crawl):
            # A process that died may have left content without metadata.
            left = {"crawl": wanted.crawl, "crawled_at": {"$lt": started}}
            with pymongo.timeout(LONG_S):
                async for batch in batches(content.find(left, STATE_FIELDS), _DELETE_BATCH):
                    await delete_contents(content, self.moved, batch)


# Crawl and hash of a page. The crawl is None for what a process of version 1 stored that was not
# stopped before the migration; MongoDB finds missing fields by it.
PageId = tuple[str | None, str]


def _id(document: Document, name: str = "url_hash") -> PageId:
    return document.get("crawl"), document[name]


def _any_of(ids: Sequence[PageId], name: str) -> Document:
    """Make the filter for pages with these ids; `name` is the field with the hash."""
    by_crawl: dict[str | None, list[str]] = {}
    for crawl, url_hash in ids:
        by_crawl.setdefault(crawl, []).append(url_hash)
    parts = [{"crawl": crawl, name: {"$in": hashes}} for crawl, hashes in by_crawl.items()]
    # One that nothing matches, since MongoDB refuses an empty $or.
    return {"$or": parts or [{"_id": {"$in": []}}]}


def _of_url(url: str) -> Document:
    """Make the filter for a URL in any crawl; by the index on `url`, as a hash needs its crawl."""
    return {"url": url, "url_hash": f"{fingerprint(url):016x}"}


async def batches(cursor: Any, size: int) -> AsyncIterator[list[Document]]:
    """Yield the documents of a cursor in lists."""
    batch: list[Document] = []
    async for document in cursor:
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _of_domain(domain: str) -> Document:
    """Make the filter for a registered domain, or for a host."""
    if registered_domain(domain) != domain:
        return {"host": domain}
    wider = icann_domain(domain)
    if wider == domain:
        return {"domain": domain}
    # Versions without private suffixes stored alice.github.io under github.io.
    return {"$or": [{"domain": domain}, {"domain": wider, "host": domain}]}


def _most_frequent(name: str) -> list[Document]:
    """Make the stages that count the values of a field."""
    return [
        {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
        {"$sort": {"n": -1, "_id": 1}},
        {"$limit": MOST},
    ]


# What identifies a page, and the visit that its metadata describe.
_VISIT_FIELDS = {"_id": False, "crawl": True, "url_hash": True, "crawled_at": True}
_DELETE_BATCH = 1000


async def _contents_until(
    content: AsyncCollection[Document], visits: Mapping[PageId, datetime]
) -> list[Document]:
    """Read the STATE_FIELDS of content of these visits, and of earlier ones."""
    found = content.find(_any_of(list(visits), "page_id"), STATE_FIELDS)
    return [each async for each in found if each["crawled_at"] <= visits[_id(each, "page_id")]]


MISSING = "content_missing"
_REPAIR_BATCH = 1000


@dataclass(slots=True)
class Repaired:
    """Numbers of documents that were found, and repaired unless it was a dry run."""

    # Content without metadata, or whose page has none of its own any more: deleted.
    without_metadata: int = 0
    # Metadata of kept pages without content: marked as missing.
    without_content: int = 0

    @property
    def total(self) -> int:
        return self.without_metadata + self.without_content


class Repair:
    """Pass over both collections, or one crawl in them. A crawl may run meanwhile."""

    def __init__(
        self, pages: MongoReader, *, before: datetime, dry_run: bool, crawl: str | None = None
    ) -> None:
        """Content younger than `before` is left alone: it may be waiting for its metadata."""
        self._database = pages.database
        self._metadata = pages.database[METADATA]
        self._content = pages.database[CONTENT]
        self._moved = pages.moved
        self._chosen = filter_of(Wanted(crawl=crawl))
        self._before = before
        self._dry_run = dry_run
        self.found = Repaired()

    async def run(self) -> AsyncIterator[int]:
        """Check everything; yields the number of documents checked since the last time."""
        if not self._dry_run:
            await schema.make_indexes(self._database)
        content_fields = {"_id": False, "crawl": True, "page_id": True}
        contents = self._content.find(self._chosen, content_fields)
        async for ids in batches(contents, _REPAIR_BATCH):
            await self._check_content([_id(each, "page_id") for each in ids])
            yield len(ids)
        kept = self._metadata.find({**KEPT, **self._chosen}, _VISIT_FIELDS)
        async for pages in batches(kept, _REPAIR_BATCH):
            await self._check_metadata(pages)
            yield len(pages)

    async def count(self) -> int:
        """Estimate the number of documents to check."""
        total = 0
        for collection in (self._content, self._metadata):
            if self._chosen:
                total += await collection.count_documents(self._chosen)
            else:
                total += await collection.estimated_document_count()
        return total

    async def _check_content(self, ids: list[PageId]) -> None:
        # A page keeps its content through errors of later visits.
        has_own = {"duplicate_of": "", "reason": {"$ne": "noindex"}}
        metadata = self._metadata.find({**_any_of(ids, "url_hash"), **has_own}, _VISIT_FIELDS)
        known = {_id(each) async for each in metadata}
        lost = [each for each in ids if each not in known]
        if not lost:
            return
        chosen = {**_any_of(lost, "page_id"), "crawled_at": {"$lt": self._before}}
        # Content that is gone only names an object that is not deleted yet.
        chosen["tier"] = {"$ne": GONE}
        if self._dry_run:
            self.found.without_metadata += await self._content.count_documents(chosen)
        else:
            documents = await self._content.find(chosen, STATE_FIELDS).to_list()
            deleted = await delete_contents(self._content, self._moved, documents)
            self.found.without_metadata += deleted

    async def _check_metadata(self, pages: list[Document]) -> None:
        ids = _any_of([_id(page) for page in pages], "page_id")
        content = self._content.find(ids, {"_id": False, "crawl": True, "page_id": True})
        known = {_id(each, "page_id") async for each in content}
        for page in pages:
            if _id(page) in known:
                continue
            if self._dry_run:
                self.found.without_content += 1
                continue
            # Unless it was crawled again since it was read.
            marked = await self._metadata.update_one(
                {**page, **KEPT},
                {"$set": {"reason": MISSING, "content_hash": ""}},
            )
            self.found.without_content += marked.modified_count
