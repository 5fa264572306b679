"""Count things of which there is no end, in bounded memory: the least used are forgotten. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class Tally:
    """Counts of the `size` keys that were counted last; any other key has 0."""

    __slots__ = ("_counts", "_size")

    def __init__(self, size: int) -> None:
        self._counts: OrderedDict[Hashable, int] = OrderedDict()
        self._size = size

    def __getitem__(self, key: Hashable) -> int:
        return self._counts.get(key, 0)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: Hashable) -> None:
        """Count one more."""
        counts = self._counts
        counts[key] = counts.get(key, 0) + 1
        counts.move_to_end(key)
        if len(counts) > self._size:
            counts.popitem(last=False)
