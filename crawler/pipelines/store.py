"""Store pages; a page is durable when process_item returns. Pipeline.

URLs that ended without a page (no response, forbidden by robots.txt …) are stored the same way: the
scheduler's failures call `record` before their leases are settled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy.exceptions import NotConfigured

from crawler import config
from crawler.items import Page
from crawler.pipelines.feeds import has_pipelines_of_others
from crawler.scheduler import Scheduler
from crawler.scheduling.engine import Engine
from crawler.servers.connections import Servers
from crawler.servers.health import PAGES, shared_mongo_health
from crawler.storage.commit import RetryingWriter, StoreStats
from crawler.storage.mongo.sink import MongoSink, write_concern
from crawler.util.breaker import OPEN

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Store:
    """Pipeline that gives pages to their sink, and pauses fetching while the sink is away."""

    def __init__(self, crawler: Crawler, codec: str) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._closing = False
        # None in crawls with a scheduler of Scrapy's.
        self._scheduler: Scheduler | None = None
        self._crawl: str
        self._stats = StoreStats(crawler.stats)
        writer = RetryingWriter(
            *(PAGES, self._is_closing, shared_mongo_health(crawler)),
            timeout_s=config.value(settings, "MONGO_TIMEOUT"),
            on_failure=self._stats.failed,
            on_change=self._breaker_changed,
        )
        self._sink = MongoSink(
            *(codec, writer, self._stats),
            batch_max=config.value(settings, "STORE_BATCH_MAX"),
            batch_max_bytes=config.value(settings, "STORE_BATCH_MAX_BYTES"),
            linger_s=config.value(settings, "STORE_LINGER"),
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        store, codec = config.value(settings, "PAGES_STORE"), config.value(settings, "PAGES_CODEC")
        if store == "none":
            has_feed = settings["FEEDS"] or settings["FEED_URI"]
            if not has_feed and not has_pipelines_of_others(settings):
                logger.warning(
                    "PAGES_STORE is none, and there is no feed and no pipeline of yours: pages go "
                    "nowhere. To write them to a file: -O pages.jsonl"
                )
            raise NotConfigured
        write_concern(config.value(settings, "STORE_WRITE_CONCERN"))
        return cls(crawler, codec)

    async def open_spider(self) -> None:
        settings = self._crawler.settings
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        if isinstance(scheduler, Scheduler):
            self._scheduler = scheduler
            self._crawl = scheduler.crawl
        else:
            spider = self._crawler.spider or self._crawler.spidercls
            self._crawl = config.crawl_name(settings, spider.name, getattr(spider, "crawl", None))
        client = await Servers.of(self._crawler).mongo()
        concern = config.value(settings, "STORE_WRITE_CONCERN")
        name = config.value(settings, "MONGO_DATABASE")
        await self._sink.open(client, name, concern, crawl=self._crawl)
        if self._scheduler is not None:
            self._scheduler.failures.record = self.record

    async def close_spider(self) -> None:
        self._closing = True
        await self._sink.close()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            if self._scheduler is not None and item.lease is not None:
                self._scheduler.leases.parsed(item.lease)
            await self.record(item)
        return item

    def record(self, page: Page) -> asyncio.Future[None]:
        """Store what became of a URL; the future is done when it is durable."""
        page.crawl = self._crawl
        if self._scheduler is not None:
            page.worker = self._scheduler.frontier.owner
        return self._sink.put(page)

    def _breaker_changed(self, state: str) -> None:
        self._stats.breaker(state)
        if self._scheduler is not None:
            self._scheduler.leases.pause(state == OPEN)

    def _is_closing(self) -> bool:
        return self._closing or Engine.is_closing(self._crawler)
