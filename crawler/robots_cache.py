"""Rules of robots.txt files: in Redis for the fleet, and the recent ones in memory. Bounded."""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

import msgpack
import zstandard

from crawler.policy.robots import MAX_BYTES, Rules, Unreachable

if TYPE_CHECKING:
    from redis.asyncio import Redis

# Parsing takes about 27 µs a rule: larger files are parsed in a thread.
_PARSE_INLINE_BYTES = 16 * 1024
_JITTER = 0.1


class RobotsCache:
    """Look up and keep the rules of an authority."""

    def __init__(
        self, redis: Redis, user_agent: str, *, ttl_s: float, error_ttl_s: float, size: int
    ) -> None:
        self._redis = redis
        self._user_agent = user_agent
        self._ttl_s = ttl_s
        self._error_ttl_s = error_ttl_s
        self._size = size
        self._recent: OrderedDict[str, tuple[float, Rules | Unreachable]] = OrderedDict()

    async def get(self, authority: str) -> tuple[Rules | Unreachable, float] | None:
        """The rules of an authority and the seconds they are still good for, or None."""
        found = self._recent.get(authority)
        if found is not None and found[0] > monotonic():
            self._recent.move_to_end(authority)
            return found[1], found[0] - monotonic()
        key = self._key(authority)
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.get(key)
        pipeline.pttl(key)
        packed, ttl_ms = await pipeline.execute()
        if packed is None or ttl_ms <= 0:
            return None
        body, reason = msgpack.unpackb(packed)
        if reason:
            rules: Rules | Unreachable = Unreachable(reason)
        else:
            text = zstandard.decompress(body, max_output_size=2 * MAX_BYTES)
            rules = await self._parse(text)
        self._remember(authority, rules, ttl_ms / 1000)
        return rules, ttl_ms / 1000

    async def put(
        self, authority: str, answer: bytes | Unreachable, *, at_least_s: float = 0.0
    ) -> tuple[Rules | Unreachable, float]:
        """Keep what a fetch of robots.txt gave; returns the rules and for how many seconds.

        `at_least_s` is what the host asked for with Retry-After.
        """
        rules: Rules | Unreachable
        if isinstance(answer, Unreachable):
            packed, rules, ttl_s = (b"", answer.reason), answer, self._error_ttl_s
        else:
            body = answer[: MAX_BYTES + 1]
            rules, ttl_s = await self._parse(body), self._ttl_s
            packed = (zstandard.compress(body), "")
        # Spread, so that a fleet does not ask for all of them again at once.
        ttl_s = max(ttl_s * (1 + random.uniform(-_JITTER, _JITTER)), at_least_s)
        # In memory first: this process must know them even while Redis is away.
        self._remember(authority, rules, ttl_s)
        await self._redis.set(self._key(authority), msgpack.packb(packed), px=round(ttl_s * 1000))
        return rules, ttl_s

    async def _parse(self, body: bytes) -> Rules:
        if len(body) > _PARSE_INLINE_BYTES:
            return await asyncio.to_thread(Rules, body, self._user_agent)
        return Rules(body, self._user_agent)

    def _remember(self, authority: str, rules: Rules | Unreachable, ttl_s: float) -> None:
        self._recent[authority] = (monotonic() + ttl_s, rules)
        self._recent.move_to_end(authority)
        while len(self._recent) > self._size:
            self._recent.popitem(last=False)

    @staticmethod
    def _key(authority: str) -> str:
        return f"robots:{authority}"
