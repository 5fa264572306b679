"""Decide how long a host rests after a fetch. Pure: no I/O, no clock."""

from __future__ import annotations

from dataclasses import dataclass

OVERLOAD_WAIT_S = 60
OVERLOAD_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Fetch:
    """How a fetch went. `status` is None when no answer came."""

    duration_s: float
    status: int | None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Politeness:
    """The rules for a host's rest, in seconds."""

    factor: float = 5.0
    min_s: float = 1.0
    max_s: float = 60.0

    def rest_ms(self, fetch: Fetch, *, crawl_delay_s: float = 0.0) -> int:
        """Milliseconds from the end of this fetch to the host's next contact."""
        rest = max(self.min_s, min(self.max_s, self.factor * fetch.duration_s), crawl_delay_s)
        if fetch.status is None or fetch.status >= 500:
            # An error page may come fast; it says nothing about what the host can bear.
            rest = max(rest, self.min_s * 2)
        if fetch.status in OVERLOAD_STATUSES:
            wait = OVERLOAD_WAIT_S if fetch.retry_after_s is None else fetch.retry_after_s
            rest = max(rest, wait)
        return round(rest * 1000)
