"""Circuit breaker: leave a server alone while it fails. Pure: time is an argument.

closed ─enough attempts failed─▶ open ─its delay is over─▶ half_open ─it works─▶ closed
                                  ▲                            │
                                  └────── the probe fails ─────┘
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawler.util.backoff import Backoff

CLOSED, OPEN, HALF_OPEN = "closed", "open", "half_open"


class Breaker:
    """State of one server, as its client sees it.

    It opens after so many `failures` among the last `among` attempts (default: all of them), if
    these happened `within_s`. After each failure `backoff` gives the delay until `retry_at`.
    """

    def __init__(
        self,
        failures: int,
        *,
        backoff: Backoff,
        among: int | None = None,
        within_s: float = math.inf,
    ) -> None:
        self.state = CLOSED
        self.retry_at = -math.inf
        self._failures = failures
        self._backoff = backoff
        self._within_s = within_s
        # Times of the recent attempts that failed; None for one that worked.
        self._recent: deque[float | None] = deque(maxlen=among or failures)
        self._in_a_row = 0

    def enter(self, now: float) -> bool:
        """Tell whether an attempt may be made; it ends with `worked`, `failed` or `left`.

        While the breaker is open, that is one attempt after each delay: the probe.
        """
        if self.state == CLOSED:
            return True
        if self.state == HALF_OPEN or now < self.retry_at:
            return False
        self.state = HALF_OPEN
        return True

    def worked(self) -> bool:
        """Note an attempt that worked. Returns whether that closed the breaker."""
        was_closed, self.state = self.state == CLOSED, CLOSED
        if not was_closed:
            self._recent.clear()
        self._recent.append(None)
        self._in_a_row = 0
        return not was_closed

    def failed(self, now: float, chance: float = 0.0) -> bool:
        """Note an attempt that failed. Returns whether that opened a closed breaker."""
        self._in_a_row += 1
        self.retry_at = now + self._backoff.delay_s(self._in_a_row, chance)
        self._recent.append(now)
        was_closed = self.state == CLOSED
        failed_at = [at for at in self._recent if at is not None]
        if not was_closed or (
            len(failed_at) >= self._failures and now - failed_at[0] <= self._within_s
        ):
            self.state = OPEN
        return was_closed and self.state == OPEN

    def left(self) -> None:
        """Note an attempt that was given up before it worked or failed."""
        if self.state == HALF_OPEN:
            self.state = OPEN
