"""Find the addresses of a host: DNS_OVERRIDES first, then the cache of the fleet, then DNS.

A fetch waits for them, but not for long: a lookup that takes longer goes on in the background, and
whoever asks meanwhile is told "not yet". That it failed is told to the next who asks. Bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Self

from crawler.dns import addresses
from crawler.dns.addresses import is_address, literal
from crawler.dns.cache import DnsCache, Ttl
from crawler.dns.errors import DnsFailed
from crawler.dns.lookup import Lookup
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Resolver:
    """The source of addresses for all connections of a crawl, and for whoever asks before."""

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


# Most answers come in a tenth of this; where none comes, DNS_TIMEOUT is ten times as long.
_WAIT_S = 0.5
_SLOW_MAX = 1000
# A failure says nothing of the time after that.
_FAILED_S = 60.0


class BoundedLookup:
    """`look_up` makes sure that the address of a host is known, or raises."""

    def __init__(
        self, look_up: Callable[[str], Awaitable[None]], *, wait_s: float | None = None
    ) -> None:
        self._look_up = look_up
        self._wait_s = _WAIT_S if wait_s is None else wait_s
        self._slow: dict[str, asyncio.Future[None]] = {}
        # What became of them, if it was a failure, and until when that counts.
        self._failed: OrderedDict[str, tuple[DnsFailed, float]] = OrderedDict()

    async def look_up(self, host: str) -> bool:
        """Is the address known by now? If not, ask again; raises what the lookup raises."""
        if host in self._slow:
            return False
        failed, until = self._failed.pop(host, (None, 0.0))
        if failed is not None and monotonic() < until:
            raise failed
        lookup = asyncio.ensure_future(self._look_up(host))
        lookup.add_done_callback(_look_at)
        await asyncio.wait([lookup], timeout=self._wait_s)
        if lookup.done() or len(self._slow) >= _SLOW_MAX:
            await lookup
            return True
        if host in self._slow:
            # Another began with it at the same time: at another port, or in another slot.
            return False
        self._slow[host] = lookup
        lookup.add_done_callback(lambda _: self._ended(host, lookup))
        return False

    def close(self) -> None:
        """Nobody asks any more."""
        for lookup in list(self._slow.values()):
            lookup.cancel()

    def _ended(self, host: str, lookup: asyncio.Future[None]) -> None:
        del self._slow[host]
        error = None if lookup.cancelled() else lookup.exception()
        # Anything else is in the cache of answers.
        if isinstance(error, DnsFailed):
            self._failed[host] = (error, monotonic() + _FAILED_S)
            if len(self._failed) > _SLOW_MAX:
                self._failed.popitem(last=False)


def _look_at(lookup: asyncio.Future[None]) -> None:
    if not lookup.cancelled():
        lookup.exception()  # asyncio logs those that nobody looks at
