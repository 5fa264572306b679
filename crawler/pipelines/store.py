"""Store pages; a page is durable when process_item returns. Pipeline.

URLs that ended without a page (no response, forbidden by robots.txt …) are stored the same way: the
scheduler's failures call `record` before their leases are settled. So are the responses of spiders
whose items are no pages: the leases middleware records them. Sinks that archive also get responses
that are no pages: robots.txt, sitemaps and redirects.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawler import config
from crawler.errors import NotStored, ServerAway
from crawler.frontier.on_disk import OnDisk
from crawler.frontier.stores import KnownStores
from crawler.items import Page
from crawler.monitoring.process_stats import ProcessStats
from crawler.pipelines.feeds import has_pipelines_of_others
from crawler.pipelines.runs import RunRecorder
from crawler.scheduler import Scheduler
from crawler.scheduling.engine import Engine
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.storage.disk_log import crawl_folder
from crawler.storage.losses import Losses
from crawler.storage.sinks import named_sinks
from crawler.storage.spool import Spool
from crawler.storage.storage import BatchLimits, Storage

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Store:
    """Pipeline that gives pages to all sinks, and pauses fetching while one of them is away."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        assert crawler.spider is not None
        assert crawler.stats is not None
        self._crawler = crawler
        self._crawl = config.crawl_name(
            settings, crawler.spider.name, getattr(crawler.spider, "crawl", None)
        )
        self._closing = False
        # None in crawls with a scheduler of Scrapy's.
        self._scheduler: Scheduler | None = None
        servers = Servers.of(crawler)
        sinks = {
            named.name: named.make(self._crawl, settings, servers)
            for named in named_sinks(settings)
        }
        self._storage = Storage(
            *(sinks, crawler.stats, config.fill(BatchLimits, settings)),
            is_closing=self._is_closing,
            spool=self._make_spool(),
        )
        self._runs = RunRecorder(crawler, self._storage, self._crawl)
        # Whether spider_closed will be sent.
        self._is_open = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not named_sinks(settings):
            has_feed = settings["FEEDS"] or settings["FEED_URI"]
            if not has_feed and not has_pipelines_of_others(settings):
                logger.warning(
                    "SINKS is none, and there is no feed and no pipeline of yours: pages go "
                    "nowhere. To write them to a file: -o pages.jsonl"
                )
            raise NotConfigured
        store = cls(crawler)
        crawler.signals.connect(store._opened, signals.spider_opened)
        crawler.signals.connect(store._closed, signals.spider_closed)
        return store

    async def open_spider(self) -> None:
        scheduler = getattr(self._crawler.engine, "scheduler", None)
        registry = None
        if isinstance(scheduler, Scheduler):
            self._scheduler = scheduler
            registry = OnDisk(await Servers.of(self._crawler).redis(), self._crawl)
            self._storage.pause = scheduler.leases.pause
        await self._storage.open(registry)
        if self._scheduler is not None:
            await self._check_losses(self._scheduler)
        ProcessStats.of(self._crawler).storage = self._storage
        if self._scheduler is not None:
            self._scheduler.failures.record = self.record
            if self._storage.archives:
                self._scheduler.archive = self.archive
            self._scheduler.storage = self._storage

    async def _check_losses(self, scheduler: Scheduler) -> None:
        """Raise DataLost if the frontier and the sinks do not belong together."""

        async def is_begun() -> bool:
            return (await scheduler.frontier.sizes()).done > 0

        known = KnownStores(await Servers.of(self._crawler).redis(), self._crawl)
        sinks = {writer.name: writer.sink for writer in self._storage.writers}
        losses = Losses(self._crawl, known, sinks)
        try:
            await losses.check_start(is_begun)
        except RedisAway as error:
            raise ServerAway(f"Redis does not answer: {error}") from error
        scheduler.store_losses = losses.found

    async def close_spider(self) -> None:
        self._closing = True
        if self._is_open:
            await self._storage.finish()
        else:
            await self._storage.close()

    def _opened(self) -> None:
        self._is_open = True
        self._runs.start()

    async def _closed(self, reason: str) -> None:
        """Close the sinks, which are told first how the run and the crawl ended."""
        try:
            await self._runs.end(reason)
        finally:
            await self._storage.close()

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page):
            if self._scheduler is not None and item.lease is not None:
                self._scheduler.leases.parsed(item.lease)
            await self._put(item)
        return item

    def record(self, page: Page) -> asyncio.Future[None]:
        """Store what became of a URL; the future is done when it is durable."""
        return asyncio.ensure_future(self._put(page))

    def archive(self, page: Page) -> asyncio.Future[None]:
        """Store a response that is no page in sinks that archive; the future as of `record`.

        A sink that refuses it is logged, and costs its URL nothing.
        """

        async def archive() -> None:
            try:
                await self._storage.archive(self._named(page))
            except NotStored:
                raise
            except Exception:  # noqa: BLE001 - logged by the storage
                assert self._crawler.stats is not None
                self._crawler.stats.inc_value("store/not_archived")

        return asyncio.ensure_future(archive())

    async def _put(self, page: Page) -> None:
        await self._storage.put(self._named(page))

    def _named(self, page: Page) -> Page:
        """Name the crawl and the process in a page."""
        page.crawl = self._crawl
        if self._scheduler is not None:
            page.worker = self._scheduler.frontier.owner
        return page

    def _make_spool(self) -> Spool | None:
        settings = self._crawler.settings
        folder = config.value(settings, "SPOOL_DIR")
        if not folder:
            return None
        return Spool(
            crawl_folder(folder, self._crawl),
            max_bytes=config.value(settings, "SPOOL_MAX_BYTES"),
            is_closing=self._is_closing,
        )

    def _is_closing(self) -> bool:
        return self._closing or Engine.is_closing(self._crawler)
