"""Limit how many URLs a process begins to fetch in a minute. Pure: time is an argument.

The starts are spread evenly over the minute: each is due an interval after the one before. A start
that was late, as there was no URL, may be caught up with for a quarter of a second: so the rate is
reached although claims have their own rhythm, and there are no bursts. claim.lua does the same for
the whole crawl.
"""

from __future__ import annotations

import math
import sys

_CATCH_UP_S = 0.25


class RateLimit:
    """Even rate of starts; 0 is no limit."""

    def __init__(self, per_minute: float) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        # When the next start is due.
        self._next_s = -math.inf

    def room(self, now_s: float) -> int:
        """Return how many URLs may start now."""
        if not self._interval_s:
            return sys.maxsize
        next_s = self._since(now_s)
        return 0 if next_s > now_s else 1 + int((now_s - next_s) / self._interval_s)

    def wait_s(self, now_s: float) -> float:
        """Return the seconds until one may start."""
        return max(0.0, self._next_s - now_s)

    def started(self, number: int, now_s: float) -> None:
        """Count URLs that start now."""
        self._next_s = self._since(now_s) + number * self._interval_s

    def unused(self) -> None:
        """Take back a start that was counted: its URL was not fetched after all."""
        self._next_s -= self._interval_s

    def _since(self, now_s: float) -> float:
        return max(self._next_s, now_s - _CATCH_UP_S)
