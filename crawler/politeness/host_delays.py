"""Decide how long a host is left alone after a fetch, with what is known about it.

A host that does not answer has a circuit breaker, a function of the failures in a row:

    closed ─failures─▶ open ─delay─▶ half-open ─the probe fails─▶ open, for twice as long
       ▲                                 └─────── it works ──┐
       └─────────────────────────────────────────────────────┘

The failures are counted for the fleet, and the delay is the host's own in the frontier. So the
first lease after the delay is the probe: no other process contacts the host before it has ended.

Usual fetch times are kept per process, for the hosts it contacted last: another process learns its
own within a few fetches. Overloads and failures are counted in Redis, for any process may meet the
next one:

    health:overload:<host>   string  429 and 503 answers; expires some quiet time after the delay
    health:failures:<host>   string  connections that failed in a row; deleted when one works
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler.config.values import fill, setting, value
from crawler.errors import ConfigurationError
from crawler.politeness.host_rules import HostRules
from crawler.servers.connections import Servers
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.errors import RedisAway
from crawler.util.backoff import Backoff
from crawler.util.per_crawler import shared
from crawler.util.recent import RecentDict, text_bytes

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

OVERLOAD_STATUSES = frozenset({429, 503})
# Delays after overloads and failures grow up to a day, and are spread by this share.
_MAX_S = 86_400.0
_JITTER = 0.1
# A host that gets slower is believed sooner than one that gets faster.
_SLOWER, _FASTER = 0.5, 0.25


# None of these three is frozen: each page makes one, and that would take three times as long.
@dataclass(slots=True)
class Fetch:
    """Result of a fetch. `status` is None when no answer came."""

    duration_s: float
    status: int | None
    retry_after_s: float | None = None

    @property
    def is_overload(self) -> bool:
        """Whether the host says that it is overloaded."""
        return self.status in OVERLOAD_STATUSES


@dataclass(slots=True)
class HostRecord:
    """Facts about a host at the end of a fetch. Times in seconds."""

    # Usual time of a fetch, this one included.
    usual_s: float
    crawl_delay_s: float = 0.0
    # Delay that was set for this host; it replaces the adaptive one.
    delay_s: float | None = None
    # From the start of a fetch to the start of the next.
    spacing_s: float = 0.0
    # Overloads and failed connections in a row, this one included.
    overloads: int = 1
    failures: int = 0


@dataclass(slots=True)
class Delay:
    """Delay of a host from the end of a fetch to the next contact, and its cause."""

    ms: int
    cause: str
    # Whether it is the host's delay after each fetch, not one that it asked for this time. The
    # delay of an open breaker counts as usual: so the probe stays alone also at a host that may
    # have several fetches at a time.
    is_usual: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_usual = self.cause not in ("retry_after", "overload")


@dataclass(frozen=True, slots=True)
class DelayPolicy:
    """Rules for the delay of hosts."""

    # Times the usual fetch time, at least `min_s`, at most `max_s`.
    factor: float = setting("DELAY_FACTOR")
    min_s: float = setting("DELAY_MIN")
    max_s: float = setting("DELAY_MAX")
    # After a 429 or 503 without Retry-After.
    overload_s: float = setting("OVERLOAD_REST")
    # After so many failed connections in a row, time-outs included; 0: the breaker never opens.
    breaker_failures: int = setting("BREAKER_FAILURES")
    breaker_s: float = setting("BREAKER_REST")

    def delay(self, fetch: Fetch, host: HostRecord, *, chance: float = 0.0) -> Delay:
        """Return the delay from the end of this fetch; `chance` in [0, 1) spreads it."""
        least_s = self.min_s if host.delay_s is None else host.delay_s
        adaptive_s = min(self.max_s, self.factor * host.usual_s) if host.delay_s is None else 0.0
        if fetch.status is None or fetch.status >= 500:
            # An error page may come fast; it says nothing about what the host can bear.
            least_s *= 2
        # The longest decides, the first of several that are equal is the cause.
        cause, longest_s = "minimum" if host.delay_s is None else "host_rule", least_s
        if host.spacing_s - fetch.duration_s > longest_s:
            cause, longest_s = "rate", host.spacing_s - fetch.duration_s
        if adaptive_s > longest_s:
            cause, longest_s = "adaptive", adaptive_s
        if host.crawl_delay_s > longest_s:
            cause, longest_s = "crawl_delay", host.crawl_delay_s
        if self.is_broken(host.failures):
            probes = host.failures - self.breaker_failures + 1
            breaker_s = _growing_s(self.breaker_s, probes, chance)
            if breaker_s > longest_s:
                cause, longest_s = "breaker", breaker_s
        if fetch.is_overload:
            asked_s, by = fetch.retry_after_s, "retry_after"
            if asked_s is None:
                asked_s, by = _growing_s(self.overload_s, host.overloads, chance), "overload"
            if asked_s > longest_s:
                cause, longest_s = by, asked_s
        return Delay(round(longest_s * 1000), cause)

    def is_broken(self, failures: int) -> bool:
        """Tell whether the breaker is open after so many failures in a row."""
        return 0 < self.breaker_failures <= failures


def _growing_s(base_s: float, times: int, chance: float) -> float:
    return Backoff(base_s, max(base_s, _MAX_S), jitter=_JITTER).delay_s(times, chance)


def usual_s(before_s: float | None, fetch: Fetch) -> float:
    """Return a host's usual fetch time after one more fetch. An error never makes it shorter."""
    if before_s is None:
        return fetch.duration_s
    if fetch.duration_s >= before_s:
        return before_s + _SLOWER * (fetch.duration_s - before_s)
    if fetch.status is None or fetch.status >= 400:
        return before_s
    return before_s - _FASTER * (before_s - fetch.duration_s)


# Memory of what a process remembers of hosts, for each of two kinds of facts: some 20,000 hosts.
_HOSTS_MAX_BYTES = 4_000_000


class HostDelays:
    """Delays of the hosts of a crawl, shared by the components that contact them."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self.rules = host_rules(settings)
        self._crawler = crawler
        self._policy = fill(DelayPolicy, settings)
        self._quiet_s = value(settings, "OVERLOAD_FORGIVEN")
        self._parallelism = value(settings, "HOST_PARALLELISM")
        self._usual_s = RecentDict[str, float](_HOSTS_MAX_BYTES, text_bytes)
        # Delays that were set while the crawl runs; they override HOST_RULES.
        self.delays: Mapping[str, float] = {}
        # Without it every overload and every failure counts as the first.
        self.health: HostHealth | None = None

    @classmethod
    def of(cls, crawler: Crawler) -> HostDelays:
        """Return the delays of this crawl."""
        return shared(cls, crawler, lambda: cls(crawler))

    async def open(self) -> None:
        """Share overloads and failures with the fleet."""
        redis = await Servers.of(self._crawler).redis()
        self.health = HostHealth(redis, quiet_s=self._quiet_s, fine_s=self._policy.breaker_s)

    async def after(
        self, host: str, fetch: Fetch, *, crawl_delay_s: float = 0.0, unanswered: bool = False
    ) -> Delay:
        """Return the delay of a host after a fetch, and learn from the fetch.

        `unanswered` is for connections that failed or timed out.
        """
        rule = self.rules.for_host(host)
        spacing_s = 60 / rule.per_minute if rule.per_minute else 0.0
        if spacing_s and (rule.parallelism or self._parallelism) > 1:
            # The frontier then counts the delay from start to start.
            spacing_s += fetch.duration_s
        overloads = await self._count(OVERLOAD, host) if fetch.is_overload else 1
        failures = await self._count(FAILURES, host) if unanswered else 0
        delay = self._policy.delay(
            fetch,
            HostRecord(
                usual_s=self._learn(host, fetch),
                crawl_delay_s=crawl_delay_s,
                delay_s=self.delays.get(host, rule.delay),
                spacing_s=spacing_s,
                overloads=overloads,
                failures=failures,
            ),
            chance=random.random(),
        )
        stats = self._crawler.stats
        stats.inc_value(f"delay/{delay.cause}")
        stats.inc_value("politeness/rest_ms", delay.ms)
        if self._policy.is_broken(failures):
            if self._policy.is_broken(failures - 1):
                stats.inc_value("breaker/half_open")
            stats.inc_value("breaker/opened")
            logger.info(
                "%s did not answer %d times in a row: it is left alone for %.0f s",
                *(host, failures, delay.ms / 1000),
            )
        if self.health is not None:
            for kind, met in ((OVERLOAD, fetch.is_overload), (FAILURES, unanswered)):
                if met:
                    await self.health.forget_after(kind, host, delay.ms / 1000)
        return delay

    async def answered(self, host: str) -> None:
        """Note that a connection worked, whatever the answer was."""
        failures = await self.health.worked(host) if self.health is not None else 0
        if self._policy.is_broken(failures):
            self._crawler.stats.inc_value("breaker/half_open")
            self._crawler.stats.inc_value("breaker/closed")
            logger.info("%s answers again", host)

    async def _count(self, kind: str, host: str) -> int:
        return await self.health.count(kind, host) if self.health is not None else 1

    def _learn(self, host: str, fetch: Fetch) -> float:
        """Return the host's usual fetch time, this fetch included."""
        usual = self._usual_s[host] = usual_s(self._usual_s.get(host), fetch)
        return usual


def host_rules(settings: BaseSettings) -> HostRules:
    """Read HOST_RULES, or raise ConfigurationError."""
    try:
        return HostRules(
            value(settings, "HOST_RULES"), per_minute=value(settings, "HOST_MAX_PER_MINUTE")
        )
    except ValueError as error:
        raise ConfigurationError(f"HOST_RULES: {error}.") from error


OVERLOAD, FAILURES = "overload", "failures"
# Longer than any delay; the exact time is set when the delay is known.
_KEPT_MS = 2 * 86_400 * 1000
# A process reports at most this often that a host works, unless it met a failure itself; more often
# where breakers are open for less, so that their probes are seen.
_FINE_S = 60.0


class HostHealth:
    """Overloads and failures of hosts, counted for the whole fleet."""

    def __init__(self, redis: Redis, *, quiet_s: float, fine_s: float = _FINE_S) -> None:
        self._commands = CommandBatcher.for_client(redis)
        self._quiet_s = quiet_s
        self._fine_s = min(fine_s, _FINE_S)
        self._fine = RecentDict[str, float](_HOSTS_MAX_BYTES, text_bytes)

    async def count(self, kind: str, host: str) -> int:
        """Count one more event of this kind; returns how many there are, 1 if Redis is away."""
        self._fine.pop(host)
        key = _key(kind, host)
        answers = await self._ask(host, ("INCR", key), ("PEXPIRE", key, _KEPT_MS))
        return 1 if answers is None else int(answers[0])

    async def forget_after(self, kind: str, host: str, delay_s: float) -> None:
        """Forget events of this kind after the delay and some quiet time."""
        kept_ms = round((delay_s + self._quiet_s) * 1000)
        await self._ask(host, ("PEXPIRE", _key(kind, host), kept_ms))

    async def worked(self, host: str) -> int:
        """Reset the failures of a host that answered; returns how many there had been."""
        now = monotonic()
        if self._fine.get(host, 0.0) > now:
            return 0
        answers = await self._ask(host, ("GETDEL", _key(FAILURES, host)))
        if answers is None:
            return 0
        self._fine[host] = now + self._fine_s
        return int(answers[0] or 0)

    async def _ask(self, host: str, *commands: Command) -> list[Any] | None:
        """Return the answers of Redis, or None while it is away: counts are then wrong."""
        try:
            return await self._commands.ask(*commands)
        except RedisAway as error:
            logger.debug("Overloads and failures of %s are not counted: %s", host, error)
            return None


async def counted(redis: Redis, host: str) -> tuple[int, int]:
    """Return the overloads of a host that still count, and its failures in a row."""
    found = [await redis.get(_key(kind, host)) for kind in (OVERLOAD, FAILURES)]
    return int(found[0] or 0), int(found[1] or 0)


def _key(kind: str, host: str) -> str:
    return f"health:{kind}:{host}"


RETRY_AFTER_MAX_S = 86_400


def retry_after_s(value: bytes | None, *, now_s: float | None = None) -> float | None:
    """Read a Retry-After header: seconds, at most a day; None if it is missing or invalid."""
    if not value:
        return None
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:9]), RETRY_AFTER_MAX_S))
    try:
        then = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return min(max(0.0, then - (time.time() if now_s is None else now_s)), RETRY_AFTER_MAX_S)
