"""Adds that a server may still lose, though it acknowledged them a moment ago. No I/O.

A master that dies takes its last second with it, whatever it acknowledged. An add is safe when its
master was seen alive, and the same, some time later. Until then, and for a while more, it is kept
here to be repeated. Bounded by that time: without beats a process gets no new work.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from crawler.frontier.entry import Entry
from crawler.frontier.records import Added

# A server syncs its log every second, and a replica is no further behind.
SAFE_AFTER_S = 2.0
# Repeating costs little, and a server may be slower than it should be. One that lost more than this
# before the last beat lost adds that nobody can repeat.
KEPT_S = 10.0


@dataclass(slots=True, eq=False)
class Add:
    """URLs on their way to Redis, and who waits for the answer."""

    entries: Sequence[Entry | bytes]
    mode: str
    future: asyncio.Future[Added]
    # By which a forced add is known when it is repeated; others need none.
    request_id: str = ""
    # Its place among those of its shard that were acknowledged; 0: it never was.
    number: int = 0
    # When Redis had it; None: it has not.
    acknowledged_s: float | None = None

    def __post_init__(self) -> None:
        if self.mode == "force":
            self.request_id = uuid.uuid4().hex


class RecentAdds:
    """Those of one shard, numbered in the order in which they were first acknowledged."""

    def __init__(self) -> None:
        # By their numbers: not safe yet, and safe by now.
        self._open: dict[int, Add] = {}
        self._safe: deque[Add] = deque()
        # Of the last one that was acknowledged.
        self.last = 0
        self.last_s = -math.inf

    def acknowledged(self, add: Add, added: Added, *, now_s: float) -> None:
        """Redis has it, but for what it refused: that is kept elsewhere."""
        if added.refused:
            add.entries = [e for i, e in enumerate(add.entries) if not added.is_refused(i)]
        if not add.number:
            self.last += 1
            add.number = self.last
            self._open[add.number] = add
        add.acknowledged_s = self.last_s = now_s

    def failed(self, add: Add) -> None:
        """It cannot be sent."""
        self._open.pop(add.number, None)

    def seen_alive(self, at_s: float) -> None:
        """The master is the same as before, at this time or later."""
        for add in list(self._open.values()):
            if add.acknowledged_s is not None and add.acknowledged_s <= at_s - SAFE_AFTER_S:
                self._safe.append(self._open.pop(add.number))
        while self._safe and (self._safe[0].acknowledged_s or 0.0) <= at_s - KEPT_S:
            self._safe.popleft()

    def are_safe(self, last: int) -> bool:
        """Can the server lose no add up to this number?"""
        return not self._open or next(iter(self._open)) > last

    def doubtful(self) -> list[Add]:
        """The server may have lost some: those that were acknowledged, to be sent once more."""
        again = [*self._safe, *(a for a in self._open.values() if a.acknowledged_s is not None)]
        for add in again:
            add.acknowledged_s = None
            if add.mode == "new":
                # What was taken once is not refused now.
                add.mode = "all"
        known = {add.number: add for add in (*self._safe, *self._open.values())}
        self._open = dict(sorted(known.items()))
        self._safe.clear()
        return again

    def clear(self) -> None:
        """Nothing is sent any more."""
        self._open.clear()
        self._safe.clear()
