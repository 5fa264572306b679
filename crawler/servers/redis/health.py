"""Know whether Redis answers: one log line when it goes away, one when it is back."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from crawler.errors import NotStored
from crawler.servers.redis.errors import remedy, told

logger = logging.getLogger(__name__)

# A process that closes waits no longer for a Redis that is away: whoever stopped it waits too, and
# what it held comes back to the others when it is found dead.
_CLOSING_S = 10.0
# Between two looks whether a process closes.
_LOOK_S = 0.5
# Who finds out: the outbox, and beats and claims. A full server takes what these send and refuses
# links, and of a cluster a part may be away: so neither can say that the other's calls work.
OUTBOX, LEASES = "outbox", "leases"


class GaveUp(NotStored):
    """Redis was away longer than anyone waits: REDIS_GIVE_UP, or the end of the process."""


class RedisHealth:
    """Shared by all that talk to Redis in this process."""

    def __init__(self, give_up_s: float = 0.0) -> None:
        self._give_up_s = give_up_s
        self._away_since: float | None = None
        # Whose calls fail at the moment, and what somebody was told to do about it.
        self._failing: set[str] = set()
        self._told: set[str] = set()
        self._why = ""

    @property
    def away(self) -> bool:
        return self._away_since is not None

    @property
    def trouble(self) -> str:
        """What is the matter at this moment; empty if nothing is."""
        if self._away_since is None:
            return ""
        return f"Redis has not answered for {monotonic() - self._away_since:.0f} s {self._why}"

    @property
    def given_up(self) -> bool:
        """Is it away for longer than anyone waits?"""
        if self._away_since is None or not self._give_up_s:
            return False
        return monotonic() - self._away_since > self._give_up_s

    def closing(self) -> None:
        """The process ends: nobody waits for long any more."""
        self._give_up_s = min(self._give_up_s or _CLOSING_S, _CLOSING_S)

    def failed(self, who: str, error: BaseException) -> None:
        """A call got no answer. Raises GaveUp when that lasts too long."""
        now = monotonic()
        self._failing.add(who)
        self._why = told(error)
        if self._away_since is None:
            self._away_since = now
            self._told = {remedy(error)}
            logger.warning(
                "Redis is away %s; fetches in flight finish, nothing new is started", told(error)
            )
        elif remedy(error) and remedy(error) not in self._told:
            # As when it comes back with another password.
            self._told.add(remedy(error))
            logger.warning("Redis is not back %s", told(error))
        elif self.given_up:
            raise GaveUp(f"Redis was away for {now - self._away_since:.0f} s")

    async def wait(self, seconds: float) -> None:
        """Let so much time pass before the next try; less if nobody waits for it any more."""
        until = monotonic() + seconds
        while not self.given_up:
            left_s = until - monotonic()
            if left_s <= 0:
                break
            await asyncio.sleep(min(left_s, _LOOK_S))

    def worked(self, who: str) -> None:
        """All calls of this kind were answered."""
        self._failing.discard(who)
        if self._away_since is not None and not self._failing:
            logger.warning("Redis is back after %.1f s", monotonic() - self._away_since)
            self._away_since = None
