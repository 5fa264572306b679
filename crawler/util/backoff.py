"""Delays that grow with each failure in a row. Pure: chance is an argument."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: `base_s` after the first failure, times `factor` after each other one.

    `jitter` is the share by which chance lengthens a delay (shortens it, if negative), so that a
    fleet does not come back all at once. It is added to `max_s`.
    """

    base_s: float
    max_s: float
    factor: float = 2.0
    jitter: float = 0.0

    def delay_s(self, failures: int, chance: float = 0.0) -> float:
        """Return the delay after so many failures in a row; `chance` is in [0, 1)."""
        # The exponent is limited, for a float overflows at 2**1024.
        delay_s = self.base_s * self.factor ** min(max(failures - 1, 0), 100)
        return float(min(delay_s, self.max_s)) * (1 + self.jitter * chance)
