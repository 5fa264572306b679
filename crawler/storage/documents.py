"""The documents of a page in MongoDB, and the compression of bodies. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from typing import Any

import bson
import zstandard
from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, UpdateOne
from pymongo.operations import DeleteOne

from crawler.errors import CrawlerError
from crawler.items import NOT_MODIFIED, Page
from crawler.urls import fingerprint, host_of, registered_domain

TOO_BIG = "too_big_to_store"
VERSIONS_KEPT = 20
# Kept apart from the metadata: bodies, texts, and what is only of use on the way.
_NOT_METADATA = frozenset({"body", "text", "links", "stored"})
_METADATA = tuple(field.name for field in fields(Page) if field.name not in _NOT_METADATA)
_metadata_of = attrgetter(*_METADATA)
# What a visit without a page says; the rest stays as the last page had it.
_VISIT = (
    "final_url",
    "status",
    "reason",
    "crawled_at",
    "fetch_ms",
    "redirects",
    "redirect_statuses",
    "flags",
    "worker",
    "error_count",
    "last_error",
    "robots_allowed",
    "visits",
    "changes",
    "next_crawl",
)
# Of those, what an answer that nothing changed leaves as it was.
_OF_PAGE = frozenset({"status", "reason", "final_url", "redirects", "redirect_statuses"})
_LINKS_KEPT = 1000
# Far more than people read; with it, all but the largest bodies fit into a document.
_TEXT_KEPT = 1_000_000
# MongoDB's limit is 16 MB, with a few bytes for what an update puts around a document.
_DOCUMENT_MAX_BYTES = 16 * 1024 * 1024 - 16 * 1024

Operation = InsertOne[Any] | UpdateOne | DeleteOne


@dataclass(slots=True)
class Documents:
    """What is written of one page; None where there is nothing to write."""

    page: Page
    url_hash: str
    metadata: bytes
    content: bytes | None
    compressed_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.metadata) + (len(self.content) if self.content is not None else 0)

    @property
    def known(self) -> bool:
        """Is there most likely a document of an earlier visit?"""
        return self.page.visits > 1

    # --- operations ----------------------------------------------------------------------------

    def insert_content(self) -> InsertOne[Any]:
        return InsertOne(RawBSONDocument(self.content or b""))

    def update_content(self) -> UpdateOne:
        """Fails with a duplicate key where a newer one is stored."""
        return UpdateOne(
            self._not_newer("page_id"),
            {"$set": RawBSONDocument(self.content or b"")},
            upsert=True,
        )

    def delete_content(self) -> DeleteOne:
        """For a page that had content at an earlier visit, and has none of its own now."""
        return DeleteOne(self._not_newer("page_id"))

    def insert_metadata(self) -> InsertOne[Any]:
        return InsertOne(RawBSONDocument(self.metadata))

    def update_metadata(self) -> UpdateOne:
        page = self.page
        merged = {"$mergeObjects": ["$$ROOT", {"$literal": _seen_now(page)}, self._kept_along()]}
        is_newer = {"$gt": ["$crawled_at", page.crawled_at]}
        return UpdateOne(
            {"url_hash": self.url_hash},
            [{"$replaceWith": {"$cond": [is_newer, "$$ROOT", merged]}}],
            upsert=True,
        )

    def _not_newer(self, key: str) -> dict[str, Any]:
        return {key: self.url_hash, "crawled_at": {"$lte": self.page.crawled_at}}

    def _kept_along(self) -> dict[str, Any]:
        """Fields whose new value depends on the old one."""
        page = self.page
        kept: dict[str, Any] = {
            # An upsert finds nothing: these make it a whole document.
            "url_hash": self.url_hash,
            "first_seen": {"$ifNull": ["$first_seen", page.crawled_at]},
        }
        if NOT_MODIFIED in page.flags:
            kept |= _status_of_unchanged(page)
        if page.content_hash:
            versions = {"$ifNull": ["$versions", []]}
            longer = {"$concatArrays": [versions, [{"$literal": _version(page)}]]}
            same = {"$eq": [{"$last": "$versions.content_hash"}, page.content_hash]}
            kept["versions"] = {
                "$cond": [same, versions, {"$slice": [longer, -VERSIONS_KEPT]}],
            }
        return kept


def documents_of(page: Page, codec: str, compress: Compress) -> Documents:
    """The documents of a page; raises for fields that MongoDB cannot store."""
    url_hash = f"{fingerprint(page.url):016x}"
    content, compressed_bytes = None, 0
    if page.stored and not page.duplicate_of:
        body = compress(page.body)
        compressed_bytes = len(body)
        content = bson.encode(_content(page, url_hash, codec, body))
        if len(content) > _DOCUMENT_MAX_BYTES:
            content, page.stored, page.reason = None, False, TOO_BIG
    metadata = bson.encode(_whole_metadata(page, url_hash))
    if len(metadata) > _DOCUMENT_MAX_BYTES:
        raise CrawlerError(
            f"What is known of {page.url} takes {len(metadata):,} bytes without its body, and "
            "MongoDB stores 16 MB: put less into its extra fields."
        )
    return Documents(page, url_hash, metadata, content, compressed_bytes)


def _content(page: Page, url_hash: str, codec: str, body: bytes) -> dict[str, Any]:
    return {
        "page_id": url_hash,
        "crawled_at": page.crawled_at,
        "codec": codec,
        "original_size": len(page.body),
        "compressed_size": len(body),
        "text": page.text[:_TEXT_KEPT],
        "body": body,
    }


def _whole_metadata(page: Page, url_hash: str) -> dict[str, Any]:
    document = {"url_hash": url_hash, **_page_fields(page)}
    document["first_seen"] = page.crawled_at
    document["versions"] = [_version(page)] if page.content_hash else []
    return document


def _page_fields(page: Page) -> dict[str, Any]:
    document = dict(zip(_METADATA, _metadata_of(page), strict=True))
    host = host_of(page.url)
    document["host"] = host
    document["domain"] = registered_domain(host)
    document["links_count"] = len(page.links)
    document["links"] = page.links[:_LINKS_KEPT]
    return document


def _seen_now(page: Page) -> dict[str, Any]:
    """What this visit says, for a document that may have more."""
    if 200 <= page.status < 300:
        return _page_fields(page)
    names = [name for name in _VISIT if NOT_MODIFIED not in page.flags or name not in _OF_PAGE]
    host = host_of(page.url)
    return {
        "url": page.url,
        "host": host,
        "domain": registered_domain(host),
        "depth": page.depth,
        **{name: getattr(page, name) for name in names},
    }


def _status_of_unchanged(page: Page) -> dict[str, Any]:
    """The page is as it was; a failure since then is over."""
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


Compress = Callable[[bytes], bytes]

# 25 KB of HTML take 80 µs with zstd and 500 with zlib, and shrink to the same size.
_ZSTD_LEVEL, _ZLIB_LEVEL = 3, 6
# For bodies of these sizes the level has tables of 384 KB, which push much else out of the
# processor's cache with each page. With a quarter of that they are a thousandth larger.
_PAGE_BYTES = range(16 * 1024 + 1, 32 * 1024 + 1)
_TABLES = {"hash_log": 13, "chain_log": 14}


def _zstd() -> Compress:
    usual = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress
    parameters = zstandard.ZstdCompressionParameters.from_level(_ZSTD_LEVEL, **_TABLES)
    of_page = zstandard.ZstdCompressor(compression_params=parameters).compress
    return lambda body: of_page(body) if len(body) in _PAGE_BYTES else usual(body)


# A compressor serves one thread at a time, so each user makes its own.
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
NAMES = tuple(_COMPRESSORS)


def compressor(codec: str) -> Compress:
    """A function that compresses bodies; not to be used by two threads at once."""
    return _COMPRESSORS[codec]()


def decompress(codec: str, body: bytes) -> bytes:
    """The body as it was fetched, or CrawlerError."""
    if codec not in _DECOMPRESSORS:
        raise CrawlerError(
            f"The page is stored with the codec {codec!r}, which this version does not know; "
            "read it with the version that wrote it."
        )
    try:
        return _DECOMPRESSORS[codec](body)
    except (zlib.error, zstandard.ZstdError) as error:
        raise CrawlerError(f"The stored page is damaged ({error}); crawl it again.") from error
