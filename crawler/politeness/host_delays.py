"""How long each host is left alone: the policy, with what is remembered of the hosts.

One for a crawl. Usual fetch times are kept per process, for the hosts it met last: another process
finds its own within a few fetches. Overloads and failures are counted in Redis, since any process
may meet the next one:

    health:overload:<host>   string  429 and 503 answers; forgotten some quiet time after the delay
    health:failures:<host>   string  connections that failed in a row; gone when one works
"""

from __future__ import annotations

import logging
import random
import time
from collections import OrderedDict
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import TYPE_CHECKING

from crawler.errors import ConfigurationError
from crawler.politeness.delay import Fetch, HostBreaker, HostRecord, Politeness, Rest, usual_s
from crawler.politeness.host_rules import HostRules
from crawler.servers.connections import Servers
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.errors import RedisAway
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


_HOSTS_MAX = 20_000


class HostDelays:
    """Shared by the components that contact hosts."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self.rules = host_rules(settings)
        self._crawler = crawler
        self._politeness = Politeness(
            factor=settings.getfloat("DELAY_FACTOR"),
            min_s=settings.getfloat("DELAY_MIN"),
            max_s=settings.getfloat("DELAY_MAX"),
            overload_s=settings.getfloat("OVERLOAD_REST"),
        )
        self._breaker = HostBreaker(
            failures=settings.getint("BREAKER_FAILURES"), rest_s=settings.getfloat("BREAKER_REST")
        )
        self._quiet_s = settings.getfloat("OVERLOAD_FORGIVEN")
        self._parallelism = settings.getint("HOST_PARALLELISM")
        self._usual_s: OrderedDict[str, float] = OrderedDict()
        # Delays that people ordered while the crawl runs; they go before HOST_RULES.
        self.delays: Mapping[str, float] = {}
        # Until it is there, every trouble counts as the first.
        self.health: HostHealth | None = None

    @classmethod
    def of(cls, crawler: Crawler) -> HostDelays:
        """Those of this crawl."""
        return shared(cls, crawler, lambda: cls(crawler))

    async def open(self) -> None:
        """Share what goes wrong with the fleet."""
        redis = await Servers.of(self._crawler).redis()
        self.health = HostHealth(redis, quiet_s=self._quiet_s, fine_s=self._breaker.rest_s)

    async def rest(
        self, host: str, fetch: Fetch, *, crawl_delay_s: float = 0.0, unanswered: bool = False
    ) -> Rest:
        """How long a host rests after a fetch.

        `unanswered` is for connections that failed or timed out.
        """
        rule = self.rules.of(host)
        spacing_s = 60 / rule.per_minute if rule.per_minute else 0.0
        if spacing_s and (rule.parallelism or self._parallelism) > 1:
            # Then the rest is what the frontier keeps two starts apart.
            spacing_s += fetch.duration_s
        overloads = await self._count(OVERLOAD, host) if fetch.is_overload else 1
        failures = await self._count(FAILURES, host) if unanswered else 0
        rest = self._politeness.rest(
            fetch,
            HostRecord(
                usual_s=self._learn(host, fetch),
                crawl_delay_s=crawl_delay_s,
                delay_s=self.delays.get(host, rule.delay),
                spacing_s=spacing_s,
                overloads=overloads,
                breaker_s=self._breaker.rest_after_s(failures),
            ),
            chance=random.random(),
        )
        stats = self._crawler.stats
        stats.inc_value(f"delay/{rest.cause}")
        stats.inc_value("politeness/rest_ms", rest.ms)
        if self._breaker.is_open(failures):
            if self._breaker.is_open(failures - 1):
                stats.inc_value("breaker/half_open")
            stats.inc_value("breaker/opened")
            logger.info(
                "%s did not answer %d times in a row: it rests %.0f s",
                host,
                failures,
                rest.ms / 1000,
            )
        if self.health is not None:
            for kind, met in ((OVERLOAD, fetch.is_overload), (FAILURES, unanswered)):
                if met:
                    await self.health.forgive_after(kind, host, rest.ms / 1000)
        return rest

    async def answered(self, host: str) -> None:
        """A connection worked, whatever the answer was."""
        failures = await self.health.worked(host) if self.health is not None else 0
        if self._breaker.is_open(failures):
            self._crawler.stats.inc_value("breaker/half_open")
            self._crawler.stats.inc_value("breaker/closed")
            logger.info("%s answers again", host)

    async def _count(self, kind: str, host: str) -> int:
        return await self.health.count(kind, host) if self.health is not None else 1

    def _learn(self, host: str, fetch: Fetch) -> float:
        """The host's usual time for a fetch, after this one."""
        known = self._usual_s[host] = usual_s(self._usual_s.get(host), fetch)
        self._usual_s.move_to_end(host)
        if len(self._usual_s) > _HOSTS_MAX:
            self._usual_s.popitem(last=False)
        return known


def host_rules(settings: BaseSettings) -> HostRules:
    """The rules that people gave hosts, or ConfigurationError."""
    try:
        return HostRules(
            settings.getdict("HOST_RULES"), per_minute=settings.getfloat("HOST_MAX_PER_MINUTE")
        )
    except ValueError as error:
        raise ConfigurationError(f"HOST_RULES: {error}.") from error


OVERLOAD, FAILURES = "overload", "failures"
# Longer than any rest; the exact time is set when the rest is known.
_KEPT_MS = 2 * 86_400 * 1000
# A process says at most this often that a host works, unless it met its trouble itself; more often
# where breakers are open for less, so that their probes are seen.
_FINE_S = 60.0
_FINE_HOSTS_MAX = 20_000


class HostHealth:
    """Count what goes wrong with hosts, for the whole fleet."""

    def __init__(self, redis: Redis, *, quiet_s: float, fine_s: float = _FINE_S) -> None:
        self._trips = CommandBatcher.of(redis)
        self._quiet_s = quiet_s
        self._fine_s = min(fine_s, _FINE_S)
        self._fine: OrderedDict[str, float] = OrderedDict()

    async def count(self, kind: str, host: str) -> int:
        """One more trouble of this kind; says how many there are now, 1 if Redis is away."""
        self._fine.pop(host, None)
        key = _key(kind, host)
        try:
            number, _ = await self._trips.ask(("INCR", key), ("PEXPIRE", key, _KEPT_MS))
            return int(number)
        except RedisAway as error:
            logger.debug("The trouble of %s is not counted: %s", host, error)
            return 1

    async def forgive_after(self, kind: str, host: str, rest_s: float) -> None:
        """Forget this kind of trouble when the host was quiet for a while after its rest."""
        try:
            kept_ms = round((rest_s + self._quiet_s) * 1000)
            await self._trips.ask(("PEXPIRE", _key(kind, host), kept_ms))
        except RedisAway as error:
            logger.debug("The trouble of %s is kept longer: %s", host, error)

    async def of(self, host: str) -> dict[str, int]:
        """How many troubles of each kind a host has now, for people."""
        kinds = (OVERLOAD, FAILURES)
        found = await self._trips.ask(*(("GET", _key(kind, host)) for kind in kinds))
        return {kind: int(number or 0) for kind, number in zip(kinds, found, strict=True)}

    async def worked(self, host: str) -> int:
        """The host answered: its failures were not in a row. Says how many there had been."""
        now = monotonic()
        if self._fine.get(host, 0.0) > now:
            return 0
        try:
            (before,) = await self._trips.ask(("GETDEL", _key(FAILURES, host)))
        except RedisAway as error:
            logger.debug("The failures of %s are kept: %s", host, error)
            return 0
        self._fine[host] = now + self._fine_s
        self._fine.move_to_end(host)
        if len(self._fine) > _FINE_HOSTS_MAX:
            self._fine.popitem(last=False)
        return int(before or 0)


def _key(kind: str, host: str) -> str:
    return f"health:{kind}:{host}"


MAX_S = 86_400


def retry_after_s(value: bytes | None, *, now_s: float | None = None) -> float | None:
    """Seconds to wait, a day at the most, or None for a header that is missing or is nonsense."""
    if not value:
        return None
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), MAX_S))
    try:
        then = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(0.0, then - (time.time() if now_s is None else now_s)), MAX_S)
