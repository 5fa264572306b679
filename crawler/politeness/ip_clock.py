"""When an address may be contacted that many hosts share, for the whole fleet. Bounded by time.

address:<address>  hash  its next free start, and the starts kept for hosts; see
politeness/ip_clock.lua
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Self

from crawler.dns.resolver import Resolver
from crawler.errors import ConfigurationError
from crawler.servers.connections import Servers
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.errors import RedisAway
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.servers.redis.connection import Client

# For hosts of which Redis could not be asked.
_AWAY_WAIT_MS = 2000
_NEXT_START = files("crawler.politeness").joinpath("ip_clock.lua").read_text(encoding="utf-8")


class IpClock:
    """Asked before each contact. The clocks are those of all crawls on one Redis."""

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
        """The one of this crawl."""
        return shared(cls, crawler, lambda: cls.from_crawler(crawler))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        delay_s = crawler.settings.getfloat("IP_DELAY")
        if delay_s < 0:
            raise ConfigurationError(f"IP_DELAY is {delay_s}; give seconds, or 0 for none.")
        assert crawler.stats is not None
        return cls(
            round(delay_s * 1000),
            Resolver.of(crawler).address,
            Servers.of(crawler).redis,
            crawler.stats.inc_value,
        )

    async def wait_ms(self, host: str, group: str, *, now_ms: int = 0) -> int:
        """How long a host must wait; 0: it is contacted now. `group` is what waits in the frontier.

        Of a host whose address is not known, as that of one behind a proxy, nothing is asked.
        """
        if self._delay_ms == 0 or (address := self._address_of(host)) is None:
            return 0
        command = ("EVAL", _NEXT_START, 1, f"address:{address}", group, self._delay_ms, now_ms)
        try:
            (wait_ms,) = await CommandBatcher.of(await self._connect()).ask(command)
        except RedisAway:
            return _AWAY_WAIT_MS
        if wait_ms:
            self._count("address/deferred")
        return int(wait_ms)
