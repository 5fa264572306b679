"""Obey robots.txt. Downloader middleware.

The host's slot is the lock: whoever holds a lease on a host with unknown rules fetches its
robots.txt, and hands the URL back with the host's clock set. Nobody waits holding a slot, and
nobody takes a missing answer for a yes.
"""

from __future__ import annotations

import logging
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Self

from scrapy import Request, signals
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest

from crawler.extensions.servers import Servers
from crawler.frontier import Lease, RedisAway
from crawler.middlewares.adaptive_delay import CRAWL_DELAY
from crawler.policy.politeness import Fetch, Politeness
from crawler.policy.retry_after import retry_after_s
from crawler.policy.robots import MAX_BYTES, Rules, Unreachable, judge
from crawler.requests import LEASE, MAY_FETCH
from crawler.robots_cache import RobotsCache
from crawler.scheduler import Scheduler
from crawler.urls import authority_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

_TIMEOUT_S = 10


class Robots:
    """Let through what the rules allow."""

    def __init__(self, crawler: Crawler, politeness: Politeness) -> None:
        self._crawler = crawler
        self._politeness = politeness
        self._crawl_delay_max_s = crawler.settings.getfloat("CRAWL_DELAY_MAX")
        self._cache: RobotsCache

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        politeness = Politeness(
            factor=settings.getfloat("DELAY_FACTOR"),
            min_s=settings.getfloat("DELAY_MIN"),
            max_s=settings.getfloat("DELAY_MAX"),
        )
        robots = cls(crawler, politeness)
        crawler.signals.connect(robots._spider_opened, signals.spider_opened)
        return robots

    async def _spider_opened(self) -> None:
        settings = self._crawler.settings
        self._cache = RobotsCache(
            await Servers.of(self._crawler).redis(),
            # Rules name the product, not the version or the contact behind it.
            settings["ROBOTSTXT_USER_AGENT"]
            or settings["USER_AGENT"].partition("/")[0].partition(" ")[0],
            ttl_s=settings.getfloat("ROBOTS_TTL"),
            error_ttl_s=settings.getfloat("ROBOTS_ERROR_TTL"),
            size=settings.getint("ROBOTS_CACHE_SIZE"),
        )

    async def process_request(self, request: Request) -> Request | None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or request.meta.get("dont_obey_robotstxt"):
            return None
        try:
            found = await self._cache.get(authority_of(lease.entry.url))
            if found is None:
                if Scheduler.of(self._crawler).may_fetch(lease):
                    await self._fetch_rules(lease)
                else:
                    Scheduler.of(self._crawler).hand_back(lease, 0)
                return request
        except RedisAway as error:
            logger.debug("No look at the rules for %s: %s", request.url, error)
            nothing = Fetch(duration_s=0.0, status=None)
            Scheduler.of(self._crawler).hand_back(lease, self._politeness.rest_ms(nothing))
            return request
        rules, left_s = found
        if isinstance(rules, Unreachable):
            self._count("robots/deferred")
            Scheduler.of(self._crawler).hand_back(lease, round(left_s * 1000) + 1)
            return request
        if not rules.allows(lease.entry.url):
            self._count("robots/denied")
            # The host was not contacted, so it need not rest.
            Scheduler.of(self._crawler).release(lease, 0)
            raise IgnoreRequest(f"robots.txt forbids {lease.entry.url}")
        request.meta[CRAWL_DELAY] = self._crawl_delay_s(rules)
        return None

    async def _fetch_rules(self, lease: Lease) -> None:
        """Fetch the rules of this lease's authority, then hand the lease back."""
        authority = authority_of(lease.entry.url)
        robots = Request(
            f"{authority}/robots.txt",
            # Not for filters such as the offsite one: its page passed them.
            dont_filter=True,
            meta={
                "download_slot": lease.entry.host,
                "download_timeout": _TIMEOUT_S,
                "download_cut": MAX_BYTES + 1,
                MAY_FETCH: partial(Scheduler.of(self._crawler).may_fetch, lease),
            },
        )
        started = monotonic()
        status, asked_s = None, 0.0
        try:
            response = await self._crawler.engine.download_async(robots)
            answer = judge(response.status, response.body)
            status = response.status
            asked_s = retry_after_s(response.headers.get("Retry-After")) or 0.0
        except DownloadCancelledError:
            # An address that is never connected to: there is nothing to wait for.
            Scheduler.of(self._crawler).release(lease, 0)
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the rules are not known
            if not Scheduler.of(self._crawler).may_fetch(lease):
                # This process stood still; that says nothing about the host.
                Scheduler.of(self._crawler).hand_back(lease, 0)
                return
            answer = Unreachable(type(error).__name__)
        fetch = Fetch(duration_s=monotonic() - started, status=status)
        self._count("robots/fetched")
        wait_s = asked_s if isinstance(answer, Unreachable) else 0.0
        rules, left_s = await self._cache.put(authority, answer, at_least_s=wait_s)
        if isinstance(rules, Unreachable):
            self._count("robots/unreachable")
            logger.info("No rules from %s (%s): its URLs wait", authority, rules.reason)
            rest_ms = round(left_s * 1000) + 1
        else:
            rest_ms = self._politeness.rest_ms(fetch, crawl_delay_s=self._crawl_delay_s(rules))
        Scheduler.of(self._crawler).hand_back(lease, rest_ms)

    def _crawl_delay_s(self, rules: Rules) -> float:
        return min(rules.crawl_delay_s, self._crawl_delay_max_s)

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(name)
