"""Obey robots.txt. Downloader middleware; robots/gate.py makes the decisions.

Scrapy's signal `robots_parsed` is sent with the rules as `robotparser` when this process first uses
them, whoever fetched them; listeners read their `sitemaps`. It is awaited while the lease is held:
if this process dies meanwhile, the next one that gets the URL sends it again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from scrapy import Request, signals
from scrapy.exceptions import DownloadCancelledError

from crawler.config.values import value
from crawler.download.errors import Forbidden
from crawler.robots import records
from crawler.robots.gate import Denied, PutOff, RobotsGate, check_user_agent
from crawler.scheduler import Scheduler
from crawler.scheduling.page_maker import PageMaker
from crawler.servers.connections import Servers
from crawler.servers.redis.invalidation import InvalidationReader
from crawler.util.request_meta import CRAWL_DELAY, LEASE, USAGE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.frontier import Lease
    from crawler.scheduling.lease_pool import LeasePool
    from crawler.servers.redis.connection import Client


class Robots:
    """Middleware that lets through what robots.txt allows."""

    gate: RobotsGate

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        check_user_agent(crawler.settings)
        value(crawler.settings, "ROBOTS_FORBIDDEN_IS")
        robots = cls(crawler)
        crawler.signals.connect(robots._spider_opened, signals.spider_opened)
        return robots

    async def _spider_opened(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        self.open(redis)
        InvalidationReader.of(self._crawler).open(redis, records.CACHE, self.gate.cache.forget)

    def open(self, redis: Client) -> None:
        """Make the gate, with its cache in this Redis."""
        self.gate = RobotsGate.from_crawler(self._crawler, redis, self._may_fetch, self._archive)

    @property
    def _leases(self) -> LeasePool:
        # Not at the start: with another scheduler there are only direct requests.
        return Scheduler.of(self._crawler).leases

    def _may_fetch(self, lease: Lease) -> bool:
        return self._leases.may_fetch(lease)

    def _archive(self, response: Response) -> asyncio.Future[None] | None:
        engine = self._crawler.engine
        archive = getattr(getattr(engine, "scheduler", None), "archive", None)
        return None if archive is None else archive(PageMaker.of(self._crawler).page_of(response))

    async def process_request(self, request: Request) -> Request | None:
        if request.meta.get("dont_obey_robotstxt"):
            return None
        lease: Lease | None = request.meta.get(LEASE)
        try:
            decision = await self.gate.check(request.url, lease)
        except DownloadCancelledError:
            self._release(lease)
            raise
        if isinstance(decision, PutOff):
            return self._leases.put_off(request, decision.delay_ms)
        cached = decision.cached
        if lease is not None and cached is not None and not cached.is_announced:
            await self._crawler.signals.send_catch_log_async(
                signals.robots_parsed, robotparser=cached.rules, request=request
            )
            cached.is_announced = True
        if isinstance(decision, Denied):
            self._release(lease)
            raise Forbidden(Forbidden.BY_ROBOTS, decision.text)
        if lease is not None:
            request.meta[CRAWL_DELAY] = decision.crawl_delay_s
            # Replaces what is said of a URL that redirected here.
            request.meta[USAGE] = decision.usage
        return None

    def _release(self, lease: Lease | None) -> None:
        """Free the host at once: it was not contacted."""
        if lease is not None:
            self._leases.release(lease, 0)
