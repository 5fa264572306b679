"""Claim leases for a process, and notice when there is nothing left to claim.

It sleeps exactly until the next host is due, wakes when this process changed something, and looks
once a second for what other processes did.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from crawler.absences import Absences
from crawler.demand import Demand
from crawler.ending import Round, Verdict
from crawler.frontier import Claim, Frontier, OwnerDead, RedisAway
from crawler.frontier.health import LEASES, GaveUp, Health
from crawler.standstill import Standstill

if TYPE_CHECKING:
    from crawler.workbench import Workbench

logger = logging.getLogger(__name__)

# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
# Time for another process to move a URL, between two looks for the end.
_LOOK_AGAIN_S = 0.05
_FAILED_S = 5.0


class Claims:
    """Those of one workbench."""

    def __init__(
        self, bench: Workbench, frontier: Frontier, health: Health, demand: Demand
    ) -> None:
        self._bench = bench
        self._frontier = frontier
        self._health = health
        self._demand = demand
        self._request_ids: dict[int, str] = {}
        self._changed = asyncio.Event()
        self._absences, self._standstill = Absences(), Standstill()
        self._silent: set[int] = set()
        self._looked_s = 0.0

    def news(self) -> None:
        """Something changed that makes another claim worth while."""
        self._changed.set()

    def heard_by(self, shard: int) -> None:
        """Its server answers."""
        self._absences.worked(shard)
        self._silent.discard(shard)

    def missed_by(self, shard: int) -> None:
        """It did not answer to a beat: it is asked for nothing before it does.

        If it is the only one, claims find out for themselves, and hold nobody up.
        """
        if self._frontier.shards > 1:
            self._silent.add(shard)

    def drop_all(self) -> None:
        """This instance was declared dead: replies that were lost are of no interest any more."""
        self._request_ids.clear()

    async def go_on(self) -> None:
        """Claim until Redis is given up on."""
        while True:
            try:
                pause = await self._claim_once()
            except OwnerDead:
                # The heartbeat takes a new name.
                pause = _IDLE_MAX_S
            except GaveUp:
                self._bench.ending.give_up()
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
        bench, wanted = self._bench, self._demand.room()
        if wanted is None:
            self._health.closing()
            bench.hand_back_unstarted()
            return _IDLE_MAX_S
        if self._health.given_up:
            raise GaveUp("Redis is away")
        if not bench.alive:
            return _IDLE_MAX_S
        room = wanted - bench.ready
        if room <= 0 or bench.paused or bench.outbox.full:
            return _IDLE_MAX_S
        if bench.ending.reason is not None:
            if not bench.ending.may_go_on:
                return _IDLE_MAX_S
            # A spider may keep the engine open when nothing is left, and others may add URLs.
            wait_s = self._looked_s + _IDLE_MAX_S - monotonic()
            if wait_s > 0:
                return wait_s
        self._looked_s = monotonic()
        try:
            return await self._claim_or_end(room)
        except RedisAway as error:
            self._health.failed(LEASES, error)
            return _IDLE_MAX_S

    async def _claim_or_end(self, room: int) -> float:
        ending = self._bench.ending
        round_ = await self._claim_round(room)
        self._standstill.tell(round_)
        if round_.leases:
            ending.not_yet()
        if round_.due:
            await self._frontier.promote(shards=round_.due)
        if round_.due or round_.more:
            return 0
        if not round_.leases and self._idle and not self._absences and not self._silent:
            verdict = await ending.look(round_)
            if verdict is Verdict.LOOK_AGAIN:
                return _LOOK_AGAIN_S
            if verdict is Verdict.OVER:
                self._demand.wake()
        return min([_IDLE_MAX_S, *round_.waits_s])

    @property
    def _idle(self) -> bool:
        """This process has nothing to do and nothing to tell."""
        bench = self._bench
        return not bench.held and bench.outbox.empty and not self._demand.starting()

    async def _claim_round(self, room: int) -> Round:
        round_, bench = Round(), self._bench
        room, max_pages = await bench.ending.allowance(round_, room)
        for shard in self._absences.without(bench.shard_order):
            if round_.leases >= room:
                break
            async with bench.lock:
                if shard in self._silent or not bench.is_alive(shard):
                    # It may be about to know another name, and nobody would beat for this one.
                    continue
                try:
                    claim = await self._claim(shard, room - round_.leases, max_pages)
                except RedisAway as error:
                    self._absences.failed(shard)  # the others may be there
                    self._health.failed(LEASES, error)
                    continue
                self._absences.worked(shard)
                bench.claimed(claim.leases)
                bench.ending.page_limit.claimed(len(claim.leases))
            round_.take(shard, claim)
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
            host_pages=self._bench.limits.host_pages,
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
