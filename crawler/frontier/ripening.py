"""Hold settlements back until no master can lose what came before them. No I/O.

One master may fall back by its last second alone, and lose links of a page whose lease lies on
another. So a page is done when each master that acknowledged anything since its lease was claimed
was seen alive, and the same, two seconds later. One that is away acknowledges nothing: pages whose
leases were claimed later do not wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crawler.frontier.recent_adds import RecentAdds
from crawler.frontier.records import Lease


@dataclass(slots=True, eq=False)
class _Green:
    """A settlement, and how many shards it waits for."""

    settle: Callable[[], None]
    needs: int = 0
    dropped: bool = False


class Ripening:
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
