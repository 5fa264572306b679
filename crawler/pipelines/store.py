"""Write pages to MongoDB in batches; a page is durable when process_item returns. Last pipeline.

Group commit: one batch is in flight, the next takes all that waits. Content goes first, so that
metadata never points to a page that is not there. While MongoDB is away, the batch is kept and
written again.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import zstandard
from pymongo import UpdateOne, WriteConcern
from scrapy.exceptions import NotConfigured

from crawler.engine import Engine
from crawler.errors import ConfigurationError, NotStored
from crawler.extensions.servers import Servers
from crawler.items import Page
from crawler.middlewares.conditional import NOT_MODIFIED
from crawler.pipelines.patience import Patience
from crawler.urls import fingerprint, host_of, registered_domain
from crawler.vitals.vitals import STORE_STATE

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Made for each store: a compressor serves one thread at a time.
_CODECS: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "zstd": lambda: zstandard.ZstdCompressor(level=3).compress,
    "zlib": lambda: zlib.compress,
    "none": lambda: bytes,
}
# Larger batches are made into documents in a thread, about 0.5 ms for as many bytes.
_INLINE_BYTES = 100_000
# Kept apart from the metadata: bodies, texts, and what is only of use on the way.
_NOT_METADATA = frozenset({"body", "text", "links", "stored"})
_LINKS_KEPT = 1000
# With the largest body it fits into a document of MongoDB, which has 16 MB.
_TEXT_KEPT = 1_000_000
_METADATA = tuple(field.name for field in fields(Page) if field.name not in _NOT_METADATA)

Waiting = tuple[Page, "asyncio.Future[None]"]


class Store:
    """Collections `pages_metadata` and `pages_content`, one document a URL in each."""

    def __init__(self, crawler: Crawler, *, database: str, codec: str, batch_max: int) -> None:
        self._crawler = crawler
        self._database = database
        self._codec = codec
        self._compress = _CODECS[codec]()
        self._batch_max = batch_max
        self._closing = False
        self._patience = Patience(self._is_closing, self._tell_state)
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._metadata: AsyncCollection[dict[str, Any]]
        self._content: AsyncCollection[dict[str, Any]]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        store, codec = settings["PAGES_STORE"], settings["PAGES_CODEC"]
        if store == "none":
            raise NotConfigured
        if store != "mongo":
            raise ConfigurationError(f"PAGES_STORE is {store!r}; set it to mongo or none.")
        if codec not in _CODECS:
            raise ConfigurationError(f"PAGES_CODEC is {codec!r}; use one of {', '.join(_CODECS)}.")
        return cls(
            crawler,
            database=settings["MONGO_DATABASE"],
            codec=codec,
            batch_max=settings.getint("STORE_BATCH_MAX"),
        )

    async def open_spider(self) -> None:
        database = (await Servers.of(self._crawler).mongo())[self._database]
        self._content = database["pages_content"]
        # Else a server that crashes forgets what it took in the last 100 ms. Its journal is one
        # sequence: the content, which is written before, is then safe too.
        self._metadata = database.get_collection(
            "pages_metadata",
            write_concern=WriteConcern(**{**database.write_concern.document, "j": True}),
        )
        await self._metadata.create_index("url_hash", unique=True)
        await self._metadata.create_index("domain")
        await self._metadata.create_index("crawled_at")
        await self._content.create_index("page_id", unique=True)
        self._tell_state("ok")

    async def close_spider(self) -> None:
        self._closing = True
        if self._task is not None:
            await self._task

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((item, future))
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._write_all())
            await future
        return item

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._batch_max]
                del self._waiting[: self._batch_max]
                await self._commit(batch)
        finally:
            self._task = None

    async def _commit(self, batch: list[Waiting]) -> None:
        """Write a batch and tell each item how it went."""
        try:
            await self._write([page for page, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever it was, the items must not wait
            given_up = isinstance(error, NotStored)
            if len(batch) > 1 and not given_up:
                # One page may be at fault; the others must not suffer for it.
                for one in batch:
                    await self._commit([one])
                return
            if not given_up:
                logger.error("MongoDB did not take a page: %s", error)
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
        else:
            for _, future in batch:
                if not future.done():
                    future.set_result(None)

    async def _write(self, pages: list[Page]) -> None:
        build = partial(self._documents, pages)
        is_light = sum(len(page.body) + len(page.text) for page in pages) <= _INLINE_BYTES
        content, metadata = build() if is_light else await asyncio.to_thread(build)

        async def send() -> None:
            if content:
                await self._content.bulk_write(content, ordered=False)
            await self._metadata.bulk_write(metadata, ordered=False)

        await self._patience.write(send)
        stats = self._crawler.stats
        stats.inc_value("store/batches")
        stats.inc_value("store/pages", len(content))
        stats.inc_value("store/records", len(pages))
        stats.inc_value("store/bytes", sum(page.size_bytes for page in pages))

    def _documents(self, pages: list[Page]) -> tuple[list[UpdateOne], list[UpdateOne]]:
        """What is written to the two collections."""
        content = [
            self._content_of(page) for page in pages if page.stored and not page.duplicate_of
        ]
        return content, [_metadata_of(page) for page in pages]

    def _tell_state(self, state: str) -> None:
        self._crawler.stats.set_value(STORE_STATE, state)

    def _is_closing(self) -> bool:
        return self._closing or Engine.is_closing(self._crawler)

    def _content_of(self, page: Page) -> UpdateOne:
        body = self._compress(page.body)
        document = {
            "page_id": _url_hash(page),
            "codec": self._codec,
            "body": body,
            "original_size": len(page.body),
            "compressed_size": len(body),
            "text": page.text[:_TEXT_KEPT],
        }
        return UpdateOne({"page_id": document["page_id"]}, {"$set": document}, upsert=True)


def _url_hash(page: Page) -> str:
    return f"{fingerprint(page.url):016x}"


def _metadata_of(page: Page) -> UpdateOne:
    document = {name: getattr(page, name) for name in _METADATA}
    if NOT_MODIFIED in page.flags:
        # What is stored of it still holds.
        return UpdateOne(
            {"url_hash": _url_hash(page)},
            {
                "$set": {"crawled_at": page.crawled_at, "flags": page.flags},
                "$setOnInsert": {"url": page.url, "first_seen": page.crawled_at},
                "$inc": {"visits": 1},
            },
            upsert=True,
        )
    host = host_of(page.url)
    document |= {
        "url_hash": _url_hash(page),
        "host": host,
        "domain": registered_domain(host),
        "links_count": len(page.links),
        "links": page.links[:_LINKS_KEPT],
    }
    return UpdateOne(
        {"url_hash": document["url_hash"]},
        {
            "$set": document,
            "$setOnInsert": {"first_seen": datetime.now(UTC)},
            "$inc": {"visits": 1},
        },
        upsert=True,
    )
