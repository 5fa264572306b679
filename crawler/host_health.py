"""Troubles of hosts, counted in Redis, since any process may meet the next one. Bounded by time.

health:overload:<host>   string  429 and 503 answers; forgotten some quiet time after the rest
health:failures:<host>   string  connections that failed in a row; gone when one works
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

from crawler.frontier import RedisAway
from crawler.frontier.round_trips import RoundTrips

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

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
        self._trips = RoundTrips.of(redis)
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
