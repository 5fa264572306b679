"""Move content by its age while a crawl with recrawls runs (PAGES_KEEP).

Once an hour one process of the fleet does what `scrapy pages tier --crawl NAME` does, in the
background and with few requests at a time. A crawl without recrawls ends, and needs no clock.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Self

from pymongo.errors import PyMongoError
from scrapy import signals
from scrapy.exceptions import NotConfigured

from crawler import config
from crawler.errors import CrawlerError
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.mongo import explain
from crawler.storage.mongo.tiers import Tiering, TierLock
from crawler.storage.retention import Retention
from crawler.storage.sinks import uses_mongo
from crawler.util.format import plural, size
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# How often a process asks whether it is time.
_POLL_S = 60.0
# Requests to the object store at a time: fetching comes first.
_PARALLEL = 4


class Tiers:
    """Background task that moves content when its hour has come."""

    def __init__(
        self, crawler: Crawler, retention: Retention, database: str, *, poll_s: float = _POLL_S
    ) -> None:
        self._crawler = crawler
        self._retention = retention
        self._database = database
        self._poll_s = poll_s
        self._task: asyncio.Task[None] | None = None
        # The last error, which is not logged again until a run succeeds.
        self._error = ""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        retention = Retention.from_settings(crawler.settings)
        if retention is None or not uses_mongo(crawler.settings):
            raise NotConfigured
        tiers = cls(crawler, retention, config.value(crawler.settings, "MONGO_DATABASE"))
        crawler.signals.connect(tiers.start, signals.spider_opened)
        crawler.signals.connect(tiers.stop, signals.spider_closed)
        return tiers

    def start(self) -> None:
        """Begin to ask whether it is time."""
        self._task = asyncio.get_running_loop().create_task(self._run_forever())

    async def stop(self) -> None:
        """End the task; what it has not moved is moved the next time."""
        if self._task is not None:
            await end(self._task)

    async def _run_forever(self) -> None:
        while True:
            if Scheduler.of(self._crawler).recrawls.policy is not None:
                await self._run()
            await asyncio.sleep(self._poll_s)

    async def _run(self) -> None:
        try:
            await self._run_at_turn()
        except (CrawlerError, PyMongoError) as error:
            why = explain(error) if isinstance(error, PyMongoError) else str(error)
            if why != self._error:
                logger.error("Content by age is moved later, the crawl goes on: %s", why)
            self._error = why
        except Exception:
            # The crawl needs none of this.
            logger.exception("Content by age is moved later, the crawl goes on")

    async def _run_at_turn(self) -> None:
        crawl = Scheduler.of(self._crawler).crawl
        database = (await Servers.of(self._crawler).mongo())[self._database]
        async with TierLock(database, crawl).taken(scheduled=True) as is_taken:
            if not is_taken:
                return
            tiering = Tiering(database, self._retention, crawl, parallel=_PARALLEL)
            async for _ in tiering.run():
                pass
        self._error = ""
        count = self._crawler.stats.inc_value
        for to, moved in tiering.done.items():
            if moved.pages:
                count(f"tiers/{to}", moved.pages)
                text = "Content by age: %s became %s (%s)"
                logger.info(text, plural(moved.pages, "page"), to, size(moved.bytes))
        if tiering.loose:
            count("tiers/loose_objects", tiering.loose)
        if tiering.left:
            count("tiers/left", tiering.left)
            logger.info("Content by age: %s left as before", plural(tiering.left, "page"))
