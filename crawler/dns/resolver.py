"""Find the addresses of a host: in DNS_OVERRIDES, then in the fleet's cache, then by DNS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self

from crawler import config
from crawler.dns import addresses
from crawler.dns.addresses import is_address, literal
from crawler.dns.cache import DnsCache
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

    def address(self, host: str) -> str | None:
        """Return the address that tells which hosts share a machine; None before a lookup."""
        name = _name(host)
        if (override := self._override(name)) is not None:
            return override[0]
        # The least of several: DNS gives them in changing order.
        return literal(name) or min(self.cache.recent(name), default=None)

    async def look_up(self, host: str, *, wait_s: float | None = None) -> bool:
        """Make sure that the address of a host is known; raises NoSuchHost or DnsFailed.

        Returns False if that takes longer than `wait_s`. The lookup goes on then.
        """
        name = _name(host)
        if self._override(name) is not None:
            self._count("dns/overridden")
        elif literal(name) is None:
            if wait_s is not None:
                return await self.cache.get_within(name, wait_s)
            await self.cache.get(name)
        return True

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
