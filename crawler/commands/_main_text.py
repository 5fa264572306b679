"""Make the main text and the Markdown of stored pages that were stored without them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from crawler import config
from crawler.parsing.document import Document as Parsed
from crawler.parsing.document import Unreadable
from crawler.parsing.encoding import decode
from crawler.parsing.html import HtmlReader
from crawler.parsing.paragraphs import Paragraphs
from crawler.parsing.reader import DocumentReader
from crawler.parsing.sniff import PLAIN, sniff
from crawler.reading.pool import DocumentPool
from crawler.storage.documents import MADE, TEXT_KEPT
from crawler.storage.reader import Batch, Document, StoredContent

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_EMPTY_LINES = re.compile(r"\n[ \t\r]*\n")


class MainTextMaker:
    """Maker of main texts, as an asynchronous context: it may start worker processes."""

    def __init__(self, reader: DocumentReader, documents: DocumentPool) -> None:
        self._reader = reader
        self._documents = documents

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        unread = [name.strip().lower() for name in config.value(settings, "TEXT_WITHOUT")]
        html = HtmlReader(max_links=0, unread=unread, blocks=False, main_text=True, markdown=True)
        return cls(DocumentReader(html, max_links=0), DocumentPool.from_settings(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._documents.close()

    async def completed(
        self, page: Document, content: StoredContent, names: Collection[str] = MADE
    ) -> StoredContent:
        """Return content with these texts; raises Unreadable for a document that cannot be read."""
        missing = [name for name in names if not getattr(content, name)]
        if not missing:
            return content
        made = await self._read(page, content)
        texts: dict[str, Any] = {name: getattr(made, name)[:TEXT_KEPT] for name in missing}
        return replace(content, **texts)

    async def batches(
        self, batches: AsyncIterator[Batch], names: Collection[str]
    ) -> AsyncIterator[Batch]:
        """Yield batches whose contents have these texts, as far as they can be made."""
        async for batch in batches:
            if not names:
                yield batch
                continue
            contents = await asyncio.gather(
                *(self._as_far_as_it_goes(page, content, names) for page, content in batch.pages)
            )
            pages = [(page, made) for (page, _), made in zip(batch.pages, contents, strict=True)]
            yield replace(batch, pages=pages)

    async def _as_far_as_it_goes(
        self, page: Document, content: StoredContent | None, names: Collection[str]
    ) -> StoredContent | None:
        if content is None:
            return None
        try:
            return await self.completed(page, content, names)
        except Unreadable:
            return content

    async def _read(self, page: Document, content: StoredContent) -> Parsed:
        # A duplicate has the content of another page, whose type is the same.
        is_own = content.url == page["url"]
        url = (page.get("final_url") or page["url"]) if is_own else content.url
        kind = page.get("headers", {}).get("content-type") or page.get("content_type") or ""
        media_type = sniff(content.body, kind, url)
        if media_type in self._documents.types:
            return await self._documents.read(media_type, content.body, url)
        return await asyncio.to_thread(self._read_here, content.body, url, kind)

    def _read_here(self, body: bytes, url: str, kind: str) -> Parsed:
        found = self._reader.read(body, url, content_type=kind)
        if found.media_type == PLAIN:
            text, _ = decode(body, kind, url)
            paragraphs = Paragraphs(TEXT_KEPT)
            for lines in _EMPTY_LINES.split(text[:TEXT_KEPT]):
                paragraphs.add_lines(lines.splitlines())
            paragraphs.fill(found)
        return found
