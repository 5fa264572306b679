"""The leases of this process, from claim to settlement.

A lease that is claimed and not started idles, so the pool claims just what the downloader has room
for (when it does: claimer.py). Fetches that ended lately are remembered, to repeat their releases
to a server that restarted. Bounded by time.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Iterable
from time import monotonic

from crawler.frontier import Frontier, Lease
from crawler.frontier.outbox import Outbox
from crawler.scheduling.claimer import Claimer
from crawler.scheduling.completion import Completion, CompletionLimits
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.options import CrawlOptions
from crawler.servers.redis.health import RedisHealth
from crawler.util.tasks import end


class LeasePool:
    """The leases of one process."""

    def __init__(
        self, frontier: Frontier, health: RedisHealth, limits: CompletionLimits, hooks: EngineHooks
    ) -> None:
        self.limits = limits
        self.completion = Completion(frontier, limits, hooks.look_outside)
        # The order in which shards are asked.
        self.shard_order: list[int] = list(range(frontier.shards))
        # Held while leases change hands, so that a heartbeat does not miss those on their way.
        self.lock = asyncio.Lock()
        self.recent_releases = RecentReleases()
        # Was there ever a lease?
        self.has_claimed = False
        self._held: dict[tuple[int, bytes], Lease] = {}
        several = frontier.shards > 1
        self.outbox = Outbox(
            frontier, health, self.news, several_masters=several, under_way=self._held.__len__
        )
        self._frontier = frontier
        self._health = health
        self._hooks = hooks
        # By shard. Without a heartbeat nobody declares a process dead.
        self._alive_until = [math.inf] * frontier.shards
        self._ready: deque[Lease] = deque()
        # Those of them whose hosts have a slot taken: claimed, and not released yet.
        self._in_flight: dict[tuple[int, bytes], Lease] = {}
        # And those whose fetch may have begun, and whose page is not read yet.
        self._started: set[tuple[int, bytes]] = set()
        self._claimer = Claimer(self, frontier, health, hooks)
        # No fetch is started until somebody says so.
        self.paused = False
        self._task: asyncio.Task[None] | None = None

    # --- life ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Start claiming."""
        self._task = asyncio.get_running_loop().create_task(self._claimer.go_on())

    async def close(self) -> None:
        """Hand back what is not settled, and send all that waits."""
        # Here too: with nothing in progress the engine is gone before the next claim would notice.
        self._health.closing()
        if self._task is not None:
            # Not in the middle of a claim: its leases would be known to Redis only.
            async with self.lock:
                await end(self._task)
        for lease in list(self._held.values()):
            self.hand_back(lease, 0)
        await self.outbox.drain()

    def drop_all(self) -> None:
        """This instance was declared dead: what it held belongs to others."""
        self._alive_until = [-math.inf] * len(self._alive_until)
        self._ready.clear()
        self._held.clear()
        self._in_flight.clear()
        self._started.clear()
        self._claimer.drop_all()

    def follow(self, now: CrawlOptions) -> None:
        """The fleet's options changed."""
        self.limits.max_pages = now.max_pages
        self.limits.host_pages = now.max_pages_per_host
        self._frontier.serve(now.weights, now.load_weights, now.load_threshold)

    # --- leases --------------------------------------------------------------------------------

    def take(self) -> Lease | None:
        """The next lease to fetch, if one is ready."""
        if not self.paused:
            for place, lease in enumerate(self._ready):
                if self.is_alive(lease.shard):
                    del self._ready[place]
                    return lease
        self.news()
        return None

    def release(self, lease: Lease, rest_ms: int, *, usual: bool = True) -> None:
        """A fetch ended; its host rests."""
        self._in_flight.pop(lease.key, None)
        self.recent_releases.add(lease, rest_ms)
        self.outbox.release(lease, rest_ms, usual=usual)

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; it is next in line when its host has rested."""
        self._in_flight.pop(lease.key, None)
        if rest_ms:
            self.recent_releases.add(lease, rest_ms)
        self.outbox.hand_back(lease, rest_ms)
        self.settled(lease)

    def settled(self, lease: Lease) -> None:
        """A lease was passed to the outbox for good."""
        self._held.pop(lease.key, None)
        self._started.discard(lease.key)
        if lease.key in self._in_flight:
            # It ended without a fetch: its host was not contacted and need not rest.
            self.release(lease, 0)

    def holds(self, lease: Lease) -> bool:
        """Is this lease still to be settled by this process?"""
        return lease.key in self._held

    def may_fetch(self, lease: Lease) -> bool:
        """Is this lease surely ours at this moment? If so, its fetch counts as begun."""
        if not self.holds(lease) or not self.is_alive(lease.shard):
            return False
        self._started.add(lease.key)
        return True

    def read(self, lease: Lease) -> None:
        """The page of a lease is read and waits for its store: it has killed nobody."""
        self._started.discard(lease.key)

    def claimed(self, leases: Iterable[Lease]) -> None:
        """These are ours from now on."""
        for lease in leases:
            self._held[lease.key] = self._in_flight[lease.key] = lease
            self._ready.append(lease)
            self.has_claimed = True

    def hand_back_unstarted(self) -> None:
        """At once: fetches in flight may take long to finish, and others could go on with these."""
        while self._ready:
            self.hand_back(self._ready.popleft(), 0)

    @property
    def held(self) -> int:
        """Leases claimed and not yet settled."""
        return len(self._held)

    @property
    def ready(self) -> int:
        """Those of them that the engine may take; others wait for a shard that is away."""
        return sum(self.is_alive(lease.shard) for lease in self._ready)

    @property
    def taken(self) -> Iterable[Lease]:
        """Leases that are with the engine."""
        ready = {lease.key for lease in self._ready}
        return [lease for lease in self._held.values() if lease.key not in ready]

    def is_alive(self, shard: int) -> bool:
        """Can no other process have declared this one dead in a shard by now?

        A process that was stopped for a while finds out here, before it speaks to Redis again.
        """
        return monotonic() < self._alive_until[shard]

    @property
    def alive(self) -> bool:
        """The same of any shard: is there one to claim from?"""
        return monotonic() < max(self._alive_until)

    def beaten(self, until: float, shard: int | None = None) -> None:
        """A shard, or all, heard of this process: none declares it dead before this time."""
        if not self.alive:
            self.news()
        shards = range(len(self._alive_until)) if shard is None else (shard,)
        for each in shards:
            self._alive_until[each] = until
            self._claimer.heard_by(each)
        if self._ready:
            self._hooks.wake()

    def missed(self, shard: int) -> None:
        """A shard did not hear of this process now: what it has can wait."""
        self._claimer.missed_by(shard)

    @property
    def known_leases(self) -> Iterable[Lease]:
        """Leases that this process has not lost sight of: held, or being settled."""
        return [*self._held.values(), *self.outbox.unsettled]

    @property
    def unsuspected(self) -> set[tuple[int, bytes]]:
        """Leases that are not to blame if this process dies: not begun, read, or being settled."""
        settling = {lease.key for lease in self.outbox.unsettled}
        return (self._held.keys() - self._started) | settling

    @property
    def in_flight(self) -> Iterable[Lease]:
        """Leases whose hosts this process occupies."""
        return list(self._in_flight.values())

    def pause(self, paused: bool) -> None:
        """Start no fetch until told otherwise; those in flight go on."""
        self.paused = paused
        if not paused:
            self.news()
            self._hooks.wake()

    def news(self) -> None:
        """Something changed that makes another claim worth while."""
        self._claimer.news()


# Longer than what a server can lose: a second of its append-only file, or a failover.
_WINDOW_S = 30.0


class RecentReleases:
    """Hosts that rest, for as long as a server might forget it."""

    def __init__(self) -> None:
        # When the fetch ended, its lease, and until when its host rests.
        self._recent: deque[tuple[float, Lease, float]] = deque()

    def add(self, lease: Lease, rest_ms: int, *, now_s: float | None = None) -> None:
        """A host rests from now on for so long."""
        now = monotonic() if now_s is None else now_s
        self._recent.append((now, lease, now + rest_ms / 1000))
        while self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def left(self, *, now_s: float | None = None) -> list[tuple[Lease, int]]:
        """The leases of these fetches, and the milliseconds that their hosts still rest."""
        now = monotonic() if now_s is None else now_s
        return [(lease, max(0, round((until - now) * 1000))) for _, lease, until in self._recent]
