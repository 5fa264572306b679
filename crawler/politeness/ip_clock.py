"""Space out contacts with an IP address that many hosts share, for the whole fleet.

address:<address>  hash  next free start, and starts reserved for hosts; expires; see ip_clock.lua
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING

from crawler.config.values import value
from crawler.dns.resolver import Resolver
from crawler.servers.connections import Servers
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.errors import RedisAway
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.servers.redis.connection import Client

# Delay while Redis is away.
_AWAY_DELAY_MS = 2000
_NEXT_START = files("crawler.politeness").joinpath("ip_clock.lua").read_text(encoding="utf-8")


class IpClock:
    """Clocks of IP addresses, shared by all crawls on one Redis. Checked before each contact."""

    def __init__(
        self,
        delay_ms: int,
        address_of: Callable[[str], str | None],
        connect: Callable[[], Awaitable[Client]],
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._delay_ms = delay_ms
        self._address_of = address_of
        self._connect = connect
        self._count = count

    @classmethod
    def of(cls, crawler: Crawler) -> IpClock:
        """Return the clock of this crawl."""
        assert crawler.stats is not None
        count = crawler.stats.inc_value
        delay_ms = round(value(crawler.settings, "IP_DELAY") * 1000)
        address_of, connect = Resolver.of(crawler).address, Servers.of(crawler).redis
        return shared(cls, crawler, lambda: cls(delay_ms, address_of, connect, count))

    async def wait_ms(self, host: str, group: str, *, now_ms: int = 0) -> int:
        """Return the delay of a host; with 0 it is contacted now, and the clock is set.

        `group` is the politeness group that waits in the frontier. A host whose address is not
        known, for example behind a proxy, has no delay.
        """
        if self._delay_ms == 0 or (address := self._address_of(host)) is None:
            return 0
        command = ("EVAL", _NEXT_START, 1, f"address:{address}", group, self._delay_ms, now_ms)
        try:
            (wait_ms,) = await CommandBatcher.for_client(await self._connect()).ask(command)
        except RedisAway:
            return _AWAY_DELAY_MS
        if wait_ms:
            self._count("address/deferred")
        return int(wait_ms)
