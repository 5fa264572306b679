"""Find the addresses of a host: in DNS_OVERRIDES, then in the fleet's cache, then by DNS.

A fetch waits half a second for a lookup. A slower lookup goes on in the background, and its URL is
put off meanwhile (`BoundedLookup`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Self

from crawler import config
from crawler.dns import addresses
from crawler.dns.addresses import is_address, literal
from crawler.dns.cache import DnsCache
from crawler.dns.errors import DnsFailed
from crawler.dns.lookup import Lookup
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Resolver:
    """Source of addresses for all components of a crawl."""

    def __init__(
        self,
        overrides: Mapping[str, str],
        cache: DnsCache,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.cache = cache
        self._overrides = addresses.overrides(overrides)
        self._count = count

    @classmethod
    def of(cls, crawler: Crawler) -> Resolver:
        """Return the resolver that all components of a crawl share."""
        return shared(cls, crawler, lambda: cls.from_crawler(crawler))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        assert crawler.stats is not None
        count = crawler.stats.inc_value
        lookup = Lookup(
            config.value(settings, "DNS_SERVERS"), lifetime_s=settings.getfloat("DNS_TIMEOUT")
        )
        cache = DnsCache(
            lookup,
            size=settings.getint("DNSCACHE_SIZE"),
            min_ttl_s=config.value(settings, "DNS_TTL_MIN"),
            max_ttl_s=config.value(settings, "DNS_TTL_MAX"),
            count=count,
        )
        return cls(config.value(settings, "DNS_OVERRIDES"), cache, count)

    def knows(self, host: str) -> bool:
        """Return whether `look_up` would return at once."""
        name = _name(host)
        return (
            self.cache.knows(name) or self._override(name) is not None or literal(name) is not None
        )

    def address(self, host: str) -> str | None:
        """Return the address that tells which hosts share a machine; None before a lookup."""
        name = _name(host)
        if (override := self._override(name)) is not None:
            return override[0]
        # The least of several: DNS gives them in changing order.
        return literal(name) or min(self.cache.recent(name), default=None)

    async def look_up(self, host: str) -> None:
        """Make sure that the address of a host is known; raises NoSuchHost or DnsFailed."""
        name = _name(host)
        if self._override(name) is not None:
            self._count("dns/overridden")
        elif literal(name) is None:
            await self.cache.get(name)

    def prefetch(self, hosts: Iterable[str]) -> list[str]:
        """Look up hosts in the background; return those that DNS must be asked for."""
        names = map(_name, hosts)
        return self.cache.prefetch(
            name for name in names if self._override(name) is None and literal(name) is None
        )

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Return the addresses and ports to connect to; raises NoSuchHost or DnsFailed."""
        if is_address(host):
            return [(host, port)]
        name = _name(host)
        if (override := self._override(name)) is not None:
            address, other_port = override
            return [(address, other_port or port)]
        return [(address, port) for address in await self.cache.get(name, counted=False)]

    async def close(self) -> None:
        await self.cache.close()

    def _override(self, host: str) -> tuple[str, int] | None:
        name = host
        while True:
            if name in self._overrides:
                return self._overrides[name]
            dot = name.find(".", 1)
            if dot < 0:
                return None
            name = name[dot:]


def _name(host: str) -> str:
    return host.lower().removesuffix(".")


# Most answers take a tenth of this. Without an answer a lookup takes DNS_TIMEOUT, ten times this.
_WAIT_S = 0.5
_SLOW_MAX = 1000
# Seconds for which the failure of a slow lookup counts.
_FAILED_S = 60.0


class BoundedLookup:
    """Lookups by `look_up` that a caller waits for only a short time. Bounded."""

    def __init__(
        self, look_up: Callable[[str], Awaitable[None]], *, wait_s: float | None = None
    ) -> None:
        self._look_up = look_up
        self._wait_s = _WAIT_S if wait_s is None else wait_s
        self._slow: dict[str, asyncio.Future[None]] = {}
        # Failures of slow lookups that no caller has seen, and until when they count.
        self._failed: OrderedDict[str, tuple[DnsFailed, float]] = OrderedDict()

    async def look_up(self, host: str) -> bool:
        """Return whether the address is known; if not, ask again. Raises what the lookup raises."""
        if host in self._slow:
            return False
        failed, until = self._failed.pop(host, (None, 0.0))
        if failed is not None and monotonic() < until:
            raise failed
        lookup = asyncio.ensure_future(self._look_up(host))
        lookup.add_done_callback(_retrieve)
        await asyncio.wait([lookup], timeout=self._wait_s)
        if lookup.done() or len(self._slow) >= _SLOW_MAX:
            await lookup
            return True
        if host in self._slow:
            # Another fetch of this host began the same lookup while this one waited.
            return False
        self._slow[host] = lookup
        lookup.add_done_callback(lambda _: self._ended(host, lookup))
        return False

    def close(self) -> None:
        """Cancel the slow lookups."""
        for lookup in list(self._slow.values()):
            lookup.cancel()

    def _ended(self, host: str, lookup: asyncio.Future[None]) -> None:
        del self._slow[host]
        error = None if lookup.cancelled() else lookup.exception()
        # The cache has all other results.
        if isinstance(error, DnsFailed):
            self._failed[host] = (error, monotonic() + _FAILED_S)
            if len(self._failed) > _SLOW_MAX:
                self._failed.popitem(last=False)


def _retrieve(lookup: asyncio.Future[None]) -> None:
    if not lookup.cancelled():
        lookup.exception()  # asyncio logs exceptions that nobody retrieves
