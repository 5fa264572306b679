"""Judge URLs by robots.txt, however many rules it has, without blocking others.

Requests beside the frontier, as those of media pipelines, have no lease. They are judged as all
others are, but cannot be put off: they wait for a robots.txt that is being fetched, and where there
is no answer they are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from crawler.politeness.host_delays import retry_after_s
from crawler.robots.fetcher import LOCK_S, RobotsFetch
from crawler.robots.rules import RobotsRules, Unreachable

if TYPE_CHECKING:
    from crawler.robots.cache import RobotsCache


# How often those look that find the file being fetched by another process.
_LOOK_S = 0.5


class RobotsBeside:
    """Finds the rules of an authority, and fetches them if nobody knows them."""

    def __init__(
        self, cache: RobotsCache, robots_fetch: RobotsFetch, count: Callable[[str], None]
    ) -> None:
        self._cache = cache
        self._robots_fetch = robots_fetch
        self._count = count
        # By authority: a page may ask for a hundred pictures at once.
        self._in_flight: dict[str, asyncio.Task[RobotsRules | Unreachable]] = {}

    async def rules(self, authority: str) -> RobotsRules | Unreachable:
        """What holds for an authority; one of RedisAway if nobody can tell."""
        if (known := self._cache.recent(authority)) is not None:
            return known.rules
        task = self._in_flight.get(authority)
        if task is None:
            task = self._in_flight[authority] = asyncio.create_task(self._find(authority))
            task.add_done_callback(lambda _: self._in_flight.pop(authority, None))
        # It goes on for others if this request is given up.
        return await asyncio.shield(task)

    async def _find(self, authority: str) -> RobotsRules | Unreachable:
        while True:
            token, known = await self._cache.lock(authority, LOCK_S)
            try:
                known = known or self._cache.recent(authority)
                if known is not None:
                    return known.rules
                if token is not None:
                    return await self._fetched(authority, token)
            finally:
                if token is not None:
                    await self._cache.unlock(authority, token)
            await asyncio.sleep(_LOOK_S)

    async def _fetched(self, authority: str, token: str) -> RobotsRules | Unreachable:
        lock_on = partial(self._cache.lock_on, authority, token, LOCK_S)
        answer = await self._robots_fetch.answer(authority, {}, lock_on)
        self._count("robots/fetched")
        verdict, headers = answer.verdict(), answer.headers
        asked_s = retry_after_s(headers.get("Retry-After")) or 0.0
        known = await self._cache.put(
            authority,
            verdict,
            at_least_s=asked_s if isinstance(verdict, Unreachable) else 0.0,
            cache_control=headers.get("Cache-Control"),
        )
        return known.rules


# The rules of a file of 500 KB take up to 200 ms a URL.
_INLINE_BYTES = 32 * 1024


async def allows(rules: RobotsRules, url: str) -> bool:
    """May a URL be fetched, as it is written?"""
    if rules.size_bytes <= _INLINE_BYTES:
        return rules.allows(url)
    return await asyncio.to_thread(rules.allows, url)
