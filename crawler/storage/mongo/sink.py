"""Write pages to MongoDB: their documents, the compression of bodies, and the order of writes.

Content is written before metadata, so that metadata never points to content that is missing. Every
write may be repeated.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from threading import local
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

import bson
import zstandard
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.operations import DeleteOne

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError
from crawler.items import NOT_MODIFIED, Page
from crawler.servers.mongo import DUPLICATE_KEY, code_may_pass, explain, may_pass, start_error
from crawler.servers.redis.connection import masked
from crawler.storage.documents import MADE, OPTIONAL, optional_fields, page_fields, texts_of
from crawler.storage.mongo import schema
from crawler.storage.mongo.moved import GONE, NOT_MOVED
from crawler.storage.mongo.runs import MongoRuns
from crawler.storage.mongo.schema import CONTENT, METADATA
from crawler.storage.sink import Sink, SinkContext, SinkReport
from crawler.urls import host_of, registered_domain
from crawler.util.format import size
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection

    from crawler.servers.health import ServerHealth
    from crawler.storage.runs import Run

logger = logging.getLogger(__name__)

_VERSION_MIN = (5, 0)
# Used share of the server's disk above which people are warned.
_DISK_SHARE = 0.9

# Position in the batch → why the page was not written.
Faults = dict[int, OperationFailure]


class MongoSink(Sink):
    """Sink that keeps pages in the collections `pages_metadata` and `pages_content`."""

    store_name = "MongoDB"

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncMongoClient[dict[str, Any]]]],
        database: str,
        *,
        crawl: str,
        codec: str,
        concern: dict[str, Any],
        timeout_s: float,
        where: str = "",
        health: ServerHealth | None = None,
    ) -> None:
        """`where` describes the server to people."""
        self._connect = connect
        self._database = database
        self._crawl = crawl
        self._codec = codec
        self._concern = concern
        self._timeout_s = timeout_s
        self._where = where
        self._health = health
        # About 1 ms of the codec.
        self.inline_bytes = 30_000 if codec == "zlib" else 400_000
        # A compressor serves one thread at a time.
        self._threads = local()
        self._content: AsyncCollection[dict[str, Any]]
        self._metadata: AsyncCollection[dict[str, Any]]
        self._runs: MongoRuns

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        if context.target:
            raise ConfigurationError(
                f"SINKS has mongo:{without_secrets(context.target)}; use mongo alone, and give "
                "the address as MONGO_URI and the database as MONGO_DATABASE."
            )
        settings, servers = context.settings, context.servers
        uri = config.value(settings, "MONGO_URI")
        concern = config.value(settings, "STORE_WRITE_CONCERN")
        write_concern(concern)
        return cls(
            *(servers.mongo, config.value(settings, "MONGO_DATABASE")),
            crawl=context.crawl,
            codec=config.value(settings, "PAGES_CODEC"),
            concern=concern,
            timeout_s=config.value(settings, "MONGO_TIMEOUT"),
            where=masked(uri) if uri else "embedded",
            health=servers.mongo_health,
        )

    async def open(self) -> None:
        """Prepare the database; ServerAway or ConfigurationError if it cannot be written to.

        Pages of an earlier version get the name of this crawl first, which may take minutes.
        """
        client = await self._connect()
        database = client[self._database]
        try:
            await schema.check_writable(database)
            await schema.prepare(database, self._crawl)
        except PyMongoError as error:
            raise start_error(
                error,
                f"MongoDB cannot be written to: {explain(error)}. To write pages to a file "
                "instead: -s SINKS=none -o pages.jsonl",
            ) from error
        last = first = write_concern({**self._concern, **database.write_concern.document})
        if not await client.is_mongos:
            # On one server both collections share a journal: the last write makes both durable.
            first = WriteConcern(**{**last.document, "j": False})
        self._content = database.get_collection(CONTENT, write_concern=first)
        self._metadata = database.get_collection(METADATA, write_concern=last)
        self._runs = MongoRuns(database)

    async def close(self) -> None:
        """Close nothing: the connection is shared."""

    @property
    def store_place(self) -> str:
        return f"the database {self._database!r}"

    async def identity(self) -> str:
        return await schema.identity((await self._connect())[self._database])

    async def has_pages(self, crawl: str) -> bool:
        return await self._metadata.find_one({"crawl": crawl}, {"_id": True}) is not None

    async def record_run(self, run: Run) -> None:
        await self._runs.record(run)

    def prepare(self, page: Page) -> Documents:
        compress: Compress | None = getattr(self._threads, "compress", None)
        if compress is None:
            compress = self._threads.compress = compressor(self._codec)
        return documents_of(page, self._codec, compress)

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, PyMongoError) and may_pass(error)

    def health(self) -> ServerHealth | None:
        return self._health

    @property
    def timeout_s(self) -> float:
        return self._timeout_s

    async def check(self) -> SinkReport:
        try:
            client = await self._connect()
            version = str((await client.server_info())["version"])
            started_s = perf_counter()
            stats = await client[self._database].command("dbStats")
            is_old = await schema.is_old(client[self._database])
            spent_ms = (perf_counter() - started_s) * 1000
        except PyMongoError as error:
            raise start_error(error, explain(error)) from error
        text = (
            f"MongoDB {version} at {self._where}, database {self._database!r}, {spent_ms:.1f} ms "
            "per round trip"
        )
        if tuple(int(part) for part in version.split(".")[:2]) < _VERSION_MIN:
            raise ConfigurationError(f"{text}. Update it to 5.0 or later.")
        used, total = stats.get("fsUsedSize", 0), stats.get("fsTotalSize", 0)
        warnings = {}
        if total and used / total > _DISK_SHARE:
            problem = f"its disk has {size(int(used))} of {size(int(total))} used"
            warnings[problem] = "Give it a larger disk before it is full: fetching stops then."
        if is_old:
            warnings["its pages are of an earlier version"] = (
                "The next crawl gives all of them its name. To choose another: "
                "scrapy pages migrate --crawl NAME"
            )
        return SinkReport(text, warnings)

    async def write(self, batch: Sequence[Documents]) -> Faults:
        """Write a batch; raises errors that may pass (servers/mongo.py)."""
        with_content = [i for i, each in enumerate(batch) if each.content is not None]
        faults, _ = await _upsert(
            self._content, batch, with_content, Documents.insert_content, Documents.update_content
        )
        whole = [i for i in range(len(batch)) if i not in faults]
        await _find_parents(self._metadata, batch)
        more, updated = await _upsert(
            self._metadata, batch, whole, Documents.insert_metadata, Documents.update_metadata
        )
        # Pages that had content at an earlier visit, and have none of their own now.
        bare = [batch[i] for i in updated if batch[i].content is None and batch[i].page.is_success]
        if bare:
            deletions = [part for each in bare for part in each.delete_content()]
            await self._content.bulk_write(deletions, ordered=False)
        return faults | more


async def _upsert(
    collection: AsyncCollection[dict[str, Any]],
    batch: Sequence[Documents],
    chosen: Sequence[int],
    insert: Callable[[Documents], Operation],
    update: Callable[[Documents], Operation],
) -> tuple[Faults, list[int]]:
    """Insert new pages and update known ones; also returns the positions of the updated ones."""
    # With an earlier visit there most likely is a document.
    fresh = [i for i in chosen if batch[i].page.visits <= 1]
    errors = await _bulk(collection, [insert(batch[i]) for i in fresh])
    existing = {fresh[n] for n, error in errors.items() if error.code == DUPLICATE_KEY}
    faults = {fresh[n]: error for n, error in errors.items() if error.code != DUPLICATE_KEY}
    updated = [i for i in chosen if i in existing or batch[i].page.visits > 1]
    errors = await _bulk(collection, [update(batch[i]) for i in updated])
    # A duplicate key here means that the stored document is newer.
    faults |= {updated[n]: error for n, error in errors.items() if error.code != DUPLICATE_KEY}
    return faults, updated


async def _find_parents(
    collection: AsyncCollection[dict[str, Any]], batch: Sequence[Documents]
) -> None:
    """Complete the metadata of pages that know their parent by its hash only."""
    open_ones = [each for each in batch if each.lacks_parent_url]
    if not open_ones:
        return
    urls = {(each.page.crawl, each.page.url_hash): each.page.url for each in batch}
    missing = [each.page for each in open_ones if _parent_of(each.page) not in urls]
    if missing:
        chosen = {
            "crawl": {"$in": list({page.crawl for page in missing})},
            "url_hash": {"$in": list({page.parent for page in missing})},
        }
        projection = {"_id": False, "crawl": True, "url_hash": True, "url": True}
        async for found in collection.find(chosen, projection):
            urls[found["crawl"], found["url_hash"]] = found["url"]
    for each in open_ones:
        each.set_parent_url(urls.get(_parent_of(each.page)))


def _parent_of(page: Page) -> tuple[str, str]:
    return page.crawl, page.parent


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


TOO_BIG = "too_big_to_store"
# Flag of a page whose items take more than a document may have.
ITEMS_TOO_BIG = "items_too_big"
VERSIONS_KEPT = 20
# Fields that a visit without a page changes; the others stay as the last page had them.
_VISIT = (
    *("final_url", "status", "reason", "crawled_at", "fetch_ms", "redirects", "redirect_statuses"),
    *("flags", "worker", "error_count", "last_error", "robots_allowed", "visits", "changes"),
    *("next_crawl", "recrawl_interval_s", "is_active"),
)
# Fields whose known value a visit that does not know it leaves as it is.
_LASTING = ("parent_url", "discovered_at")
# Of those, the fields that "not modified" leaves as they were.
_OF_PAGE = frozenset({"status", "reason", "final_url", "redirects", "redirect_statuses"})
# MongoDB's limit is 16 MB, less a few bytes for what an update puts around a document.
_DOCUMENT_MAX_BYTES = 16 * 1024 * 1024 - 16 * 1024

_IN_DOCUMENT = dict.fromkeys(("body", "text", *MADE, "object_size"), True)

Operation = InsertOne[Any] | UpdateOne | DeleteOne
Compress = Callable[[bytes], bytes]


@dataclass(slots=True)
class Documents:
    """Documents of one page, ready to be written. `content` is None if it is not kept."""

    page: Page
    metadata: bytes
    content: bytes | None
    compressed_bytes: int = 0
    # The metadata is complete when `set_parent_url` was called.
    lacks_parent_url: bool = False

    # Bytes of both documents.
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = len(self.metadata) + len(self.content or b"")

    def set_parent_url(self, url: str | None) -> None:
        """Complete the metadata with the URL of the parent; None if it is not stored."""
        # A copy: other sinks have the page, too.
        self.page = copy(self.page)
        self.page.parent_url = url
        self.lacks_parent_url = False
        # Appended to the encoded document, which takes a hundredth of the time to encode it again.
        elements = self.metadata[4:-1] + bson.encode({"parent_url": url})[4:-1]
        length = len(elements) + 5
        self.metadata = length.to_bytes(4, "little") + elements + b"\0"

    def insert_content(self) -> InsertOne[Any]:
        return InsertOne(RawBSONDocument(self.content or b""))

    def update_content(self) -> UpdateOne:
        """Replace older content; fails with a duplicate key if the stored content is newer."""
        # Those of the earlier visit, if this one has none.
        no_more = dict.fromkeys((name for name in MADE if not getattr(self.page, name)), True)
        new = {
            **NOT_MOVED,
            "$set": RawBSONDocument(self.content or b""),
            "$unset": {**NOT_MOVED["$unset"], **no_more},
        }
        return UpdateOne(self._not_newer(), new, upsert=True)

    def delete_content(self) -> list[Operation]:
        """Delete the content of an earlier visit; what names an object stays until that is gone."""
        chosen, has_object = self._not_newer(), {"$exists": True}
        named = [{"object": has_object}, {"loose_object": has_object}]
        gone = {"$set": {"tier": GONE}, "$unset": _IN_DOCUMENT, "$rename": NOT_MOVED["$rename"]}
        return [DeleteOne({**chosen, "$nor": named}), UpdateOne({**chosen, "$or": named}, gone)]

    def _not_newer(self) -> dict[str, Any]:
        page = self.page
        identity = {"crawl": page.crawl, "page_id": page.url_hash}
        return {**identity, "crawled_at": {"$lte": page.crawled_at}}

    def insert_metadata(self) -> InsertOne[Any]:
        return InsertOne(RawBSONDocument(self.metadata))

    def update_metadata(self) -> UpdateOne:
        """Merge this visit into the stored document, unless that is newer."""
        visit = {"$literal": self._visit_fields()}
        merged = {"$mergeObjects": ["$$ROOT", visit, self._dependent_fields()]}
        is_newer = {"$gt": ["$crawled_at", self.page.crawled_at]}
        return UpdateOne(
            {"crawl": self.page.crawl, "url_hash": self.page.url_hash},
            [{"$replaceWith": {"$cond": [is_newer, "$$ROOT", merged]}}],
            upsert=True,
        )

    def _visit_fields(self) -> dict[str, Any]:
        """List the fields that this visit sets in a document that may have more."""
        page = self.page
        if page.is_success:
            return _page_fields(page, self.compressed_bytes)
        names = [name for name in _VISIT if NOT_MODIFIED not in page.flags or name not in _OF_PAGE]
        host = host_of(page.url)
        return {
            "url": page.url,
            "host": host,
            "domain": registered_domain(host),
            "depth": page.depth,
            **{name: getattr(page, name) for name in names},
        }

    def _dependent_fields(self) -> dict[str, Any]:
        """Compute the fields whose new values depend on the old ones."""
        page = self.page
        found: dict[str, Any] = {
            # Where an upsert finds nothing, these make the document whole.
            "crawl": {"$literal": page.crawl},
            "url_hash": page.url_hash,
            "first_seen": {"$ifNull": ["$first_seen", page.crawled_at]},
        }
        for name in _LASTING:
            known = {"$literal": getattr(page, name)}
            # Of a visit without a page, only what was unknown is taken.
            first, second = (known, f"${name}") if page.is_success else (f"${name}", known)
            found[name] = {"$ifNull": [first, second, None]}
        if page.is_success:
            has = optional_fields(page)
            for name, empty in OPTIONAL.items():
                if name not in has:
                    found[name] = {"$cond": [{"$gt": [f"${name}", None]}, empty, "$$REMOVE"]}
        if NOT_MODIFIED in page.flags:
            found |= _status_of_unchanged(page)
        if page.content_hash:
            versions = {"$ifNull": ["$versions", []]}
            longer = {"$concatArrays": [versions, [{"$literal": _version(page)}]]}
            same = {"$eq": [{"$last": "$versions.content_hash"}, page.content_hash]}
            found["versions"] = {
                "$cond": [same, versions, {"$slice": [longer, -VERSIONS_KEPT]}],
            }
        return found


def documents_of(page: Page, codec: str, compress: Compress) -> Documents:
    """Make the documents of a page; raises for fields that MongoDB cannot store."""
    content, compressed_bytes = None, 0
    if page.stored and not page.duplicate_of:
        body = compress(page.body)
        compressed_bytes = len(body)
        content = bson.encode(
            {
                "crawl": page.crawl,
                "page_id": page.url_hash,
                "crawled_at": page.crawled_at,
                "codec": codec,
                "original_size": len(page.body),
                "compressed_size": compressed_bytes,
                **texts_of(page),
                "body": body,
            }
        )
        if len(content) > _DOCUMENT_MAX_BYTES:
            content, compressed_bytes = None, 0
            page.is_kept = False
            # A copy: other sinks may have room for it.
            page = copy(page)
            page.stored, page.reason = False, TOO_BIG
    document = _page_fields(page, compressed_bytes)
    document["first_seen"] = page.crawled_at
    document["versions"] = [_version(page)] if page.content_hash else []
    lacks_parent_url = bool(page.parent) and page.parent_url is None
    if not lacks_parent_url:
        document["parent_url"] = page.parent_url
    metadata = bson.encode(document)
    if len(metadata) > _DOCUMENT_MAX_BYTES and document.pop("items", None):
        # The pipelines of their spider have them.
        document["flags"] = [*page.flags, ITEMS_TOO_BIG]
        metadata = bson.encode(document)
    if len(metadata) > _DOCUMENT_MAX_BYTES:
        raise CrawlerError(
            f"What is known of {page.url} takes {len(metadata):,} bytes without its body, and "
            "MongoDB stores 16 MB: put less into its extra fields."
        )
    return Documents(page, metadata, content, compressed_bytes, lacks_parent_url)


def _page_fields(page: Page, compressed_bytes: int) -> dict[str, Any]:
    document = page_fields(page)
    ratio = round(len(page.body) / compressed_bytes, 2) if compressed_bytes else None
    document["compression_ratio"] = ratio
    return document


def _status_of_unchanged(page: Page) -> dict[str, Any]:
    """Restore the status of a page that is as it was: a failure since then is over."""
    was_good = {"$and": [{"$gte": ["$status", 200]}, {"$lt": ["$status", 300]}]}
    has_content = {"$gt": ["$content_hash", ""]}
    return {
        name: {
            "$switch": {
                "branches": [
                    {"case": was_good, "then": f"${name}"},
                    {"case": has_content, "then": good},
                ],
                "default": getattr(page, name),
            }
        }
        for name, good in (("status", 200), ("reason", ""))
    }


def _version(page: Page) -> dict[str, datetime | str]:
    return {"at": page.crawled_at, "content_hash": page.content_hash}


# 25 KB of HTML take 75 µs with zstd and 500 with zlib, and shrink to the same size.
_ZSTD_LEVEL, _ZLIB_LEVEL = 3, 6
# The level's own tables take 192 to 768 KB, which push much else out of the processor's cache with
# each page: compression takes up to twice as long. Bodies up to each size, and the number of bits
# of their two tables of 4-byte entries. Bodies become 1% larger.
_TABLE_BITS = ((32 * 1024, 12), (256 * 1024, 13))
_TABLE_BITS_LARGE = 14


def _zstd() -> Compress:
    def compress_with(bits: int) -> Compress:
        parameters = zstandard.ZstdCompressionParameters.from_level(
            _ZSTD_LEVEL, hash_log=bits, chain_log=bits
        )
        return zstandard.ZstdCompressor(compression_params=parameters).compress

    by_size = [(max_bytes, compress_with(bits)) for max_bytes, bits in _TABLE_BITS]
    of_large = compress_with(_TABLE_BITS_LARGE)

    def compress(body: bytes) -> bytes:
        size_bytes = len(body)
        for max_bytes, of_size in by_size:
            if size_bytes <= max_bytes:
                return of_size(body)
        return of_large(body)

    return compress


_COMPRESSORS: dict[str, Callable[[], Compress]] = {
    "zstd": _zstd,
    "zlib": lambda: lambda body: zlib.compress(body, _ZLIB_LEVEL),
    "none": lambda: bytes,
}
_DECOMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda body: zstandard.ZstdDecompressor().decompress(body),
    "zlib": zlib.decompress,
    "none": bytes,
}
CODECS = tuple(_COMPRESSORS)


def compressor(codec: str) -> Compress:
    """Make a function that compresses bodies. It serves one thread at a time."""
    return _COMPRESSORS[codec]()


def decompress(codec: str, body: bytes) -> bytes:
    """Decompress a stored body; CrawlerError if the codec is unknown or the body damaged."""
    if codec not in _DECOMPRESSORS:
        raise CrawlerError(
            f"The page is stored with the codec {codec!r}, which this version does not know; "
            "read it with the version that wrote it."
        )
    try:
        return _DECOMPRESSORS[codec](body)
    except (zlib.error, zstandard.ZstdError) as error:
        raise CrawlerError(f"The stored page is damaged ({error}); crawl it again.") from error
