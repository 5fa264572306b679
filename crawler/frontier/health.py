"""Know whether Redis answers: one log line when it goes away, one when it is back."""

from __future__ import annotations

import logging
from time import monotonic

from crawler.errors import NotStored

logger = logging.getLogger(__name__)

# A process that closes waits no longer for a Redis that is away: whoever stopped it waits too, and
# what it held comes back to the others when it is found dead.
_CLOSING_S = 10.0


class GaveUp(NotStored):
    """Redis was away longer than anyone waits: REDIS_GIVE_UP, or the end of the process."""


class Health:
    """Shared by all that talk to Redis in this process."""

    def __init__(self, give_up_s: float = 0.0) -> None:
        self._give_up_s = give_up_s
        self._away_since: float | None = None

    @property
    def away(self) -> bool:
        return self._away_since is not None

    @property
    def given_up(self) -> bool:
        """Is it away for longer than anyone waits?"""
        if self._away_since is None or not self._give_up_s:
            return False
        return monotonic() - self._away_since > self._give_up_s

    def closing(self) -> None:
        """The process ends: nobody waits for long any more."""
        self._give_up_s = min(self._give_up_s or _CLOSING_S, _CLOSING_S)

    def failed(self, error: BaseException) -> None:
        """A call got no answer. Raises GaveUp when that lasts too long."""
        now = monotonic()
        if self._away_since is None:
            self._away_since = now
            logger.warning(
                "Redis is away (%s); fetches in flight finish, nothing new is started", error
            )
        elif self.given_up:
            raise GaveUp(f"Redis was away for {now - self._away_since:.0f} s")

    def worked(self) -> None:
        """A call was answered."""
        if self._away_since is not None:
            logger.warning("Redis is back after %.1f s", monotonic() - self._away_since)
            self._away_since = None
