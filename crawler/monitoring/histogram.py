"""Count durations by size, so cheaply that every page can be measured. Pure: no clock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

# Upper bounds, seconds. They are part of stored names: change them only for a new crawl.
FETCH_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)
PARSE_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
LAG_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
REDIS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
# Kinds of durations that are added up for the fleet.
FLEET_BOUNDS_S = {"fetch": FETCH_S, "parse": PARSE_S}
_SUM = "sum_us"


class Histogram:
    """Durations of one kind, counted by size; about 0.3 µs each."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        # One more than the bounds: durations above the last bound.
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds_s, duration_s)] += 1
        self.sum_s += duration_s

    @property
    def count(self) -> int:
        return sum(self.counts)

    def figures(self, kind: str) -> dict[str, int]:
        """Return counts by upper bound, and the sum in microseconds, as figures of the fleet."""
        found = {name: n for name, n in zip(self._names(kind), self.counts, strict=True) if n}
        return found | {f"{kind}/{_SUM}": round(self.sum_s * 1e6)}

    @classmethod
    def from_figures(
        cls, figures: Mapping[str, int], kind: str, bounds_s: tuple[float, ...]
    ) -> Histogram:
        """Return the histogram that these figures were made of."""
        found = cls(bounds_s)
        found.counts = [figures.get(name, 0) for name in found._names(kind)]
        found.sum_s = figures.get(f"{kind}/{_SUM}", 0) / 1e6
        return found

    def _names(self, kind: str) -> list[str]:
        return [*(f"{kind}/{bound:g}" for bound in self.bounds_s), f"{kind}/inf"]

    def quantiles(self, shares: Iterable[float]) -> list[float | None]:
        """Return the durations in seconds below which these shares lie; None if there are none.

        Durations are spread evenly within a bucket; those above the last bound count as the bound.
        """
        return [self._quantile(share) for share in shares]

    def _quantile(self, share: float) -> float | None:
        total = self.count
        if not total:
            return None
        wanted, below, lower = share * total, 0, 0.0
        for bound, count in zip(self.bounds_s, self.counts, strict=False):
            if count and below + count >= wanted:
                return lower + (bound - lower) * (wanted - below) / count
            below, lower = below + count, bound
        return self.bounds_s[-1]
