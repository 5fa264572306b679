"""Decide when a server that fails is left alone. Pure: no clock.

closed ─half of the recent tries failed─▶ open ─its wait is over─▶ half_open ─it works─▶ closed
                                           ▲                           │
                                           └── one fails, wait twice ──┘
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"

# Recent tries that count. Few: each failure takes seconds, and what came meanwhile waits.
_RECENT = 4
_SHARE = 0.5
_FAILURES_MIN = 2


@dataclass(slots=True)
class Breaker:
    """The state of one server, as its user sees it."""

    wait_min_s: float = 0.1
    wait_max_s: float = 5.0
    state: str = CLOSED
    _recent: deque[bool] = field(default_factory=lambda: deque(maxlen=_RECENT))
    _failures: int = 0

    def worked(self) -> None:
        """A try worked."""
        if self.state != CLOSED:
            self._recent.clear()
        self._recent.append(True)
        self._failures = 0
        self.state = CLOSED

    def failed(self) -> float:
        """A try failed; returns the seconds to wait before the next."""
        self._recent.append(False)
        failures = self._recent.count(False)
        if failures >= max(_FAILURES_MIN, _SHARE * len(self._recent)):
            self.state = OPEN
        self._failures += 1
        return min(self.wait_max_s, self.wait_min_s * 2.0 ** min(self._failures - 1, 30))

    def try_again(self) -> None:
        """The wait is over: the next try is the probe."""
        if self.state == OPEN:
            self.state = HALF_OPEN
