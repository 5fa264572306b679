"""Keep the flushes of an outbox apart: the more leases are under way, the fewer they are.

What is said waits for some milliseconds at the most, and not at all in a process with little to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

# Between the beginnings of two flushes, for each lease under way and at the most.
_GAP_S = 0.001
_GAP_MAX_S = 0.02


class Pace:
    """Of one process."""

    def __init__(self, under_way: Callable[[], int] = lambda: 0) -> None:
        self._under_way = under_way
        self._began_s = 0.0

    async def next(self) -> None:
        """Return when the next flush may begin."""
        wait_s = self._began_s + min(_GAP_MAX_S, self._under_way() * _GAP_S) - monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._began_s = monotonic()
