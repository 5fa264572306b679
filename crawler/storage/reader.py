"""Contract of a reader: what commands, exports, search and the admin API ask of stored pages.

A reader reads the pages of one store: those of MongoDB (mongo/reader.py) or of PostgreSQL
(postgres/reader.py). readers.py opens the one that the settings name.

A page is a dict with the fields of docs/pages.md. It is known by its crawl and its `url_hash`. Its
content, and the page that it duplicates, are of the same crawl.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, Self

from crawler.errors import CrawlerError
from crawler.storage.documents import MADE, TEXT_KEPT, charset_of
from crawler.storage.runs import RunReader
from crawler.urls import Urls

logger = logging.getLogger(__name__)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredContent:
    """Body and text of a page, and the URL they were fetched from.

    The main text and the Markdown are empty if they are not stored.
    """

    url: str
    body: bytes
    text: str
    main_text: str = ""
    markdown: str = ""

    @classmethod
    def of(cls, url: str, body: bytes, texts: Mapping[str, Any]) -> Self:
        """Make it of a document with texts as they are stored; KeyError if there are none."""
        made = {name: texts.get(name) or "" for name in MADE}
        return cls(url, body, texts["text"][:TEXT_KEPT], **made)

    def decoded(self, charset: str | None) -> str:
        """Return the body as text; what its charset does not have is replaced."""
        try:
            return self.body.decode(charset_of(charset), "replace")
        except (LookupError, ValueError):
            return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Batch:
    """Pages that are read together, with their own content."""

    pages: list[tuple[Document, StoredContent | None]]
    # Pages of them whose content cannot be read.
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choice of pages; None means any."""

    crawl: str | None = None
    # A registered domain, or a host.
    domain: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    # From and to, both included: (200, 299).
    statuses: tuple[int, int] | None = None
    reason: str | None = None
    # Only those with content.
    kept: bool = False
    # Only those that a browser rendered.
    rendered: bool = False
    # Only those that follow this `_id`.
    after: Any = None


@dataclass(frozen=True, slots=True)
class Overview:
    """Figures of one store, or of one crawl. The dicts have the most frequent values first."""

    urls: int
    pages: int
    duplicates: int
    crawls: dict[str, int]
    statuses: dict[int, int]
    reasons: dict[str, int]
    domains: dict[str, int]
    # Size of the bodies as they were fetched, and of all crawls on the server's disk.
    fetched_bytes: int
    disk_bytes: int
    first_crawled: datetime | None
    last_crawled: datetime | None


class PageReader(Protocol):
    """Reader of the pages of one store. `urls` are the URL rules of their crawl.

    Errors are those of the store's client that servers/ explains, or CrawlerError.
    """

    # For people: "MongoDB".
    name: str
    urls: Urls

    @property
    def runs(self) -> RunReader:
        """Reader of the records of runs in the same store."""

    async def crawls(self, url: str | None = None) -> list[str]:
        """List the crawls that have pages, or a page of this canonical URL."""

    async def metadata(self, url: str, crawl: str | None = None) -> Document | None:
        """Read the metadata of a canonical URL; None if it was never crawled.

        Without a crawl, it is that of the newest visit by any crawl.
        """

    async def content(self, page: Document) -> StoredContent | None:
        """Read the content of a page, or of the page it duplicates; None if it was not kept.

        Of content in an object store or an archive: NotFound if it is gone, SinkAway if the store
        is away.
        """

    def find(self, wanted: Wanted, limit: int = 0) -> AsyncIterator[Document]:
        """Yield the metadata of pages, the newest first. A limit of 0 means all."""

    async def count(self, wanted: Wanted) -> int:
        """Count pages."""

    def with_content(
        self,
        wanted: Wanted,
        *,
        fields: Sequence[str] | None = None,
        contents: bool = True,
        by_time: bool = False,
    ) -> AsyncIterator[Batch]:
        """Yield pages with `_id` and these fields of their metadata; None means all.

        They come in the order of `_id`, or of `crawled_at`: then a page that is crawled meanwhile
        may come twice, the later visit last. Content and metadata are of one visit. Content that
        cannot be read is logged and left out. One batch is in memory at a time.
        """

    async def overview(self, crawl: str | None = None) -> Overview:
        """Read all metadata, or those of a crawl, and no content."""

    async def set_page_ranks(self, crawl: str, ranks: Mapping[str, float]) -> None:
        """Write the ranks of some pages of a crawl, by their hashes; those that are gone are not.

        Later visits leave them as they are.
        """

    def delete(self, wanted: Wanted) -> AsyncIterator[int]:
        """Delete pages; yields the number of pages deleted since the last time.

        It may be interrupted and run again. What a crawl stores meanwhile stays whole: only the
        visit that was found is deleted, with its content.
        """


# A duplicate points to the page that was kept. Chains are rare (a later crawl replaced the content
# of the original) and followed this far.
CHAIN_MAX = 5
# SimHash bits in which texts of a similarity of 0.8 seldom differ, and others nearly always.
_SIMILAR_BITS = 18
# Pages that are read together, with content and without it; bytes of their documents and bodies.
BATCH, BATCH_BARE = 100, 1000
BATCH_BYTES = 16 * 1024 * 1024
# Fields of the metadata that are needed to read content.
NEEDED = ("crawl", "url", "url_hash", "duplicate_of", "size_bytes", "crawled_at")
# Contents that cannot be read and are logged; the others are only counted.
_LOGGED_MAX = 5
# Entries in each list of an overview.
MOST = 10


def has_changed(page: Document, original: Document) -> bool:
    """Whether the original has changed since the page was found to be its duplicate."""
    distance = page.get("duplicate_distance")
    if distance is None and page.get("duplicate_similarity") is not None:
        distance = _SIMILAR_BITS
    if distance is None:
        return page.get("content_hash") != original.get("content_hash")
    # Without a SimHash the original has become too short to be compared.
    now = original.get("simhash")
    return not now or (int(page["simhash"], 16) ^ int(now, 16)).bit_count() > distance


def batch_of(
    pages: Sequence[Document],
    contents: Sequence[StoredContent | CrawlerError | None],
    unread: int,
) -> Batch:
    """Make a batch of pages and their contents, or why these cannot be read.

    `unread` contents that its reader met before could not be read.
    """
    faults = [
        (page, each)
        for page, each in zip(pages, contents, strict=True)
        if isinstance(each, CrawlerError)
    ]
    for page, error in faults[: max(0, _LOGGED_MAX - unread)]:
        url, why = page["url"], str(error)
        # Many of them name it.
        text = why if url in why else f"The content of {url} cannot be read: {why}"
        logger.warning("%s", text)
    kept = [None if isinstance(each, CrawlerError) else each for each in contents]
    return Batch(list(zip(pages, kept, strict=True)), len(faults))
