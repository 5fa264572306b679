"""What Redis acknowledged a moment ago and may still lose: repeated, and waited for. No I/O.

A master that dies takes its last second with it, whatever it acknowledged. An add is safe when its
master was seen alive, and the same, some time later. Until then, and for a while more, it is kept
here to be repeated.

A page may have links on other masters than its lease. So it is done when each master that
acknowledged anything since its lease was claimed was seen alive, and the same, two seconds later.
One that is away acknowledges nothing: pages whose leases were claimed later do not wait for it.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crawler.frontier.entry import Entry
from crawler.frontier.records import Added, Lease

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


@dataclass(slots=True, eq=False)
class _Green:
    """A settlement, and how many shards it waits for."""

    settle: Callable[[], None]
    needs: int = 0
    dropped: bool = False


class SettlementBarrier:
    """Settlements that wait for shards with these adds."""

    def __init__(self, recents: Sequence[RecentAdds]) -> None:
        self._recents = recents
        # By shard: the number of the add that must be safe there, in order.
        self._waiting: list[deque[tuple[int, _Green]]] = [deque() for _ in recents]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def settle(self, lease: Lease, settle: Callable[[], None]) -> None:
        """Call this when the links of a lease are safe, which may be now."""
        green = _Green(settle)
        for recent, waiting in zip(self._recents, self._waiting, strict=True):
            if recent.last_s >= lease.claimed_s and not recent.are_safe(recent.last):
                green.needs += 1
                waiting.append((recent.last, green))
        if green.needs:
            self._size += 1
        else:
            settle()

    def look(self, shard: int) -> None:
        """Some adds of a shard may be safe by now."""
        waiting, recent = self._waiting[shard], self._recents[shard]
        while waiting and recent.are_safe(waiting[0][0]):
            green = waiting.popleft()[1]
            green.needs -= 1
            if not green.needs and not green.dropped:
                self._size -= 1
                green.settle()

    def drop(self, shard: int) -> None:
        """A shard was given up on: what waits for it comes back when this process is found dead."""
        if not self._waiting:
            return
        for _, green in self._waiting[shard]:
            self._size -= not green.dropped
            green.dropped = True
        self._waiting[shard].clear()
