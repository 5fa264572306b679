"""Keep IP_DELAY between fetches from hosts that share an address. Downloader middleware.

The frontier keeps the delays of hosts, but does not know their addresses. A URL whose address was
contacted too recently is put off. The fetch of a robots.txt waits in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.exceptions import NotConfigured
from scrapy.utils.httpobj import urlparse_cached

from crawler import config
from crawler.politeness.ip_clock import IpClock
from crawler.scheduler import Scheduler
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from crawler.frontier import Lease


class IpDelay:
    """Downloader middleware right before the fetch: robots.txt allows it, the proxy is known."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._clock = IpClock.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not config.value(crawler.settings, "IP_DELAY"):
            raise NotConfigured
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or request.meta.get("proxy"):
            return None
        host = urlparse_cached(request).hostname or ""
        if not (wait_ms := await self._clock.wait_ms(host, lease.entry.host)):
            return None
        return Scheduler.of(self._crawler).leases.put_off(request, wait_ms)
