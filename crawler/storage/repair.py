"""Find and mend pages whose metadata and content do not belong together.

Content is written first, so a process that dies in between leaves content without metadata; its URL
is still leased and is crawled again. The other way round only a hand or a lost disk can do it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crawler.storage import schema
from crawler.storage.reader import KEPT
from crawler.storage.schema import CONTENT, METADATA

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

MISSING = "content_missing"
_TOGETHER = 1000

Document = dict[str, Any]


@dataclass(slots=True)
class Repaired:
    """What was found; all of it is mended, unless only a look was asked for."""

    # Content that no metadata speaks of, or whose page has none of its own any more: deleted.
    without_metadata: int = 0
    # Metadata that promises content which is not there: they say so from now on.
    without_content: int = 0

    @property
    def total(self) -> int:
        return self.without_metadata + self.without_content


class Repair:
    """One pass over both collections. A crawl may run meanwhile."""

    def __init__(
        self, database: AsyncDatabase[Document], *, before: datetime, only_look: bool
    ) -> None:
        self._database = database
        self._metadata = database[METADATA]
        self._content = database[CONTENT]
        # Younger content may be waiting for its metadata.
        self._before = before
        self._only_look = only_look
        self.found = Repaired()

    async def run(self) -> AsyncIterator[int]:
        """Look at everything; yields how many documents were looked at since the last time."""
        if not self._only_look:
            await schema.make_indexes(self._database)
        async for ids in _batches(self._content.find({}, {"_id": False, "page_id": True})):
            await self._look_at_content([each["page_id"] for each in ids])
            yield len(ids)
        kept = self._metadata.find(KEPT, {"_id": False, "url_hash": True, "crawled_at": True})
        async for pages in _batches(kept):
            await self._look_at_metadata(pages)
            yield len(pages)

    async def count(self) -> int:
        """How many documents there are to look at, nearly."""
        return (
            await self._content.estimated_document_count()
            + await self._metadata.estimated_document_count()
        )

    async def _look_at_content(self, ids: list[str]) -> None:
        # Errors since the last visit leave its content.
        has_own = {"duplicate_of": "", "reason": {"$ne": "noindex"}}
        metadata = self._metadata.find({"url_hash": {"$in": ids}, **has_own}, {"url_hash": True})
        known = {each["url_hash"] async for each in metadata}
        lost = [page_id for page_id in ids if page_id not in known]
        if not lost:
            return
        chosen = {"page_id": {"$in": lost}, "crawled_at": {"$lt": self._before}}
        if self._only_look:
            self.found.without_metadata += await self._content.count_documents(chosen)
        else:
            self.found.without_metadata += (await self._content.delete_many(chosen)).deleted_count

    async def _look_at_metadata(self, pages: list[Document]) -> None:
        ids = [page["url_hash"] for page in pages]
        content = self._content.find({"page_id": {"$in": ids}}, {"_id": False, "page_id": True})
        known = {each["page_id"] async for each in content}
        for page in pages:
            if page["url_hash"] in known:
                continue
            if self._only_look:
                self.found.without_content += 1
                continue
            # Unless it was crawled again since it was read.
            mended = await self._metadata.update_one(
                {"url_hash": page["url_hash"], "crawled_at": page["crawled_at"], **KEPT},
                {"$set": {"reason": MISSING, "content_hash": ""}},
            )
            self.found.without_content += mended.modified_count


async def _batches(cursor: Any) -> AsyncIterator[list[Document]]:
    batch: list[Document] = []
    async for document in cursor:
        batch.append(document)
        if len(batch) == _TOGETHER:
            yield batch
            batch = []
    if batch:
        yield batch
