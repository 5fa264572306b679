"""Keep a process supplied with leases.

A lease that is claimed and not started idles, so the workbench claims just what the downloader has
room for. It sleeps exactly until the next host is due, wakes when this process changed something,
and looks once a second for what other processes did.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic

from crawler.absences import Absences
from crawler.demand import Demand
from crawler.ending import Ending, Limits, Round, Verdict
from crawler.frontier import Claim, Frontier, Lease, OwnerDead, RedisAway
from crawler.frontier.health import LEASES, GaveUp, Health
from crawler.frontier.outbox import Outbox
from crawler.frontier.pace import Pace
from crawler.options import Options
from crawler.rests import Rests
from crawler.standstill import Standstill
from crawler.tasks import end

logger = logging.getLogger(__name__)

# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
# Time for another process to move a URL, between two looks for the end.
_LOOK_AGAIN_S = 0.05
_FAILED_S = 5.0


class Workbench:
    """The leases of one process."""

    def __init__(self, frontier: Frontier, health: Health, limits: Limits, demand: Demand) -> None:
        self.limits = limits
        self.ending = Ending(frontier, limits, demand.look_outside)
        # The order in which shards are asked.
        self.shard_order: list[int] = list(range(frontier.shards))
        # Held while leases change hands, so that a heartbeat does not miss those on their way.
        self.lock = asyncio.Lock()
        self.rests = Rests()
        self._changed = asyncio.Event()
        self._held: dict[tuple[int, bytes], Lease] = {}
        several, pace = frontier.shards > 1, Pace(self._held.__len__)
        self.outbox = Outbox(frontier, health, self.news, several_masters=several, pace=pace)
        self._frontier = frontier
        self._health = health
        self._demand = demand
        # Without a heartbeat nobody declares a process dead.
        self._alive_until = math.inf
        self._ready: deque[Lease] = deque()
        # Those of them whose hosts have a slot taken: claimed, and not released yet.
        self._in_flight: dict[tuple[int, bytes], Lease] = {}
        # And those whose fetch may have begun.
        self._started: set[tuple[int, bytes]] = set()
        self._request_ids: dict[int, str] = {}
        self._absences, self._standstill = Absences(), Standstill()
        self._paused = False
        self._task: asyncio.Task[None] | None = None

    # --- life ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Start claiming."""
        self._task = asyncio.get_running_loop().create_task(self._claim_forever())

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
        self._ready.clear()
        self._held.clear()
        self._in_flight.clear()
        self._started.clear()
        self._request_ids.clear()

    def follow(self, now: Options) -> None:
        """The fleet's options changed."""
        self.limits.max_pages = now.max_pages
        self.limits.host_pages = now.max_pages_per_host
        self._frontier.serve(now.weights, now.load_weights, now.load_threshold)

    # --- leases --------------------------------------------------------------------------------

    def take(self) -> Lease | None:
        """The next lease to fetch, if one is ready."""
        if self._ready and self.alive and not self._paused:
            return self._ready.popleft()
        self._changed.set()
        return None

    def release(self, lease: Lease, rest_ms: int, *, usual: bool = True) -> None:
        """A fetch ended; its host rests."""
        self._in_flight.pop(lease.key, None)
        self.rests.add(lease, rest_ms)
        self.outbox.release(lease, rest_ms, usual=usual)

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; it is next in line when its host has rested."""
        self._in_flight.pop(lease.key, None)
        if rest_ms:
            self.rests.add(lease, rest_ms)
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
        if not self.holds(lease) or not self.alive:
            return False
        self._started.add(lease.key)
        return True

    @property
    def held(self) -> int:
        """Leases claimed and not yet settled."""
        return len(self._held)

    @property
    def taken(self) -> Iterable[Lease]:
        """Leases that are with the engine."""
        ready = {lease.key for lease in self._ready}
        return [lease for lease in self._held.values() if lease.key not in ready]

    @property
    def alive(self) -> bool:
        """Can no other process have declared this one dead by now?

        A process that was stopped for a while finds out here, before it speaks to Redis again.
        """
        return monotonic() < self._alive_until

    def beaten(self, until: float) -> None:
        """Redis heard of this process; nobody declares it dead before this (monotonic) time."""
        self._alive_until = until
        self._absences.clear()
        if self._ready:
            self._demand.wake()

    @property
    def known_leases(self) -> Iterable[Lease]:
        """Leases that this process has not lost sight of: held, or being settled."""
        return [*self._held.values(), *self.outbox.unsettled]

    @property
    def unstarted(self) -> set[tuple[int, bytes]]:
        """Of those held, the ones that nothing was fetched by."""
        return self._held.keys() - self._started

    @property
    def in_flight(self) -> Iterable[Lease]:
        """Leases whose hosts this process occupies."""
        return list(self._in_flight.values())

    def pause(self, paused: bool) -> None:
        """Start no fetch until told otherwise; those in flight go on."""
        self._paused = paused
        if not paused:
            self.news()
            self._demand.wake()

    def news(self) -> None:
        """Something changed that makes another claim worth while."""
        self._changed.set()

    # --- claiming ------------------------------------------------------------------------------

    async def _claim_forever(self) -> None:
        while True:
            try:
                pause = await self._claim_once()
            except OwnerDead:
                # The heartbeat takes a new name.
                pause = _IDLE_MAX_S
            except GaveUp:
                self.ending.give_up()
                self._demand.wake()
                return
            except Exception:
                # Whatever it is, a process that stops claiming without a word helps nobody.
                logger.exception("A claim failed; trying again")
                pause = _FAILED_S
            await self._sleep(pause)

    async def _claim_once(self) -> float:
        """Claim once; returns the seconds until it makes sense to claim again."""
        self._changed.clear()
        wanted = self._demand.room()
        if wanted is None:
            self._health.closing()
            self._hand_back_unstarted()
            return _IDLE_MAX_S
        room = wanted - len(self._ready)
        if room <= 0 or self._paused or self.outbox.full or self.ending.reason is not None:
            return _IDLE_MAX_S
        try:
            return await self._claim_or_end(room)
        except RedisAway as error:
            self._health.failed(LEASES, error)
            return _IDLE_MAX_S

    async def _claim_or_end(self, room: int) -> float:
        round_ = await self._claim_round(room)
        self._standstill.tell(round_)
        if round_.leases:
            self.ending.not_yet()
        if round_.due:
            await self._frontier.promote()
        if round_.due or round_.more:
            return 0
        if not round_.leases and self._idle and not self._absences:
            verdict = await self.ending.look(round_)
            if verdict is Verdict.LOOK_AGAIN:
                return _LOOK_AGAIN_S
            if verdict is Verdict.OVER:
                self._demand.wake()
        return min([_IDLE_MAX_S, *round_.waits_s])

    @property
    def _idle(self) -> bool:
        """This process has nothing to do and nothing to tell."""
        return not self._held and self.outbox.empty and not self._demand.starting()

    def _hand_back_unstarted(self) -> None:
        """At once: fetches in flight may take long to finish, and others could go on with these."""
        while self._ready:
            self.hand_back(self._ready.popleft(), 0)

    async def _claim_round(self, room: int) -> Round:
        round_ = Round()
        room, max_pages = await self.ending.allowance(round_, room)
        for shard in self._absences.without(self.shard_order):
            if round_.leases >= room:
                break
            async with self.lock:
                try:
                    claim = await self._claim(shard, room - round_.leases, max_pages)
                except RedisAway as error:
                    self._absences.failed(shard)  # the others may be there
                    self._health.failed(LEASES, error)
                    continue
                self._absences.worked(shard)
                for lease in claim.leases:
                    self._held[lease.key] = self._in_flight[lease.key] = lease
                self._ready.extend(claim.leases)
            round_.take(claim)
            if claim.leases:
                # At once: the next shard's server may be away.
                self._demand.wake()
        return round_

    async def _claim(self, shard: int, n: int, max_pages: int) -> Claim:
        # The same request id until an answer came: a claim whose reply was lost is not lost.
        request_id = self._request_ids.setdefault(shard, uuid.uuid4().hex[:12])
        claim = await self._frontier.claim(
            n,
            request_id,
            shard=shard,
            max_pages=max_pages,
            host_pages=self.limits.host_pages,
        )
        self._request_ids.pop(shard, None)
        return claim

    async def _sleep(self, pause: float) -> None:
        await asyncio.sleep(min(pause, _CLAIM_GAP_S))
        if pause > _CLAIM_GAP_S:
            # Not wait_for: it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(pause - _CLAIM_GAP_S):
                    await self._changed.wait()
