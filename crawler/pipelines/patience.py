"""Write to MongoDB again and again while it is away; give up only when the crawl ends.

One log line when it goes away, one when it is back. What waits meanwhile is bounded by Scrapy:
above SCRAPER_SLOT_MAX_ACTIVE_SIZE the engine starts no fetches.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from time import monotonic

from pymongo.errors import ConnectionFailure

from crawler.errors import NotStored

logger = logging.getLogger(__name__)

_WAIT_MIN_S, _WAIT_MAX_S = 0.1, 5.0
# Scrapy does not tell pipelines that the crawl ends while they have items: one has to look.
_LOOK_S = 0.5
# With the looks before and after it below 10 s.
_GIVE_UP_S = 8.0


class Patience:
    """What one store knows of its MongoDB."""

    def __init__(
        self, is_closing: Callable[[], bool], tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self._is_closing = is_closing
        # Hears "away" when MongoDB goes away, and "ok" when it is back.
        self._tell = tell
        self._away_since: float | None = None
        self._given_up = False

    async def write(self, send: Callable[[], Awaitable[None]]) -> None:
        """Return when `send` worked; raises NotStored if the crawl ends first, or its error.

        It is called again after connections that failed, so it must bear repetition.
        """
        if self._given_up:
            raise NotStored("MongoDB was given up on.")
        task = asyncio.ensure_future(self._insist(send))
        try:
            deadline_s: float | None = None
            while not (await asyncio.wait({task}, timeout=_LOOK_S))[0]:
                if deadline_s is None:
                    deadline_s = monotonic() + _GIVE_UP_S if self._is_closing() else None
                elif monotonic() > deadline_s:
                    self._given_up = True
                    logger.error(
                        "MongoDB does not answer and the crawl ends: pages that are not stored go "
                        "back to the frontier"
                    )
                    raise NotStored("MongoDB does not answer.")
            task.result()
        finally:
            task.cancel()

    async def _insist(self, send: Callable[[], Awaitable[None]]) -> None:
        wait_s = _WAIT_MIN_S
        while True:
            try:
                await send()
            except ConnectionFailure as error:
                self._went_away(error)
                # Spread, so that a fleet does not come back all at once.
                await asyncio.sleep(wait_s * random.uniform(0.5, 1))
                wait_s = min(2 * wait_s, _WAIT_MAX_S)
            else:
                self._answered()
                return

    def _went_away(self, error: ConnectionFailure) -> None:
        if self._away_since is None:
            self._away_since = monotonic()
            self._tell("away")
            reason = str(error).partition(", Timeout:")[0]
            logger.warning("MongoDB is away (%s); pages wait until it is back", reason)

    def _answered(self) -> None:
        if self._away_since is not None:
            logger.warning("MongoDB is back after %.1f s", monotonic() - self._away_since)
            self._away_since = None
            self._tell("ok")
