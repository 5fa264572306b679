"""Apply HOST_RULES: blocked hosts, page budgets, parallel fetches. Downloader middleware.

Budgets and parallelism are written to the frontier, which applies them for the whole fleet. Delays
are applied at the end of a fetch, see politeness/host_delays.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured

from crawler.config.values import value
from crawler.download.errors import Forbidden
from crawler.frontier import Lease
from crawler.politeness.host_delays import HostDelays
from crawler.scheduler import Scheduler
from crawler.servers.redis.errors import RedisAway
from crawler.util.recent import RecentDict, text_bytes
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

_WRITTEN_MAX_BYTES = 2_000_000
_AWAY_WAIT_MS = 2000


class HostRulesMiddleware:
    """Downloader middleware before any contact with the host, including its robots.txt and DNS."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._rules = HostDelays.of(crawler).rules
        # Hosts whose budget and parallelism are written to the frontier.
        self._written = RecentDict[str, bool](_WRITTEN_MAX_BYTES, text_bytes)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not value(crawler.settings, "HOST_RULES"):
            raise NotConfigured
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None:
            return None
        rule = self._rules.for_host(lease.entry.host)
        if rule.blocked:
            self._crawler.stats.inc_value("host_rules/blocked")
            raise Forbidden(Forbidden.BY_HOST_RULES, f"HOST_RULES block {lease.entry.host}")
        options = {
            name: limit
            for name, limit in (("budget", rule.budget), ("parallelism", rule.parallelism))
            if limit is not None
        }
        if not options or lease.entry.host in self._written:
            return None
        scheduler = Scheduler.of(self._crawler)
        try:
            state = await scheduler.control.host(lease.entry.host, **options)
        except RedisAway:
            return scheduler.leases.put_off(request, _AWAY_WAIT_MS)
        self._written[lease.entry.host] = True
        if rule.budget is not None and state.pages >= rule.budget:
            # Claimed before the budget was written. The frontier drops the other URLs.
            self._crawler.stats.inc_value("host_rules/over_budget")
            text = f"HOST_RULES let {rule.budget} pages of {lease.entry.host} through"
            raise Forbidden(Forbidden.BY_HOST_RULES, text)
        return None
