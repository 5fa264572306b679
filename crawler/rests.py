"""Remember which hosts were contacted lately, to tell a server that restarted. Bounded by time."""

from __future__ import annotations

from collections import deque
from time import monotonic

# Longer than what a server can lose: a second of its append-only file, or a failover.
_WINDOW_S = 30.0


class Rests:
    """Hosts that rest, for as long as a server might forget it."""

    def __init__(self) -> None:
        self._recent: deque[tuple[float, str, float]] = deque()

    def add(self, host: str, rest_ms: int, *, now_s: float | None = None) -> None:
        """A host rests from now on for so long."""
        now = monotonic() if now_s is None else now_s
        self._recent.append((now, host, now + rest_ms / 1000))
        while self._recent and self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def left_ms(self, *, now_s: float | None = None) -> dict[str, int]:
        """Milliseconds that each of them still rests."""
        now = monotonic() if now_s is None else now_s
        left: dict[str, int] = {}
        for _, host, until in self._recent:
            rest_ms = round((until - now) * 1000)
            if rest_ms > 0:
                left[host] = max(rest_ms, left.get(host, 0))
        return left
