"""Serve the admin API in the process of the crawl, which goes on if the API fails."""

from __future__ import annotations

import asyncio
import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawler.errors import CrawlerError
from crawler.monitoring.process_stats import ProcessStats
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Admin:
    """Admin API that is served while the spider is open."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._task: asyncio.Task[None] | None = None
        self._server: Any = None
        # Empty until it answers.
        self.url = ""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.getbool("ADMIN_ENABLED"):
            raise NotConfigured
        admin = cls(crawler)
        crawler.signals.connect(admin._opened, signals.spider_opened)
        crawler.signals.connect(admin._closed, signals.spider_closed)
        return admin

    def _opened(self) -> None:
        # In the background: the crawl does not wait for it.
        self._task = asyncio.get_running_loop().create_task(self._serve())

    async def _serve(self) -> None:
        try:
            await self._start()
        except CrawlerError as error:
            logger.error("The admin API is off, the crawl goes on: %s", error)
        except Exception:
            logger.exception("The admin API is off, the crawl goes on")

    async def _start(self) -> None:
        settings, scheduler = self._crawler.settings, Scheduler.of(self._crawler)
        # In a thread: the import takes half a second, and would block the crawl.
        admin_server = await asyncio.to_thread(import_module, "crawler.admin.server")
        servers = Servers.of(self._crawler)
        self._server = await asyncio.to_thread(
            admin_server.create_server,
            settings,
            servers,
            scheduler.crawl,
            await servers.redis(),
            scheduler.urls,
            host=settings["ADMIN_HOST"],
            crawler=self._crawler,
        )
        self.url = self._server.url
        ProcessStats.of(self._crawler).extra["admin"] = self.url
        logger.info(
            "Dashboard and admin API: %s (token: %s)", self.url, admin_server.token_at(settings)
        )
        await self._server.start()

    async def _closed(self) -> None:
        if self._task is None:
            return
        if self._server is not None:
            await self._server.stop()
        await end(self._task)
