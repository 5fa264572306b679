"""Read pages back from MongoDB, as the store pipeline wrote them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from crawler.storage import codecs
from crawler.storage.schema import CONTENT, METADATA
from crawler.urls import fingerprint

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

# A duplicate points to the page that was kept; the rare chain (its content was replaced by a later
# crawl) is followed this far.
_CHAIN_MAX = 5


@dataclass(frozen=True, slots=True)
class Content:
    """The body and the text of a page, and the URL they were fetched from."""

    url: str
    body: bytes
    text: str


class StoredPages:
    """The pages of one database."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._metadata = database[METADATA]
        self._content = database[CONTENT]

    async def metadata(self, url: str) -> dict[str, Any] | None:
        """What is known of a canonical URL, or None if it was never crawled."""
        return await self._metadata.find_one(
            {"url_hash": f"{fingerprint(url):016x}"}, {"_id": False}
        )

    async def content(self, page: dict[str, Any]) -> Content | None:
        """The content of a page, or of the page it duplicates; None if it was not kept."""
        for _ in range(_CHAIN_MAX):
            found = await self._content.find_one({"page_id": page["url_hash"]})
            if found is not None:
                body = codecs.decompress(found["codec"], found["body"])
                return Content(page["url"], body, found["text"])
            if not page.get("duplicate_of"):
                return None
            kept = await self._metadata.find_one({"url_hash": page["duplicate_of"]})
            if kept is None:
                return None
            page = kept
        return None
