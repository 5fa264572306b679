"""The time on the synthetic web: the machine's, moved by an offset and run faster or slower."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Clock:
    """Epoch seconds = start + offset + elapsed * scale. Changing pages change by this clock."""

    offset_s: float = 0.0
    scale: float = 1.0
    started_s: float = field(default_factory=time.time)
    started_monotonic_s: float = field(default_factory=time.monotonic)

    def now_s(self) -> float:
        """Return the web's time in epoch seconds."""
        elapsed_s = time.monotonic() - self.started_monotonic_s
        return self.started_s + self.offset_s + elapsed_s * self.scale

    def version(self, period_s: int) -> int:
        """Return how many periods have passed since the epoch."""
        return int(self.now_s() // period_s)
