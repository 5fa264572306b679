"""Claim leases for a process, and notice when there is nothing left to claim.

It sleeps exactly until the next host is due, wakes when this process changed something, and looks
once a second for what other processes did. A shard whose server is away is asked again later, after
twice as long each time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from crawler.frontier import Claim, Frontier, OwnerDead
from crawler.scheduling.completion import Round, Verdict
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.notices import Standstill
from crawler.servers.health import LEASES, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.util.backoff import Backoff
from crawler.util.breaker import Breaker

if TYPE_CHECKING:
    from crawler.scheduling.lease_pool import LeasePool

logger = logging.getLogger(__name__)


# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
# Time for another process to move a URL, between two looks for the end.
_LOOK_AGAIN_S = 0.05
_FAILED_S = 5.0
# Of a shard whose server does not answer.
_BACKOFF = Backoff(0.1, 5.0, jitter=-0.5)


class Claimer:
    """Those of one lease pool."""

    def __init__(
        self, pool: LeasePool, frontier: Frontier, health: ServerHealth, hooks: EngineHooks
    ) -> None:
        self._pool = pool
        self._frontier = frontier
        self._health = health
        self._hooks = hooks
        self._request_ids: dict[int, str] = {}
        self._changed = asyncio.Event()
        self._standstill = Standstill()
        # Breakers of the shards whose servers do not answer.
        self._away: dict[int, Breaker] = {}
        self._silent: set[int] = set()
        self._looked_s = 0.0

    def news(self) -> None:
        """Something changed that makes another claim worth while."""
        self._changed.set()

    def heard_by(self, shard: int) -> None:
        """Its server answers."""
        self._away.pop(shard, None)
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
                self._pool.completion.give_up()
                self._hooks.wake()
                return
            except Exception:
                # Whatever it is, a process that stops claiming without a word helps nobody.
                logger.exception("A claim failed; trying again")
                pause = _FAILED_S
            await self._sleep(pause)

    async def _claim_once(self) -> float:
        """Claim once; returns the seconds until it makes sense to claim again."""
        self._changed.clear()
        pool, wanted = self._pool, self._hooks.room()
        if wanted is None:
            self._health.closing()
            pool.hand_back_unstarted()
            return _IDLE_MAX_S
        if self._health.given_up:
            raise GaveUp("Redis is away")
        if not pool.alive:
            return _IDLE_MAX_S
        room = wanted - pool.ready
        if room <= 0 or pool.paused or pool.outbox.full:
            return _IDLE_MAX_S
        if pool.completion.reason is not None:
            if not pool.completion.may_go_on:
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
        completion = self._pool.completion
        round_ = await self._claim_round(room)
        self._standstill.tell(round_)
        if round_.leases:
            completion.not_yet()
        if round_.due:
            await self._frontier.promote(shards=round_.due)
        if round_.due or round_.more:
            return 0
        if not round_.leases and self._idle and not self._away and not self._silent:
            verdict = await completion.look(round_)
            if verdict is Verdict.LOOK_AGAIN:
                return _LOOK_AGAIN_S
            if verdict is Verdict.OVER:
                self._hooks.wake()
        return min([_IDLE_MAX_S, *round_.waits_s])

    @property
    def _idle(self) -> bool:
        """This process has nothing to do and nothing to tell."""
        pool = self._pool
        return not pool.held and pool.outbox.empty and not self._hooks.starting()

    async def _claim_round(self, room: int) -> Round:
        round_, pool = Round(), self._pool
        room, max_pages = await pool.completion.allowance(round_, room)
        for shard in list(pool.shard_order):
            if round_.leases >= room:
                break
            if shard in self._away and monotonic() < self._away[shard].retry_at:
                continue
            async with pool.lock:
                if shard in self._silent or not pool.is_alive(shard):
                    # It may be about to know another name, and nobody would beat for this one.
                    continue
                try:
                    claim = await self._claim(shard, room - round_.leases, max_pages)
                except RedisAway as error:
                    # The others may be there.
                    breaker = self._away.setdefault(shard, Breaker(1, backoff=_BACKOFF))
                    breaker.failed(monotonic(), random.random())
                    self._health.failed(LEASES, error)
                    continue
                self._away.pop(shard, None)
                pool.claimed(claim.leases)
                pool.completion.page_limit.claimed(len(claim.leases))
            round_.take(shard, claim)
            if claim.leases:
                # At once: the next shard's server may be away.
                self._hooks.wake()
        return round_

    async def _claim(self, shard: int, n: int, max_pages: int) -> Claim:
        # The same request id until an answer came: a claim whose reply was lost is not lost.
        request_id = self._request_ids.setdefault(shard, uuid.uuid4().hex[:12])
        claim = await self._frontier.claim(
            n,
            request_id,
            shard=shard,
            max_pages=max_pages,
            host_pages=self._pool.limits.host_pages,
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
