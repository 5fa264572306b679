"""Write pages to MongoDB in batches; a page is durable when process_item returns. Pipeline.

URLs that ended without a page (no answer, forbidden by robots.txt …) are recorded by the same
batches: the scheduler's failures come to `record` before their leases are settled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from pymongo import WriteConcern
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.errors import PyMongoError
from scrapy.exceptions import NotConfigured

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.pipelines.feeds import has_pipelines_of_others
from crawler.scheduler import Scheduler
from crawler.scheduling.engine import Engine
from crawler.servers.connections import Servers, mongo_limit_s
from crawler.servers.health import PAGES, shared_mongo_health
from crawler.servers.mongo import explain, start_error
from crawler.storage import documents, schema
from crawler.storage.documents import Documents, documents_of
from crawler.storage.retry import RetryingWriter
from crawler.storage.stats import StoreStats
from crawler.storage.writer import Faults, GroupCommit, Writer
from crawler.util.breaker import OPEN
from crawler.util.tasks import end

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Larger pages are made into documents in a thread; so many bytes take about 0.5 ms.
_INLINE_BYTES = 150_000


class Store:
    """Collections `pages_metadata` and `pages_content`, at most one document a URL in each."""

    def __init__(
        self, crawler: Crawler, *, codec: str, commit: dict[str, Any], timeout_s: float
    ) -> None:
        self._crawler = crawler
        self._codec = codec
        self._compress = documents.compressor(codec)
        self._closing = False
        # None in crawls with a scheduler of Scrapy's.
        self._scheduler: Scheduler | None = None
        self._tally = StoreStats(crawler.stats)
        self._retrying_writer = RetryingWriter(
            *(PAGES, self._is_closing, shared_mongo_health(crawler)),
            timeout_s=timeout_s,
            on_failure=self._tally.failed,
            on_change=self._breaker_changed,
        )
        self._commit = GroupCommit(self._write, **commit)
        self._writer: Writer
        # Makes indexes that an older database lacks, beside the crawl.
        self._indexing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        store, codec = settings["PAGES_STORE"], settings["PAGES_CODEC"]
        if store == "none":
            has_feed = settings["FEEDS"] or settings["FEED_URI"]
            if not has_feed and not has_pipelines_of_others(settings):
                logger.warning(
                    "PAGES_STORE is none, and there is no feed and no pipeline of yours: pages go "
                    "nowhere. To write them to a file: -O pages.jsonl"
                )
            raise NotConfigured
        if store != "mongo":
            raise ConfigurationError(f"PAGES_STORE is {store!r}; set it to mongo or none.")
        if codec not in documents.NAMES:
            raise ConfigurationError(
                f"PAGES_CODEC is {codec!r}; use one of {', '.join(documents.NAMES)}."
            )
        commit = {
            "batch_max": settings.getint("STORE_BATCH_MAX"),
            "batch_max_bytes": settings.getint("STORE_BATCH_MAX_BYTES"),
            "linger_s": settings.getfloat("STORE_LINGER"),
        }
        _concern(settings.getdict("STORE_WRITE_CONCERN"))
        return cls(crawler, codec=codec, commit=commit, timeout_s=mongo_limit_s(settings))

    async def open_spider(self) -> None:
        settings = self._crawler.settings
        client = await Servers.of(self._crawler).mongo()
        database = client[settings["MONGO_DATABASE"]]
        try:
            await schema.check_writable(database)
            await schema.prepare(database)
            if await schema.lacks_indexes(database):
                self._indexing = asyncio.create_task(self._add_indexes(database))
        except PyMongoError as error:
            raise start_error(
                error,
                f"MongoDB cannot be written to: {explain(error)}. To write pages to a file "
                "instead: -s PAGES_STORE=none -O pages.jsonl",
            ) from error
        given = {**settings.getdict("STORE_WRITE_CONCERN"), **database.write_concern.document}
        # A cluster's shards have journals of their own.
        self._writer = Writer(database, _concern(given), one_journal=not await client.is_mongos)
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        if isinstance(scheduler, Scheduler):
            self._scheduler = scheduler
            scheduler.failures.record = self.record
        self._tally.opened()

    async def close_spider(self) -> None:
        self._closing = True
        if self._indexing is not None:
            await end(self._indexing)
        await self._commit.drain()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            self._sign(item)
            if self._scheduler is not None and item.lease is not None:
                self._scheduler.leases.read(item.lease)
            if len(item.body) + len(item.text) <= _INLINE_BYTES:
                documents = documents_of(item, self._codec, self._compress)
            else:
                documents = await asyncio.to_thread(self._heavy_documents, item)
            await self._commit.put(documents)
        return item

    def record(self, page: Page) -> asyncio.Future[None]:
        """Write what became of a URL that has no page; the future is done when it is durable."""
        self._sign(page)
        return self._commit.put(documents_of(page, self._codec, self._compress))

    def _heavy_documents(self, page: Page) -> Documents:
        # A compressor serves one thread at a time.
        return documents_of(page, self._codec, documents.compressor(self._codec))

    async def _write(self, batch: Sequence[Documents]) -> Faults:
        started_s = monotonic()
        faults = await self._retrying_writer.write(partial(self._writer.write, batch))
        written = [each for i, each in enumerate(batch) if i not in faults]
        self._tally.wrote(written, monotonic() - started_s)
        return faults

    async def _add_indexes(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        logger.info("The database %r gets an index to find a page by its url", database.name)
        try:
            await schema.add_indexes(database)
        except PyMongoError as error:
            logger.warning(
                "The index to find a page by its url is not made (%s); the next run tries again, "
                "or now: scrapy pages repair",
                explain(error),
            )

    # --- the crawl -------------------------------------------------------------------------------

    def _breaker_changed(self, state: str) -> None:
        self._tally.breaker(state)
        if self._scheduler is not None:
            self._scheduler.leases.pause(state == OPEN)

    def _sign(self, page: Page) -> None:
        if self._scheduler is not None:
            page.worker = self._scheduler.frontier.owner

    def _is_closing(self) -> bool:
        return self._closing or Engine.is_closing(self._crawler)


def _concern(values: dict[str, Any]) -> WriteConcern:
    """The write concern of these values, or ConfigurationError."""
    try:
        concern = WriteConcern(**values)
    except (MongoConfigurationError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"STORE_WRITE_CONCERN is {values!r} ({error}); use names and values of MongoDB's write "
            'concern, as {"w": "majority", "j": true}.'
        ) from error
    if not concern.acknowledged:
        raise ConfigurationError(
            f"STORE_WRITE_CONCERN is {values!r}: a page that MongoDB does not acknowledge may be "
            "lost; set w to 1 or more."
        )
    return concern
