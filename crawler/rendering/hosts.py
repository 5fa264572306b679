"""Remember for the whole fleet which hosts need a browser.

rendering:<host>  hash  trials: pages that were rendered; gains: those that gained from it; both are
                        halved now and then, so that a host may change. Expires 30 days after the
                        last trial

It is a cache: what Redis loses is found out again, and while Redis is away each process goes by
what it knows. The decisions are in needs.py.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from crawler.rendering.needs import Trials
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.errors import RedisAway
from crawler.util.recent import ENTRY_BYTES, RecentDict

if TYPE_CHECKING:
    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# Note a trial: KEYS[1] key, ARGV[1] '1' if the page gained something, ARGV[2] most trials, ARGV[3]
# ms for which it is kept. Returns trials, gains.
_NOTE = """
local trials = redis.call('HINCRBY', KEYS[1], 'trials', 1)
local gains = redis.call('HINCRBY', KEYS[1], 'gains', ARGV[1])
if trials >= tonumber(ARGV[2]) then
  trials, gains = math.floor(trials / 2), math.floor(gains / 2)
  redis.call('HSET', KEYS[1], 'trials', trials, 'gains', gains)
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {trials, gains}
"""
_TRIALS_MAX = 40
_KEPT_MS = 30 * 86_400_000
# Seconds for which a process goes by its own copy, and the bytes of all copies.
_FRESH_S = 60.0
_CACHE_BYTES = 2_000_000


class RenderedHosts:
    """Hosts of which pages were rendered, in memory and in Redis."""

    def __init__(self, redis: Client) -> None:
        self._redis = CommandBatcher.for_client(redis)
        # With the time until which a copy is good.
        self._known = RecentDict[str, tuple[Trials, float]](
            _CACHE_BYTES, lambda host, _: 2 * ENTRY_BYTES + len(host)
        )

    async def trials_of(self, host: str) -> Trials:
        """Return what the fleet knows of a host."""
        known = self._known.get(host)
        if known is not None and monotonic() < known[1]:
            return known[0]
        try:
            ((trials, gains),) = await self._redis.ask(("HMGET", _key(host), "trials", "gains"))
        except RedisAway as error:
            logger.debug("Whether %s needs a browser cannot be looked up: %s", host, error)
            return known[0] if known is not None else Trials()
        return self._keep(host, Trials(int(trials or 0), int(gains or 0)))

    async def note(self, host: str, *, gained: bool) -> None:
        """Note that a page was rendered, and whether that gained something."""
        try:
            ((trials, gains),) = await self._redis.ask(
                ("EVAL", _NOTE, 1, _key(host), int(gained), _TRIALS_MAX, _KEPT_MS)
            )
        except RedisAway as error:
            logger.debug("A trial of %s is not noted: %s", host, error)
            return
        self._keep(host, Trials(int(trials), int(gains)))

    def _keep(self, host: str, trials: Trials) -> Trials:
        self._known[host] = (trials, monotonic() + _FRESH_S)
        return trials


def _key(host: str) -> str:
    return f"rendering:{host}"
