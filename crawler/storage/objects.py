"""One object for each page in an object store: its name, its content, and the sink.

    {crawl}/{domain}/{YYYY}/{MM}/{DD}/{url_hash}.json.gz

The day is that of the visit in UTC. An object is gzip with the document of docs/pages.md in JSON,
with `text` and the body. The body comes back byte for byte: it is text in `body` if the charset of
the page turns that into the same bytes again, and `body_base64` otherwise.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, Self
from urllib.parse import quote

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, SinkAway
from crawler.items import Page
from crawler.servers.objects import ObjectStore, deadline_s
from crawler.storage.documents import as_json, body_fields, charset_of, page_fields, texts_of
from crawler.storage.sink import Place, Results, Sink, SinkContext, SinkReport

# A page of 24 KB takes 0.8 ms; at level 6 it takes 1.4 ms, and 5% less room.
_LEVEL = 3
# Objects of a batch that are written at the same time.
_AT_ONCE = 32


def object_name(crawl: str, domain: str, at: datetime, url_hash: str) -> str:
    """Return the name of the object of a page that was crawled at this time."""
    day = f"{at.astimezone(UTC):%Y/%m/%d}"
    return f"{folder_name(crawl)}/{folder_name(domain)}/{day}/{quote(url_hash, safe='')}.json.gz"


def folder_name(text: str) -> str:
    """Quote a text so that it is the name of one folder, and neither "." nor ".."."""
    quoted = quote(text, safe="") or "-"
    return quoted if quoted.strip(".") else quoted.replace(".", "%2E")


def pack(document: Mapping[str, Any]) -> bytes:
    """Return the object of a page; its `body` is bytes, or is left out."""
    document = dict(document)
    body = document.pop("body", None)
    if body is not None:
        document |= body_fields(body, document.get("charset"))
    # Without the time of packing, the same page gives the same bytes.
    return gzip.compress(as_json(document).encode(), _LEVEL, mtime=0)


def unpack(data: bytes) -> dict[str, Any]:
    """Return the document of an object: `body` is bytes, dates are texts; ValueError if it is none.

    Without a `body` it was packed without one.
    """
    try:
        document = json.loads(gzip.decompress(data))
        if "body_base64" in document:
            document["body"] = b64decode(document.pop("body_base64"), validate=True)
        elif "body" in document:
            charset = charset_of(document.get("charset"))
            document["body"] = str.encode(document["body"], charset)
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError) as error:
        raise ValueError(f"this is no object of a page ({error})") from error
    if not isinstance(document, dict):
        raise ValueError("this is no object of a page (its JSON is no object)")  # noqa: TRY004
    return document


@dataclass(frozen=True, slots=True)
class PageObject:
    """Object of a page, ready to be written."""

    name: str
    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)


class ObjectSink(Sink):
    """Sink with one object for each page whose content is kept: SINKS="s3://bucket/prefix".

    Duplicates, pages that have not changed (304) and URLs without a page give no object.
    """

    keeps_bodies = True
    # About 0.5 ms.
    inline_bytes = 30_000

    def __init__(self, store: ObjectStore, batch_max_bytes: int) -> None:
        super().__init__(store.url)
        self._store = store
        self._batch_max_bytes = batch_max_bytes

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        store = ObjectStore.from_url(context.target, what="SINKS")
        return cls(store, config.value(context.settings, "STORE_BATCH_MAX_BYTES"))

    @property
    def timeout_s(self) -> float:
        return deadline_s(self._batch_max_bytes)

    async def open(self) -> None:
        await self._store.check()

    async def close(self) -> None:
        """Close nothing: the library keeps the connections."""

    def prepare(self, page: Page) -> PageObject | None:
        if not page.stored or page.duplicate_of:
            return None
        document = page_fields(page)
        name = object_name(page.crawl, document["domain"], page.crawled_at, page.url_hash)
        document |= {"parent_url": page.parent_url, **texts_of(page), "body": page.body}
        return PageObject(name, pack(document))

    async def write(self, batch: Sequence[PageObject | None]) -> Results:
        results: dict[int, Exception | Place] = {}
        free = asyncio.Semaphore(_AT_ONCE)

        async def put(position: int, each: PageObject) -> None:
            async with free:
                try:
                    await self._store.put(each.name, each.data)
                except CrawlerError as error:
                    if self.is_away(error):
                        raise
                    results[position] = error
                else:
                    results[position] = {"object": f"{self._store.url}/{each.name}"}

        try:
            async with asyncio.TaskGroup() as writes:
                for position, each in enumerate(batch):
                    if each is not None:
                        writes.create_task(put(position, each))
        except ExceptionGroup as errors:
            # The first one has ended all others.
            raise errors.exceptions[0] from errors
        return results

    def is_away(self, error: Exception) -> bool:
        # People can correct credentials and buckets while pages wait: no page is the cause.
        return isinstance(error, (SinkAway, ConfigurationError, OSError))

    async def check(self) -> SinkReport:
        started_s = perf_counter()
        await self._store.check()
        spent_ms = (perf_counter() - started_s) * 1000
        return SinkReport(f"{self._store.url}, {spent_ms:.0f} ms for a write and a deletion", {})
