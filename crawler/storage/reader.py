"""Read pages back from MongoDB, as the store pipeline wrote them, and count them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pymongo import DESCENDING

from crawler.storage import documents
from crawler.storage.schema import CONTENT, METADATA
from crawler.urls import DEFAULT, Urls, fingerprint, icann_domain, registered_domain

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase


Document = dict[str, Any]

# A duplicate points to the page that was kept; the rare chain (its content was replaced by a later
# crawl) is followed this far.
_CHAIN_MAX = 5
# Pages whose content is fetched together.
_TOGETHER = 100
# Metadata of pages that have content.
KEPT: Document = {"status": {"$gte": 200, "$lt": 300}, "reason": "", "duplicate_of": ""}


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The body and the text of a page, and the URL they were fetched from."""

    url: str
    body: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pages; what is None does not matter."""

    domain: str | None = None
    since: datetime | None = None
    # From and to, both included: (200, 299).
    statuses: tuple[int, int] | None = None
    reason: str | None = None
    # Only those with content.
    kept: bool = False

    def filter(self) -> Document:
        """In MongoDB's words."""
        parts: list[Document] = [KEPT] if self.kept else []
        if self.domain is not None:
            parts.append(_of_domain(self.domain))
        if self.since is not None:
            parts.append({"crawled_at": {"$gte": self.since}})
        if self.statuses is not None:
            first, last = self.statuses
            parts.append({"status": first if first == last else {"$gte": first, "$lte": last}})
        if self.reason is not None:
            parts.append({"reason": self.reason})
        return {"$and": parts} if parts else {}


class PageReader:
    """The pages of one database, and how their crawl spells URLs."""

    def __init__(self, database: AsyncDatabase[Document], urls: Urls = DEFAULT) -> None:
        self.database = database
        self.urls = urls
        self._metadata = database[METADATA]
        self._content = database[CONTENT]

    async def metadata(self, url: str) -> Document | None:
        """What is known of a canonical URL, or None if it was never crawled."""
        return await self._metadata.find_one(
            {"url_hash": f"{fingerprint(url):016x}"}, {"_id": False}
        )

    async def content(self, page: Document) -> StoredContent | None:
        """The content of a page, or of the page it duplicates; None if it was not kept."""
        for _ in range(_CHAIN_MAX):
            if not page.get("duplicate_of"):
                found = await self._content.find_one({"page_id": page["url_hash"]})
                return None if found is None else _content(page, found)
            kept = await self._metadata.find_one({"url_hash": page["duplicate_of"]})
            if kept is None or _has_changed(page, kept):
                return None
            page = kept
        return None

    async def find(self, wanted: Wanted, limit: int = 0) -> AsyncIterator[Document]:
        """Metadata of pages, the newest first; 0: all of them."""
        cursor = self._metadata.find(
            wanted.filter(), {"_id": False}, sort=[("crawled_at", DESCENDING)], limit=limit
        )
        async for page in cursor.allow_disk_use(True):
            yield page

    async def count(self, wanted: Wanted) -> int:
        return await self._metadata.count_documents(wanted.filter())

    async def with_content(
        self, wanted: Wanted
    ) -> AsyncIterator[tuple[Document, StoredContent | None]]:
        """Metadata and own content of pages, in no order; a batch is in memory at a time."""
        batch: list[Document] = []
        async for page in self._metadata.find(wanted.filter(), {"_id": False}):
            batch.append(page)
            if len(batch) == _TOGETHER:
                for each in await self._contents_of(batch):
                    yield each
                batch = []
        for each in await self._contents_of(batch):
            yield each

    async def _contents_of(
        self, pages: Sequence[Document]
    ) -> list[tuple[Document, StoredContent | None]]:
        ids = [page["url_hash"] for page in pages if not page.get("duplicate_of")]
        found = {
            document["page_id"]: document
            async for document in self._content.find({"page_id": {"$in": ids}})
        }
        return [
            (page, _content(page, found[page["url_hash"]]) if page["url_hash"] in found else None)
            for page in pages
        ]


def _of_domain(domain: str) -> Document:
    """Pages of a registered domain, or of a host."""
    if registered_domain(domain) != domain:
        return {"host": domain}
    wider = icann_domain(domain)
    if wider == domain:
        return {"domain": domain}
    # Of alice.github.io: versions that knew no private suffixes stored it under github.io.
    return {"$or": [{"domain": domain}, {"domain": wider, "host": domain}]}


def _has_changed(page: Document, original: Document) -> bool:
    """Is the original no more what the page was found to be a duplicate of?"""
    distance = page.get("duplicate_distance")
    if distance is None:
        return page.get("content_hash") != original.get("content_hash")
    # Without a SimHash the original has become too short to be compared.
    now = original.get("simhash")
    return not now or (int(page["simhash"], 16) ^ int(now, 16)).bit_count() > distance


def _content(page: Document, found: Document) -> StoredContent:
    return StoredContent(
        page["url"], documents.decompress(found["codec"], found["body"]), found["text"]
    )


_MOST = 10


@dataclass(frozen=True, slots=True)
class Overview:
    """All of one database. The dicts have the most frequent first."""

    urls: int = 0
    pages: int = 0
    duplicates: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    # Of the bodies as they were fetched, and of all that is stored, on the server's disk.
    fetched_bytes: int = 0
    disk_bytes: int = 0
    first_crawled: datetime | None = None
    last_crawled: datetime | None = None


async def overview(database: AsyncDatabase[Document]) -> Overview:
    """Reads all metadata, and no content."""
    metadata = database[METADATA]
    total = await _one(
        metadata.aggregate(
            [
                {
                    "$group": {
                        "_id": None,
                        "urls": {"$sum": 1},
                        "first": {"$min": "$crawled_at"},
                        "last": {"$max": "$crawled_at"},
                        "duplicates": {"$sum": {"$cond": [{"$gt": ["$duplicate_of", ""]}, 1, 0]}},
                    }
                }
            ]
        )
    )
    kept = await _one(
        metadata.aggregate(
            [
                {"$match": KEPT},
                {"$group": {"_id": None, "n": {"$sum": 1}, "bytes": {"$sum": "$size_bytes"}}},
            ]
        )
    )
    disk_bytes = 0
    for name in (METADATA, CONTENT):
        found = await database.command("collStats", name)
        disk_bytes += int(found["storageSize"] + found["totalIndexSize"])
    return Overview(
        urls=total.get("urls", 0),
        pages=kept.get("n", 0),
        duplicates=total.get("duplicates", 0),
        statuses=await _most(database, "status", {}),
        reasons=await _most(database, "reason", {"reason": {"$gt": ""}}),
        domains=await _most(database, "domain", {}),
        fetched_bytes=kept.get("bytes", 0),
        disk_bytes=disk_bytes,
        first_crawled=total.get("first"),
        last_crawled=total.get("last"),
    )


async def _most(database: AsyncDatabase[Document], name: str, match: Document) -> dict[Any, int]:
    cursor = await database[METADATA].aggregate(
        [
            {"$match": match},
            {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
            {"$sort": {"n": -1, "_id": 1}},
            {"$limit": _MOST},
        ]
    )
    return {each["_id"]: each["n"] async for each in cursor}


async def _one(cursor: Any) -> Document:
    """The only document of an aggregation, or none."""
    found: list[Document] = await (await cursor).to_list()
    return found[0] if found else {}
