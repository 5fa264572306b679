"""Read the bodies of pages where sinks of bodies keep them: in WARC files and object stores.

The record of a page has its `places`. An object has the text of the page too. That of a page in a
WARC file is read from the body again, by the rules of the settings (TEXT_WITHOUT).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from crawler import config
from crawler.errors import CrawlerError, NotFound
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from crawler.servers.objects import SCHEMES, ObjectStore
from crawler.storage import objects
from crawler.storage.documents import TEXT_KEPT
from crawler.storage.reader import Document, StoredContent
from crawler.storage.sinks import WARC, targets
from crawler.storage.warc.index import line_of
from crawler.storage.warc.reader import Archive, FolderSource, Source, StoreSource, unpacked_body
from crawler.storage.warc.sink import FOLDER
from crawler.storage.warc.upload import SETTING

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Fields of the metadata by which content is read.
NEEDED = ("places", "final_url", "headers", "charset")


def archive_folders(settings: BaseSettings) -> list[Path]:
    """Return the folders of WARC files in SINKS, or the usual one if it names none."""
    return [Path(target or FOLDER) for target in targets(settings, WARC) or [""]]


def archive_of_settings(settings: BaseSettings) -> Archive:
    """Return the archive in the folders of SINKS and at WARC_UPLOAD."""
    sources: list[Source] = [FolderSource(folder) for folder in archive_folders(settings)]
    if url := config.value(settings, SETTING):
        sources.append(StoreSource(ObjectStore.from_url(url, what=SETTING)))
    return Archive(sources)


class OtherVisit(NotFound):
    """Error of content that is newer than the record of its page."""


class Bodies:
    """Bodies and texts of pages, by the places in their records."""

    def __init__(self, archive: Archive, stores: Iterable[str], *, unread: Iterable[str]) -> None:
        """`stores` are the URLs of object stores, `unread` the elements without text."""
        self._archive = archive
        # Opened when first used.
        self._stores: dict[str, ObjectStore | None] = dict.fromkeys(stores)
        html = HtmlReader(max_links=0, unread=unread, blocks=False)
        self._reader = DocumentReader(html, max_links=0)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        unread = [name.strip().lower() for name in config.value(settings, "TEXT_WITHOUT")]
        stores = [target for scheme in SCHEMES for target in targets(settings, scheme)]
        return cls(archive_of_settings(settings), stores, unread=unread)

    async def read(self, page: Document) -> StoredContent | None:
        """Read the content of a page; None if it has no place.

        Of several places the first that has it counts. If none has: NotFound, or SinkAway.
        """
        fault: CrawlerError | None = None
        # Objects first: they have the text.
        for place in sorted(page.get("places", {}).values(), key=lambda each: "object" not in each):
            try:
                if "object" in place:
                    return await self._of_object(page, place["object"])
                if "file" in place:
                    return await self._of_archive(page, place)
            except CrawlerError as error:
                fault = fault or error
        if fault is not None:
            raise fault
        return None

    async def _of_object(self, page: Document, url: str) -> StoredContent:
        store = self._store_of(url)
        data = await store.get(url.removeprefix(f"{store.url}/"))
        try:
            found = await asyncio.to_thread(objects.unpack, data)
            at = datetime.fromisoformat(found["crawled_at"])
            content = StoredContent.of(page["url"], found["body"], found)
        except (ValueError, KeyError, TypeError) as error:
            raise CrawlerError(f"{url} is damaged ({error}); crawl the page again.") from error
        if at > page["crawled_at"]:
            # Visits of one day have one object.
            raise OtherVisit("it is of a later visit than the record; read it again.")
        return content

    def _store_of(self, url: str) -> ObjectStore:
        """Return the store of SINKS that has an object; NotFound if none has."""
        for target in self._stores:
            if url.startswith(f"{target.rstrip('/')}/"):
                if self._stores[target] is None:
                    self._stores[target] = ObjectStore.from_url(target, what="SINKS", create=False)
                return cast(ObjectStore, self._stores[target])
        raise NotFound(f"it is in {url}, and SINKS does not name that store; name it.")

    async def _of_archive(self, page: Document, place: Mapping[str, Any]) -> StoredContent:
        # A rendered page has what the browser showed beside what its server sent.
        part = "rendered_" if "rendered_length" in place else ""
        line = line_of(
            page["final_url"],
            f"{page['crawled_at'].astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            length=place[f"{part}length"],
            offset=place[f"{part}offset"],
            filename=place["file"],
        )
        try:
            if part:
                head, packed = b"", await self._archive.conversion(line)
            else:
                head, packed = await self._archive.payload(line)
        except OSError as error:
            raise CrawlerError(
                f"{place['file']} cannot be read ({error.strerror or error})."
            ) from error
        return await asyncio.to_thread(self._content, page, head, packed)

    def _content(self, page: Document, head: bytes, packed: bytes) -> StoredContent:
        body = unpacked_body(head, packed)
        url, kind = page["final_url"], page["headers"].get("content-type", "")
        document = self._reader.read(body, url, content_type=kind)
        # A body that the spider did not read as text has no charset.
        was_read = bool(page.get("charset")) or not document.charset
        return StoredContent(page["url"], body, document.text[:TEXT_KEPT] if was_read else "")
