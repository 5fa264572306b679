"""Leave a host alone that does not answer. Pure: a function of the failures in a row.

    closed ─failures─▶ open ─rest─▶ half-open ─one probe fails─▶ open, for twice as long
       ▲                                └─────── it works ──┐
       └────────────────────────────────────────────────────┘

The rest is the host's own in the frontier, so the first lease after it is the probe: no other
process contacts the host before that one has ended.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Breaker:
    """When it opens, and for how long."""

    # Connections that failed in a row, time-outs included; 0: it never opens.
    failures: int = 5
    rest_s: float = 60.0
    max_s: float = 86_400.0

    def is_open(self, failures: int) -> bool:
        """Is it open after so many failures in a row? Then the next fetch is its probe."""
        return 0 < self.failures <= failures

    def rest_after_s(self, failures: int) -> float:
        """Seconds of rest after so many failures in a row; 0 while it is closed."""
        if not self.is_open(failures):
            return 0.0
        doubled_s = self.rest_s * 2 ** min(failures - self.failures, 40)
        return float(min(doubled_s, max(self.rest_s, self.max_s)))
