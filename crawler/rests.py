"""Remember fetches that ended lately, to tell a server that restarted. Bounded by time."""

from __future__ import annotations

from collections import deque
from time import monotonic

from crawler.frontier import Lease

# Longer than what a server can lose: a second of its append-only file, or a failover.
_WINDOW_S = 30.0


class Rests:
    """Hosts that rest, for as long as a server might forget it."""

    def __init__(self) -> None:
        # When the fetch ended, its lease, and until when its host rests.
        self._recent: deque[tuple[float, Lease, float]] = deque()

    def add(self, lease: Lease, rest_ms: int, *, now_s: float | None = None) -> None:
        """A host rests from now on for so long."""
        now = monotonic() if now_s is None else now_s
        self._recent.append((now, lease, now + rest_ms / 1000))
        while self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def left(self, *, now_s: float | None = None) -> list[tuple[Lease, int]]:
        """The leases of these fetches, and the milliseconds that their hosts still rest."""
        now = monotonic() if now_s is None else now_s
        return [(lease, max(0, round((until - now) * 1000))) for _, lease, until in self._recent]
