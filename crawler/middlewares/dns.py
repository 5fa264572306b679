"""Look up the address of a host before anything is fetched from it. Downloader middleware.

A URL whose host does not exist fails. While DNS does not answer, or is slow, the URL is put off and
takes no slot. An outage of DNS makes no URL fail, however long it lasts. A single name that DNS
does not answer while it answers others fails in the end.
"""

from __future__ import annotations

import logging
import math
import random
from collections import OrderedDict
from typing import TYPE_CHECKING, Self
from urllib.request import getproxies, proxy_bypass

from scrapy import Request, signals
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from crawler import config
from crawler.dns.lookup import DnsFailed
from crawler.dns.resolver import CACHE, DnsPrefetch, Resolver
from crawler.download.handler import DownloadHandler
from crawler.frontier import Lease
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.redis.invalidation import InvalidationReader
from crawler.urls.canonical import hostname_of
from crawler.util.backoff import Backoff
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# A name fails after this many lookups without an answer, if DNS answered others between them.
_HOST_TRIES = 6
_TROUBLED_HOSTS_MAX = 10_000
# Seconds to wait for a lookup, and for which a URL is put off while a slower one goes on. Most
# answers take a tenth of the first; without an answer a lookup takes DNS_TIMEOUT, ten times that.
_WAIT_S = 0.5
_SLOW_DELAY_S = 1.0


class Dns:
    """Middleware that makes sure that an address is known, outside of the fetch's time limit."""

    def __init__(self, crawler: Crawler, *, retry_wait_s: float) -> None:
        self._crawler = crawler
        self._resolver = Resolver.of(crawler)
        self._backoff = Backoff(retry_wait_s, math.inf, jitter=1.0)
        self._prefetch: DnsPrefetch | None = None
        # Host → lookups without an answer, and the cache's count of answers at the last one.
        self._troubled: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # Schemes that Scrapy's proxy middleware will send to a proxy, which looks names up itself.
        enabled = crawler.settings.getbool("HTTPPROXY_ENABLED")
        self._proxied = frozenset(getproxies()) if enabled else frozenset()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler, retry_wait_s=config.value(crawler.settings, "DNS_RETRY_WAIT"))
        crawler.signals.connect(middleware._spider_opened, signals.spider_opened)
        crawler.signals.connect(middleware._engine_stopped, signals.engine_stopped)
        return middleware

    async def _spider_opened(self) -> None:
        redis = await Servers.of(self._crawler).redis()
        self._resolver.cache.redis = redis
        InvalidationReader.of(self._crawler).open(redis, CACHE, self._forget)
        self._warn_of_other_handlers()
        assert self._crawler.engine is not None
        scheduler = self._crawler.engine.scheduler
        # With a proxy for both schemes there is nothing to look up; other schedulers have no
        # frontier.
        if isinstance(scheduler, Scheduler) and not {"http", "https"} <= self._proxied:
            count = self._crawler.stats.inc_value
            frontier, leases = scheduler.frontier, scheduler.leases
            self._prefetch = DnsPrefetch(self._resolver, frontier, leases, count)
            self._prefetch.open()

    async def _engine_stopped(self) -> None:
        if self._prefetch is not None:
            await self._prefetch.close()
        # The download handlers close it too, but they are only made for the first fetch.
        await self._resolver.close()

    def _forget(self, host: str | None) -> None:
        self._resolver.cache.forget(host)
        if host is None:
            self._troubled.clear()
        else:
            self._troubled.pop(host, None)

    def _warn_of_other_handlers(self) -> None:
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
        host = hostname_of(request.url)
        if self._by_proxy(request, host):
            return None
        lease: Lease | None = request.meta.get(LEASE)
        try:
            wait_s = None if lease is None else _WAIT_S
            if not await self._resolver.look_up(host, wait_s=wait_s):
                return self._put_off(request, _SLOW_DELAY_S)
        except DnsFailed:
            delay_s = self._delay_s(host)
            if lease is None or delay_s is None:
                raise
            return self._put_off(request, delay_s)
        if self._troubled:
            self._troubled.pop(host, None)
        return None

    def _put_off(self, request: Request, delay_s: float) -> Request:
        self._crawler.stats.inc_value("dns/deferred")
        return Scheduler.of(self._crawler).leases.put_off(request, round(delay_s * 1000))

    def _by_proxy(self, request: Request, host: str) -> bool:
        if "proxy" in request.meta:
            return bool(request.meta["proxy"])
        if not self._proxied:
            return False
        return urlparse_cached(request).scheme in self._proxied and not proxy_bypass(host)

    def _delay_s(self, host: str) -> float | None:
        """Return the seconds until the next lookup of a host; None if its URLs should fail."""
        answers = self._resolver.cache.answers
        tries, seen = self._troubled.get(host, (0, -1))
        if answers != seen:
            # DNS answered others meanwhile, so the failure is that of this name.
            tries += 1
        if tries >= _HOST_TRIES:
            # From now on the retry policy decides.
            return None
        self._troubled[host] = (tries, answers)
        self._troubled.move_to_end(host)
        if len(self._troubled) > _TROUBLED_HOSTS_MAX:
            self._troubled.popitem(last=False)
        return self._backoff.delay_s(tries, random.random())


def _is_ours(path: object) -> bool:
    try:
        handler = load_object(path)  # type: ignore[arg-type]
    except (ImportError, NameError):
        # Scrapy reports handlers that cannot be loaded.
        return False
    return isinstance(handler, type) and issubclass(handler, DownloadHandler)
