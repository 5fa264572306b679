"""Know the address of a host before it is fetched from. Downloader middleware.

Where there is no such name the URL fails; where DNS gives no answer it waits. A lookup that takes
long holds no fetch up. An outage of DNS makes nothing fail, however long it is; a single name that
stays without an answer while others have one fails in the end.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Self
from urllib.request import getproxies, proxy_bypass

from scrapy import Request, signals
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from crawler.dns.errors import DnsFailed
from crawler.dns.prefetch import DnsPrefetch
from crawler.dns.resolver import BoundedLookup, Resolver
from crawler.download.handler import DownloadHandler
from crawler.frontier import Lease
from crawler.frontier.host_index import Upcoming
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# A name fails after so many lookups without an answer, between each of which others had one.
_HOST_TRIES = 6
_TROUBLED_HOSTS_MAX = 10_000
# A URL whose lookup takes long is next in line after so many seconds; others use the time.
_SLOW_WAIT_S = 1.0


class Dns:
    """Ask before the fetch, so that a slow answer takes nothing of the fetch's time."""

    def __init__(self, crawler: Crawler, *, retry_wait_s: float) -> None:
        self._crawler = crawler
        self._resolver = Resolver.of(crawler)
        self._retry_wait_s = retry_wait_s
        self._bounded_lookup = BoundedLookup(self._resolver.look_up)
        self._prefetch: DnsPrefetch | None = None
        # Host → lookups without an answer, and how many answers there had been at the last.
        self._troubled: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # As Scrapy's proxy middleware, which comes later: a proxy looks names up by itself.
        enabled = crawler.settings.getbool("HTTPPROXY_ENABLED")
        self._proxied = frozenset(getproxies()) if enabled else frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler, retry_wait_s=crawler.settings.getfloat("DNS_RETRY_WAIT"))
        crawler.signals.connect(middleware._spider_opened, signals.spider_opened)
        crawler.signals.connect(middleware._engine_stopped, signals.engine_stopped)
        return middleware

    async def _spider_opened(self) -> None:
        redis = self._resolver.cache.redis = await Servers.of(self._crawler).redis()
        self._say_what_does_not_hold()
        assert self._crawler.engine is not None
        scheduler = self._crawler.engine.scheduler
        # Behind a proxy for all there is nothing to look up; other schedulers have no frontier.
        if isinstance(scheduler, Scheduler) and not {"http", "https"} <= self._proxied:
            upcoming = Upcoming(redis, scheduler.crawl, scheduler.frontier.shards)
            count = self._crawler.stats.inc_value
            self._prefetch = DnsPrefetch(self._resolver, upcoming, scheduler.leases, count)
            self._prefetch.open()

    async def _engine_stopped(self) -> None:
        if self._prefetch is not None:
            await self._prefetch.close()
        self._bounded_lookup.close()
        # The download handlers close it too, but are made for the first fetch only.
        await self._resolver.close()

    def _say_what_does_not_hold(self) -> None:
        handlers = self._crawler.settings.getwithbase("DOWNLOAD_HANDLERS")
        for scheme in ("http", "https"):
            path = handlers.get(scheme)
            if path is not None and not _is_ours(path):
                logger.warning(
                    "%s is fetched by %s: it does not keep out of private networks, and knows "
                    "nothing of DNS_OVERRIDES, DNS_SERVERS and ACCEPT_TYPES; its time limit may "
                    "not be for the whole fetch (docs/operations.md)",
                    scheme,
                    path,
                )

    async def process_request(self, request: Request) -> Request | None:
        parts = urlparse_cached(request)
        host = parts.hostname or ""
        if self._by_proxy(request, parts.scheme, host):
            return None
        lease: Lease | None = request.meta.get(LEASE)
        try:
            if lease is None or self._resolver.knows(host):
                await self._resolver.look_up(host)
            elif not await self._bounded_lookup.look_up(host):
                return self._put_off(request, _SLOW_WAIT_S)
        except DnsFailed:
            wait_s = self._wait_s(host)
            if lease is None or wait_s is None:
                raise
            return self._put_off(request, wait_s)
        if self._troubled:
            self._troubled.pop(host, None)
        return None

    def _put_off(self, request: Request, wait_s: float) -> Request:
        self._crawler.stats.inc_value("dns/deferred")
        return Scheduler.of(self._crawler).leases.put_off(request, round(wait_s * 1000))

    def _by_proxy(self, request: Request, scheme: str, host: str) -> bool:
        if "proxy" in request.meta:
            return bool(request.meta["proxy"])
        return scheme in self._proxied and not proxy_bypass(host)

    def _wait_s(self, host: str) -> float | None:
        """Seconds until a host is tried again after a failure; None if it never will be."""
        answers = self._resolver.cache.answers
        tries, seen = self._troubled.get(host, (0, -1))
        if answers != seen:
            # DNS answered others meanwhile: it is the name's own trouble.
            tries += 1
        if tries >= _HOST_TRIES:
            # From here on the retry policy counts.
            return None
        self._troubled[host] = (tries, answers)
        self._troubled.move_to_end(host)
        if len(self._troubled) > _TROUBLED_HOSTS_MAX:
            self._troubled.popitem(last=False)
        return self._retry_wait_s * float(2 ** max(0, tries - 1)) * (1 + random.random())


def _is_ours(path: object) -> bool:
    try:
        handler = load_object(path)  # type: ignore[arg-type]
    except (ImportError, NameError):
        # Scrapy names the handler that it cannot load, and why, itself.
        return False
    return isinstance(handler, type) and issubclass(handler, DownloadHandler)
