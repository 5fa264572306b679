"""How long each host rests: the policies with what is remembered of the hosts. One for a crawl.

Usual fetch times are kept per process, for the hosts it met last: another process finds its own
within a few fetches. Overloads and failures are counted in Redis.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from crawler.errors import ConfigurationError
from crawler.extensions.servers import Servers
from crawler.host_health import FAILURES, OVERLOAD, HostHealth
from crawler.policy.breaker import Breaker
from crawler.policy.host_rules import HostRules
from crawler.policy.politeness import Fetch, Host, Politeness, Rest, usual_s
from crawler.shared import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_HOSTS_MAX = 20_000


class Manners:
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
        self._breaker = Breaker(
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
    def of(cls, crawler: Crawler) -> Manners:
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
            Host(
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
