"""Send all that a process has to tell the frontier, through one lane for each shard.

Everything is sent until Redis acknowledges it, since every verb may be repeated. A shard whose
server is away or slow does not hold up the others. The size is bounded: nothing is claimed while
much waits.

A page may have links on other masters than its lease. So with several masters it is done only when
each master that acknowledged anything since the lease was claimed was seen alive, and not
restarted, two seconds later. A master that is away acknowledges nothing: pages whose leases were
claimed later do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lane import Lane, Pace, RecentAdds, Verb
from crawler.frontier.records import Added, Again, Lease
from crawler.frontier.shards import places_by_shard, raise_errors
from crawler.servers.health import ServerHealth

# Settlements that may wait; on a cluster those of some seconds do.
_FULL = 10_000
# Between two checks whether blocked settlements may go.
_CHECK_S = 0.05


class Outbox:
    """Adds and settlements on their way to Redis."""

    def __init__(
        self,
        frontier: Frontier,
        health: ServerHealth,
        on_flushed: Callable[[], None],
        *,
        several_masters: bool = False,
        under_way: Callable[[], int] = lambda: 0,
    ) -> None:
        self._health = health
        # Leases whose settlement Redis has not acknowledged.
        self._unsettled: dict[tuple[int, bytes], Lease] = {}
        self._lanes = [
            Lane(
                frontier,
                health,
                shard,
                Pace(under_way),
                on_settled=self._forget,
                # Hosts and URLs may have become claimable.
                on_flushed=on_flushed,
                on_give_up=self._drop,
            )
            for shard in range(frontier.shards)
        ]
        # A single master that loses links loses the end of their page's lease with them.
        self._barrier = SettlementBarrier(
            [lane.recent for lane in self._lanes] if several_masters else ()
        )

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self._barrier and all(lane.task is None for lane in self._lanes)

    @property
    def full(self) -> bool:
        """Whether so much waits that nothing should be claimed."""
        return len(self._unsettled) >= _FULL

    @property
    def is_safe(self) -> bool:
        """Whether a server that dies now can lose no add."""
        return all(lane.recent.are_safe(lane.recent.last) for lane in self._lanes)

    @property
    def unsettled(self) -> Iterable[Lease]:
        """Leases whose settlement Redis has not acknowledged."""
        return self._unsettled.values()

    # --- URLs in -------------------------------------------------------------------------------

    def add(self, entries: Sequence[Entry | bytes], *, mode: str = "new") -> asyncio.Future[Added]:
        """Add URLs; the future has the answer to each when all their shards have answered."""
        if len(self._lanes) == 1:
            return self._lanes[0].add(entries, mode)
        places = places_by_shard(entries, len(self._lanes))
        parts = [
            self._lanes[shard].add([entries[place] for place in found], mode)
            for shard, found in places.items()
        ]
        if len(parts) == 1:
            return parts[0]
        return asyncio.ensure_future(_merged(list(places.values()), parts))

    def repeat_adds(self, shard: int, held: Sequence[Entry] = ()) -> None:
        """Repeat adds of a shard that its server may have lost when it restarted."""
        self._lanes[shard].repeat_adds(held)

    def seen_alive(self, shard: int, at_s: float) -> None:
        """Note that a beat that began at this time found the shard's master not restarted."""
        self._lanes[shard].recent.seen_alive(at_s)
        if self._barrier:
            self._barrier.check(shard)

    # --- leases --------------------------------------------------------------------------------

    def release(self, lease: Lease, delay_ms: int, *, usual: bool = True) -> None:
        """End a fetch; its host waits for so long, which is its usual delay or not."""
        self._lanes[lease.shard].put("release" if usual else "long_release", lease, delay_ms)

    def done(self, lease: Lease, *, page: bool, again: Again | None = None) -> None:
        """Settle a finished URL, for good or until its recrawl. Call it when its links are in."""
        if again is None:
            self._settle_when_safe("done", lease, page)
        else:
            verb: Verb = "recrawl" if page else "revisit"
            self._settle_when_safe(verb, lease, again.wait_ms, again.entry)

    def bury(self, lease: Lease, reason: str) -> None:
        """Move a URL to the dead letters. Call it when Redis has what its errback yielded."""
        self._settle_when_safe("bury", lease, reason)

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """Delay a URL; it comes back as `entry`."""
        self._settle("retry", lease, wait_ms, entry)

    def hand_back(self, lease: Lease, delay_ms: int) -> None:
        """Give a URL back without a fetch; it is next in line when its host has waited."""
        self._settle("hand_back", lease, delay_ms)

    def _settle(self, verb: Verb, lease: Lease, *args: Any) -> None:
        self._unsettled[lease.key] = lease
        self._lanes[lease.shard].put(verb, lease, *args)

    def _settle_when_safe(self, verb: Verb, lease: Lease, *args: Any) -> None:
        self._unsettled[lease.key] = lease
        put = partial(self._lanes[lease.shard].put, verb, lease, *args)
        self._barrier.settle(lease, put)

    # -------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when Redis has acknowledged everything, or was given up on.

        Beats must go on meanwhile: settlements that wait for other masters need them.
        """
        while not self.empty:
            tasks = [lane.task for lane in self._lanes if lane.task is not None]
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            elif self._health.given_up:
                for shard in range(len(self._lanes)):
                    self._drop(shard)
            else:
                await asyncio.sleep(_CHECK_S)

    def _drop(self, shard: int) -> None:
        self._barrier.drop(shard)

    def _forget(self, settled: Iterable[Lease]) -> None:
        for lease in settled:
            self._unsettled.pop(lease.key, None)


async def _merged(places: list[list[int]], parts: list[asyncio.Future[Added]]) -> Added:
    found = raise_errors(await asyncio.gather(*parts, return_exceptions=True))
    return Added.merged(places, [part.answers for part in found])


@dataclass(slots=True, eq=False)
class _Blocked:
    """Settlement that waits, and the number of shards it waits for."""

    settle: Callable[[], None]
    shards: int = 0
    dropped: bool = False


class SettlementBarrier:
    """Settlements that wait until recent adds of several shards are safe."""

    def __init__(self, recents: Sequence[RecentAdds]) -> None:
        self._recents = recents
        # By shard, in order: the number of the add that must be safe there, and who waits.
        self._waiting: list[deque[tuple[int, _Blocked]]] = [deque() for _ in recents]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def settle(self, lease: Lease, settle: Callable[[], None]) -> None:
        """Call `settle` when the links of a lease are safe, which may be now."""
        blocked = _Blocked(settle)
        for recent, waiting in zip(self._recents, self._waiting, strict=True):
            if recent.last_s >= lease.claimed_s and not recent.are_safe(recent.last):
                blocked.shards += 1
                waiting.append((recent.last, blocked))
        if blocked.shards:
            self._size += 1
        else:
            settle()

    def check(self, shard: int) -> None:
        """Settle what no longer has to wait, after adds of this shard became safe."""
        waiting, recent = self._waiting[shard], self._recents[shard]
        while waiting and recent.are_safe(waiting[0][0]):
            blocked = waiting.popleft()[1]
            blocked.shards -= 1
            if not blocked.shards and not blocked.dropped:
                self._size -= 1
                blocked.settle()

    def drop(self, shard: int) -> None:
        """Drop what waits for a shard that was given up on.

        These leases come back when this process is found dead.
        """
        if not self._waiting:
            return
        for _, blocked in self._waiting[shard]:
            self._size -= not blocked.dropped
            blocked.dropped = True
        self._waiting[shard].clear()
