"""Read pages back from MongoDB, as the store pipeline wrote them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zstandard

from crawler.errors import CrawlerError
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
        self._metadata = database["pages_metadata"]
        self._content = database["pages_content"]

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
                body = decompress(found["codec"], found["body"])
                return Content(page["url"], body, found["text"])
            if not page.get("duplicate_of"):
                return None
            kept = await self._metadata.find_one({"url_hash": page["duplicate_of"]})
            if kept is None:
                return None
            page = kept
        return None


def decompress(codec: str, body: bytes) -> bytes:
    """The body as it was fetched, or CrawlerError."""
    if codec not in _CODECS:
        raise CrawlerError(
            f"The page is stored with the codec {codec!r}, which this version does not know; "
            "read it with the version that wrote it."
        )
    try:
        return _CODECS[codec](body)
    except (zlib.error, zstandard.ZstdError) as error:
        raise CrawlerError(f"The stored page is damaged ({error}); crawl it again.") from error


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda body: zstandard.ZstdDecompressor().decompress(body),
    "zlib": zlib.decompress,
    "none": bytes,
}
