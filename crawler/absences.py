"""Shards whose server is away: asked again after a while, twice as long each time. No I/O."""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import monotonic

_WAIT_S = 0.1
_WAIT_MAX_S = 5.0


class Absences:
    """Those that one process noticed."""

    def __init__(self) -> None:
        # By shard: when to ask it again, and how long it waited for that.
        self._away: dict[int, tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._away)

    def without(self, shards: Iterable[int]) -> list[int]:
        """Those of these shards that are worth a question now."""
        now = monotonic()
        return [shard for shard in shards if self._away.get(shard, (0.0,))[0] <= now]

    def failed(self, shard: int) -> None:
        """Its server did not answer."""
        before = self._away.get(shard, (0.0, 0.0))[1]
        wait_s = min(max(_WAIT_S, 2 * before), _WAIT_MAX_S)
        self._away[shard] = (monotonic() + wait_s * (1 + random.random()) / 2, wait_s)

    def worked(self, shard: int) -> None:
        """It did."""
        self._away.pop(shard, None)

    def clear(self) -> None:
        """All servers answered."""
        self._away.clear()
