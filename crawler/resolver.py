"""Find the addresses of a host: DNS_OVERRIDES first, then the cache of the fleet, then DNS."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self

from aiohttp.abc import AbstractResolver, ResolveResult

from crawler import targets
from crawler.dns.cache import DnsCache, Ttl
from crawler.dns.lookup import Lookup
from crawler.policy.addresses import literal
from crawler.shared import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Resolver(AbstractResolver):
    """The source of addresses for all connections of a crawl, and for whoever asks before."""

    def __init__(
        self,
        overrides: Mapping[str, str],
        cache: DnsCache,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.cache = cache
        self._overrides = targets.overrides(overrides)
        self._count = count

    @classmethod
    def of(cls, crawler: Crawler) -> Resolver:
        """The resolver that all components of a crawl share."""
        return shared(cls, crawler, lambda: cls.from_crawler(crawler))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        assert crawler.stats is not None
        count = crawler.stats.inc_value
        lookup = Lookup(
            settings.getlist("DNS_SERVERS"), lifetime_s=settings.getfloat("DNS_TIMEOUT")
        )
        cache = DnsCache(
            lookup,
            size=settings.getint("DNSCACHE_SIZE"),
            ttl=Ttl(settings.getfloat("DNS_TTL_MIN"), settings.getfloat("DNS_TTL_MAX")),
            count=count,
        )
        return cls(settings.getdict("DNS_OVERRIDES"), cache, count)

    def knows(self, host: str) -> bool:
        """Would `look_up` have nothing to wait for?"""
        name = _name(host)
        return (
            self.cache.knows(name) or self._override(name) is not None or literal(name) is not None
        )

    def address(self, host: str) -> str | None:
        """The address by which a host is known to share it with others, if it was looked up."""
        name = _name(host)
        if (override := self._override(name)) is not None:
            return override[0]
        # Of several the same one, in whatever order DNS gave them.
        return literal(name) or min(self.cache.recent(name), default=None)

    async def look_up(self, host: str) -> None:
        """Make sure that the address of a URL's host is known, or NoSuchHost, or DnsFailed."""
        name = _name(host)
        if self._override(name) is not None:
            self._count("dns/overridden")
        elif literal(name) is None:
            await self.cache.get(name)

    def prefetch(self, hosts: Iterable[str]) -> list[str]:
        """Look up what DNS must be asked for, in the background; returns what is looked up."""
        names = map(_name, hosts)
        return self.cache.prefetch(
            name for name in names if self._override(name) is None and literal(name) is None
        )

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """What aiohttp asks before it connects."""
        name = _name(host)
        override = self._override(name)
        if override is not None:
            address, other_port = override
            return [_result(host, address, other_port or port)]
        found = await self.cache.get(name, counted=False)
        results = [_result(host, address, port) for address in found]
        return [r for r in results if family in (socket.AF_UNSPEC, r["family"])]

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


def _result(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST,
    )
