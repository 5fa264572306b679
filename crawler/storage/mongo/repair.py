"""Find and repair pages whose metadata and content do not belong together.

Content is written first, so a process that dies in between leaves content without metadata; its URL
is still leased and is crawled again. Metadata without content is the work of a person or a broken
disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import KEPT, batches
from crawler.storage.mongo.schema import CONTENT, METADATA

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

MISSING = "content_missing"
_BATCH = 1000

Document = dict[str, Any]


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
    """One pass over both collections. A crawl may run meanwhile."""

    def __init__(
        self, database: AsyncDatabase[Document], *, before: datetime, dry_run: bool
    ) -> None:
        """Content younger than `before` is left alone: it may be waiting for its metadata."""
        self._database = database
        self._metadata = database[METADATA]
        self._content = database[CONTENT]
        self._before = before
        self._dry_run = dry_run
        self.found = Repaired()

    async def run(self) -> AsyncIterator[int]:
        """Check everything; yields the number of documents checked since the last time."""
        if not self._dry_run:
            await schema.make_indexes(self._database)
        contents = self._content.find({}, {"_id": False, "page_id": True})
        async for ids in batches(contents, _BATCH):
            await self._check_content([each["page_id"] for each in ids])
            yield len(ids)
        kept = self._metadata.find(KEPT, {"_id": False, "url_hash": True, "crawled_at": True})
        async for pages in batches(kept, _BATCH):
            await self._check_metadata(pages)
            yield len(pages)

    async def count(self) -> int:
        """Estimate the number of documents to check."""
        return (
            await self._content.estimated_document_count()
            + await self._metadata.estimated_document_count()
        )

    async def _check_content(self, ids: list[str]) -> None:
        # A page keeps its content through errors of later visits.
        has_own = {"duplicate_of": "", "reason": {"$ne": "noindex"}}
        metadata = self._metadata.find({"url_hash": {"$in": ids}, **has_own}, {"url_hash": True})
        known = {each["url_hash"] async for each in metadata}
        lost = [page_id for page_id in ids if page_id not in known]
        if not lost:
            return
        chosen = {"page_id": {"$in": lost}, "crawled_at": {"$lt": self._before}}
        if self._dry_run:
            self.found.without_metadata += await self._content.count_documents(chosen)
        else:
            self.found.without_metadata += (await self._content.delete_many(chosen)).deleted_count

    async def _check_metadata(self, pages: list[Document]) -> None:
        ids = [page["url_hash"] for page in pages]
        content = self._content.find({"page_id": {"$in": ids}}, {"_id": False, "page_id": True})
        known = {each["page_id"] async for each in content}
        for page in pages:
            if page["url_hash"] in known:
                continue
            if self._dry_run:
                self.found.without_content += 1
                continue
            # Unless it was crawled again since it was read.
            marked = await self._metadata.update_one(
                {"url_hash": page["url_hash"], "crawled_at": page["crawled_at"], **KEPT},
                {"$set": {"reason": MISSING, "content_hash": ""}},
            )
            self.found.without_content += marked.modified_count
