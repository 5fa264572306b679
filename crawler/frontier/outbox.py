"""What a process has to tell the frontier: each shard has a lane of its own for it.

All is sent until Redis has acknowledged it, since every verb may be repeated. A shard whose server
is away or slow keeps nothing from the others. What waits is bounded: nothing is claimed while it is
much. Adds of the last moments are kept, and made once more when a server lost its last second.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from crawler.frontier.acknowledgements import SettlementBarrier
from crawler.frontier.entry import Entry, host_in
from crawler.frontier.frontier import Frontier
from crawler.frontier.lane import Lane, Pace
from crawler.frontier.records import Added, Again, Lease
from crawler.frontier.shards import raised_at_the_end, shard_of
from crawler.servers.redis.health import RedisHealth

# Settlements that wait; on a cluster those of some seconds do.
_FULL = 10_000
# Between two looks whether what ripens is ripe.
_LOOK_S = 0.05


class Outbox:
    """Adds and settlements on their way to Redis."""

    def __init__(
        self,
        frontier: Frontier,
        health: RedisHealth,
        on_flushed: Callable[[], None],
        *,
        several_masters: bool = False,
        under_way: Callable[[], int] = lambda: 0,
    ) -> None:
        self._health = health
        # Leases that Redis does not know to be settled yet.
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
        # A single master that loses links loses the lease's end with them.
        self._barrier = SettlementBarrier(
            [lane.recent for lane in self._lanes] if several_masters else ()
        )

    @property
    def empty(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return not self._barrier and all(lane.task is None for lane in self._lanes)

    @property
    def full(self) -> bool:
        """Does so much wait that nothing should be added to it?"""
        return len(self._unsettled) >= _FULL

    @property
    def is_safe(self) -> bool:
        """Is there no add that a server which dies now could lose?"""
        return all(lane.recent.are_safe(lane.recent.last) for lane in self._lanes)

    @property
    def unsettled(self) -> Iterable[Lease]:
        """Leases whose settlement Redis has not acknowledged."""
        return self._unsettled.values()

    # --- URLs in -------------------------------------------------------------------------------

    def add(self, entries: Sequence[Entry | bytes], *, mode: str = "new") -> asyncio.Future[Added]:
        """Add URLs; the future says what became of each, when all their shards have answered."""
        if len(self._lanes) == 1:
            return self._lanes[0].add(entries, mode)
        places: dict[int, list[int]] = defaultdict(list)
        for place, entry in enumerate(entries):
            host = entry.host if isinstance(entry, Entry) else host_in(entry)
            places[shard_of(host, len(self._lanes))].append(place)
        parts = {
            shard: self._lanes[shard].add([entries[place] for place in found], mode)
            for shard, found in places.items()
        }
        if len(parts) == 1:
            return next(iter(parts.values()))
        return asyncio.ensure_future(_together(len(entries), places, parts))

    def repeat_adds(self, shard: int, held: Sequence[Entry] = ()) -> None:
        """Its server restarted or failed over: add once more what it may have lost."""
        self._lanes[shard].repeat_adds(held)

    def seen_alive(self, shard: int, at_s: float) -> None:
        """A beat that began at this time found the shard's master as it was."""
        self._lanes[shard].recent.seen_alive(at_s)
        if self._barrier:
            self._barrier.look(shard)

    # --- leases --------------------------------------------------------------------------------

    def release(self, lease: Lease, rest_ms: int, *, usual: bool = True) -> None:
        """The fetch ended; its host rests, as long as it usually does or not."""
        self._lanes[lease.shard].release(lease, rest_ms, usual=usual)

    def done(self, lease: Lease, *, page: bool, again: Again | None = None) -> None:
        """The URL is finished, for good or for a while. Call it when Redis has its links."""
        lane = self._settling(lease)
        self._barrier.settle(lease, partial(lane.done, lease, page, again))

    def bury(self, lease: Lease, reason: str) -> None:
        """The URL goes to the dead-letter queue. Call it when Redis has what its errback gave."""
        lane = self._settling(lease)
        self._barrier.settle(lease, partial(lane.bury, lease, reason))

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """The URL comes back later as `entry`."""
        self._settling(lease).retry(lease, wait_ms, entry)

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; its host rests, and it is next in line."""
        self._settling(lease).hand_back(lease, rest_ms)

    def _settling(self, lease: Lease) -> Lane:
        self._unsettled[lease.key] = lease
        return self._lanes[lease.shard]

    # -------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Return when Redis has acknowledged all of it, or was given up on.

        What ripens needs a heart that beats.
        """
        while not self.empty:
            tasks = [lane.task for lane in self._lanes if lane.task is not None]
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            elif self._health.given_up:
                for shard in range(len(self._lanes)):
                    self._drop(shard)
            else:
                await asyncio.sleep(_LOOK_S)

    def _drop(self, shard: int) -> None:
        self._barrier.drop(shard)

    def _forget(self, settled: Iterable[Lease]) -> None:
        for lease in settled:
            self._unsettled.pop(lease.key, None)


async def _together(
    number: int, places: dict[int, list[int]], parts: dict[int, asyncio.Future[Added]]
) -> Added:
    """The answers of several shards, each in its place."""
    found = raised_at_the_end(await asyncio.gather(*parts.values(), return_exceptions=True))
    answers = [""] * number
    for shard, part in zip(parts, found, strict=True):
        for place, answer in zip(places[shard], part.answers, strict=True):
            answers[place] = answer
    return Added("".join(answers))
