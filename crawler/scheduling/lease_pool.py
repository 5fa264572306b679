"""Hold the leases of this process, from claim to settlement.

A lease gives one URL to one process. It is in one of these states:

    ready      claimed, and not taken by the engine
    taken      its request is with the engine: being fetched, parsed or stored
    settling   its end is decided, and waits until something else is safe (`settle_after`)
    settled    passed to the outbox, which repeats it until Redis has acknowledged it

`done`, `fail` and `hand_back` settle a lease. `release` ends its fetch: the host becomes available
to others after a delay, while the page is still parsed and stored.

The pool claims as many leases as the downloader has room for, since a lease that waits here keeps
its URL from the other processes. Between two claims it sleeps until the next host is due, or this
process changed something, or a second has passed: other processes may have changed something. A
shard whose server does not answer is asked again later, after twice as long each time.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler.errors import NotStored
from crawler.frontier import Again, Claim, Frontier, Kind, Lease, OwnerDead
from crawler.frontier.outbox import Outbox
from crawler.scheduling.completion import (
    REDIS_LOST,
    Completion,
    CompletionLimits,
    Round,
    Verdict,
)
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.notices import Standstill
from crawler.scheduling.options import CrawlOptions
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.retry_policy import Bury, Retry
from crawler.servers.health import LEASES, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.util.backoff import Backoff
from crawler.util.breaker import Breaker
from crawler.util.request_meta import LEASE
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)

# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
# Time for another process to move a URL, between two checks for the end of the crawl.
_CHECK_AGAIN_S = 0.05
_FAILED_S = 5.0
# Between two claims from a shard whose server does not answer.
_BACKOFF = Backoff(0.1, 5.0, jitter=-0.5)


class LeasePool:
    """Leases held by this process."""

    def __init__(
        self,
        frontier: Frontier,
        health: ServerHealth,
        limits: CompletionLimits,
        hooks: EngineHooks,
        recrawls: Recrawls,
    ) -> None:
        self.limits = limits
        self.completion = Completion(frontier, limits, hooks.take_in)
        # The order in which shards are asked.
        self.shard_order: list[int] = list(range(frontier.shards))
        # Held while leases change hands, so that a heartbeat does not miss those on their way.
        self.lock = asyncio.Lock()
        self.recent_releases = RecentReleases()
        # Whether there ever was a lease.
        self.has_claimed = False
        self._held: dict[tuple[int, bytes], Lease] = {}
        self.outbox = Outbox(
            frontier,
            health,
            self.claim_soon,
            several_masters=frontier.shards > 1,
            under_way=self._held.__len__,
        )
        self._frontier = frontier
        self._health = health
        self._hooks = hooks
        self._recrawls = recrawls
        # By shard. Without a heartbeat nobody declares a process dead.
        self._alive_until = [math.inf] * frontier.shards
        self._ready: deque[Lease] = deque()
        # Held leases that occupy their hosts: claimed, and not released yet.
        self._in_flight: dict[tuple[int, bytes], Lease] = {}
        # Held leases whose fetch may have begun, and whose page is not parsed yet.
        self._started: set[tuple[int, bytes]] = set()
        # See `settle_after`.
        self._settling: set[tuple[int, bytes]] = set()
        # By shard: the id of a claim without an answer.
        self._claim_ids: dict[int, str] = {}
        self._claim_soon = asyncio.Event()
        self._checked_s = 0.0
        self._standstill = Standstill()
        # Breakers of the shards whose server does not answer.
        self._away: dict[int, Breaker] = {}
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
        """Forget all leases: this process was declared dead, and they belong to others now."""
        self._alive_until = [-math.inf] * len(self._alive_until)
        self._ready.clear()
        self._held.clear()
        self._in_flight.clear()
        self._started.clear()
        self._settling.clear()
        self._claim_ids.clear()

    def follow(self, now: CrawlOptions) -> None:
        """Apply the fleet's options."""
        self.limits.max_pages = now.max_pages
        self.limits.host_pages = now.max_pages_per_host
        self._frontier.set_weights(now.weights, now.load_weights, now.load_threshold)

    def pause(self, paused: bool) -> None:
        """Start no fetch while paused; those in flight go on."""
        self._paused = paused
        if not paused:
            self.claim_soon()
            self._hooks.wake()

    # --- claiming ------------------------------------------------------------------------------

    def claim_soon(self) -> None:
        """Claim without waiting for the next turn: something changed that makes it worthwhile."""
        self._claim_soon.set()

    async def _claim_forever(self) -> None:
        """Claim until Redis is given up on."""
        while True:
            try:
                pause_s = await self._claim_once()
            except OwnerDead:
                # The heartbeat takes a new name.
                pause_s = _IDLE_MAX_S
            except GaveUp:
                self.completion.reason = REDIS_LOST
                self._hooks.wake()
                return
            except Exception:
                # A process that silently stops claiming would never end.
                logger.exception("A claim failed; trying again")
                pause_s = _FAILED_S
            await asyncio.sleep(min(pause_s, _CLAIM_GAP_S))
            if pause_s > _CLAIM_GAP_S:
                # Not wait_for: it loses a cancellation that comes together with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause_s - _CLAIM_GAP_S):
                        await self._claim_soon.wait()

    async def _claim_once(self) -> float:
        """Claim once; return the seconds until it makes sense to claim again."""
        self._claim_soon.clear()
        wanted = self._hooks.room()
        if wanted is None:
            self._health.closing()
            # At once: fetches in flight may take long, and other processes could fetch these.
            while self._ready:
                self.hand_back(self._ready.popleft(), 0)
            return _IDLE_MAX_S
        if self._health.given_up:
            raise GaveUp("Redis is away")
        room = wanted - self.ready
        if room <= 0 or self._paused or self.outbox.full or not self.is_alive_anywhere:
            return _IDLE_MAX_S
        if self.completion.reason is not None:
            if not self.completion.may_go_on:
                return _IDLE_MAX_S
            # A spider may keep the engine open when nothing is left, and others may add URLs.
            wait_s = self._checked_s + _IDLE_MAX_S - monotonic()
            if wait_s > 0:
                return wait_s
        self._checked_s = monotonic()
        try:
            return await self._claim_or_end(room)
        except RedisAway as error:
            self._health.failed(LEASES, error)
            return _IDLE_MAX_S

    async def _claim_or_end(self, room: int) -> float:
        round_ = await self._claim_round(room)
        self._standstill.log(round_)
        if round_.leases:
            self.completion.not_yet()
        if round_.due:
            await self._frontier.promote(shards=round_.due)
        if round_.due or round_.more:
            return 0
        is_idle = not self._held and self.outbox.empty and not self._hooks.starting()
        if not round_.leases and is_idle and not self._away:
            verdict = await self.completion.check(round_)
            if verdict is Verdict.CHECK_AGAIN:
                return _CHECK_AGAIN_S
            if verdict is Verdict.OVER:
                self._hooks.wake()
        return min([_IDLE_MAX_S, *round_.waits_s])

    async def _claim_round(self, room: int) -> Round:
        round_ = Round()
        room, max_pages = await self.completion.allowance(round_, room)
        for shard in list(self.shard_order):
            if round_.leases >= room:
                break
            if not self._may_ask(shard):
                continue
            async with self.lock:
                if not self._may_ask(shard) or not self.is_alive(shard):
                    # This process may be about to take a new name: no beat would keep the lease.
                    continue
                try:
                    claim = await self._claim(shard, room - round_.leases, max_pages)
                except RedisAway as error:
                    # The other shards' servers may be there.
                    self._breaker(shard).failed(monotonic(), random.random())
                    self._health.failed(LEASES, error)
                    continue
                self._away.pop(shard, None)
                self.claimed(claim.leases)
                self.completion.page_limit.claimed(len(claim.leases))
            round_.take(shard, claim)
            if claim.leases:
                # At once: the next shard's server may be away.
                self._hooks.wake()
        return round_

    def _may_ask(self, shard: int) -> bool:
        return shard not in self._away or monotonic() >= self._away[shard].retry_at

    def _breaker(self, shard: int) -> Breaker:
        return self._away.setdefault(shard, Breaker(1, backoff=_BACKOFF))

    async def _claim(self, shard: int, n: int, max_pages: int) -> Claim:
        # The same id until an answer came: Redis repeats a claim whose reply was lost.
        claim_id = self._claim_ids.setdefault(shard, uuid.uuid4().hex[:12])
        limits = {"max_pages": max_pages, "host_pages": self.limits.host_pages}
        claim = await self._frontier.claim(n, claim_id, shard=shard, **limits)
        self._claim_ids.pop(shard, None)
        return claim

    def claimed(self, leases: Iterable[Lease]) -> None:
        """Hold leases that this process has just claimed."""
        for lease in leases:
            self._held[lease.key] = self._in_flight[lease.key] = lease
            self._ready.append(lease)
            self.has_claimed = True

    # --- fetching and settling -----------------------------------------------------------------

    def take(self) -> Lease | None:
        """Take the next lease to fetch, if one is ready."""
        if not self._paused:
            for place, lease in enumerate(self._ready):
                if self.is_alive(lease.shard):
                    del self._ready[place]
                    return lease
        self.claim_soon()
        return None

    def holds(self, lease: Lease) -> bool:
        """Tell whether this process has to settle a lease, and nobody is settling it already."""
        return lease.key in self._held and lease.key not in self._settling

    def may_fetch(self, lease: Lease) -> bool:
        """Tell whether a lease is surely held at this moment. If so, its fetch counts as begun."""
        if not self.holds(lease) or not self.is_alive(lease.shard):
            return False
        self._started.add(lease.key)
        return True

    def parsed(self, lease: Lease) -> None:
        """Note that a page is parsed and waits for its store: parsing it killed no process."""
        self._started.discard(lease.key)

    def release(self, lease: Lease, delay_ms: int, *, usual: bool = True) -> None:
        """End the fetch of a lease: its host is available again after the delay.

        `usual` says whether this is the host's usual delay, or a longer one for once.
        """
        self._in_flight.pop(lease.key, None)
        self.recent_releases.add(lease, delay_ms)
        self.outbox.release(lease, delay_ms, usual=usual)

    def done(
        self, lease: Lease, *, page: bool, no_page: str = "", again: Again | None = None
    ) -> None:
        """Finish the URL, for good or until `again`. Its links are in the frontier by now.

        `no_page` is the stat that counts why it gave no page, see monitoring/figures.py.
        """
        if page or no_page:
            self._hooks.count("pages/crawled" if page else no_page)
        self.outbox.done(lease, page=page, again=again)
        self._settled(lease)

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        """Retry the URL later, or give it up, as the retry policy decided."""
        if isinstance(decision, Retry):
            entry = lease.entry.retried(decision.reason, now_s=time.time())
            self.outbox.retry(lease, decision.delay_ms, entry)
            self._hooks.count(f"retry/{decision.reason}")
        else:
            self._give_up(lease, decision.reason)
        self._settled(lease)

    def _give_up(self, lease: Lease, reason: str) -> None:
        if lease.entry.kind is Kind.PAGE:
            self._hooks.count(f"failed/{reason}")
        if (again := self._recrawls.after_failures(lease)) is not None:
            self.outbox.done(lease, page=False, again=again)
            self._hooks.count("recrawl/failed")
        else:
            self.outbox.bury(lease, reason)
            self._hooks.count(f"dead/{reason}")
            logger.debug("Gave up on %s: %s", lease.entry.url, reason)

    def hand_back(self, lease: Lease, delay_ms: int) -> None:
        """Return the URL, which was not fetched: it is its host's next one, after the delay."""
        self._in_flight.pop(lease.key, None)
        if delay_ms:
            self.recent_releases.add(lease, delay_ms)
        self.outbox.hand_back(lease, delay_ms)
        self._settled(lease)

    def put_off(self, request: Request, delay_ms: int) -> Request:
        """Hand back the lease of a request that a downloader middleware does not let through now.

        The middleware returns the request: `return scheduler.leases.put_off(request, delay_ms)`.
        That ends the fetch, and the engine passes the request to the scheduler. The scheduler
        ignores it, because its lease is settled: some process claims the URL after the delay.
        """
        self.hand_back(request.meta[LEASE], delay_ms)
        return request

    def settle_after(
        self,
        lease: Lease,
        safe: asyncio.Future[Any],
        settle: Callable[[BaseException | None], None],
    ) -> None:
        """Call `settle` when `safe` is done, with its error or None. Nobody else settles the lease.

        If the servers were given up on, or the crawl ends before, the lease is handed back.
        """

        def finished(safe: asyncio.Future[Any]) -> None:
            self._settling.discard(lease.key)
            error = asyncio.CancelledError() if safe.cancelled() else safe.exception()
            if not self.holds(lease):
                return
            if isinstance(error, (asyncio.CancelledError, GaveUp, NotStored)):
                self.hand_back(lease, 0)
            else:
                settle(error)

        self._settling.add(lease.key)
        safe.add_done_callback(finished)

    def _settled(self, lease: Lease) -> None:
        self._held.pop(lease.key, None)
        self._started.discard(lease.key)
        if lease.key in self._in_flight:
            # It ended without a fetch: its host was not contacted and needs no delay.
            self.release(lease, 0)

    # --- for the heartbeat ---------------------------------------------------------------------

    def is_alive(self, shard: int) -> bool:
        """Tell whether surely no other process has declared this one dead in a shard by now.

        A process that was stopped for a while finds out here, before it talks to Redis again.
        """
        return monotonic() < self._alive_until[shard]

    @property
    def is_alive_anywhere(self) -> bool:
        """Whether there is a shard to claim from."""
        return monotonic() < max(self._alive_until)

    def keep_alive(self, until: float, shard: int | None = None) -> None:
        """Note that a shard, or all, got a beat: nobody declares this process dead before then."""
        if not self.is_alive_anywhere:
            self.claim_soon()
        for each in range(len(self._alive_until)) if shard is None else (shard,):
            self._alive_until[each] = until
            self._away.pop(each, None)
        if self._ready:
            self._hooks.wake()

    def missed(self, shard: int) -> None:
        """Claim nothing from a shard that did not answer to a beat, until it does.

        If it is the only one, claims find out for themselves, and delay nobody.
        """
        if self._frontier.shards > 1:
            self._breaker(shard).retry_at = math.inf

    @property
    def held(self) -> int:
        """Number of leases that are claimed and not yet settled."""
        return len(self._held)

    @property
    def ready(self) -> int:
        """Number of leases that the engine may take; others wait for a shard that is away."""
        return sum(self.is_alive(lease.shard) for lease in self._ready)

    @property
    def taken(self) -> Iterable[Lease]:
        """Leases that are with the engine."""
        others = {lease.key for lease in self._ready} | self._settling
        return [lease for lease in self._held.values() if lease.key not in others]

    @property
    def known_leases(self) -> Iterable[Lease]:
        """Leases that are held, or whose settlement Redis has not acknowledged."""
        return [*self._held.values(), *self.outbox.unsettled]

    @property
    def unsuspected(self) -> set[tuple[int, bytes]]:
        """Leases that cannot be the cause if this process dies: not begun, parsed, or settled."""
        settled = {lease.key for lease in self.outbox.unsettled}
        return (self._held.keys() - self._started) | settled

    @property
    def in_flight(self) -> Iterable[Lease]:
        """Leases whose hosts this process occupies."""
        return list(self._in_flight.values())


# Longer than what a server can lose: a second of its append-only file, or a failover.
_WINDOW_S = 30.0


class RecentReleases:
    """Fetches that ended so lately that a server which restarts may have forgotten it."""

    def __init__(self) -> None:
        # When the fetch ended, its lease, and when its host is available again.
        self._recent: deque[tuple[float, Lease, float]] = deque()

    def add(self, lease: Lease, delay_ms: int, *, now_s: float | None = None) -> None:
        """Remember a fetch that has just ended, and the delay of its host."""
        now = monotonic() if now_s is None else now_s
        self._recent.append((now, lease, now + delay_ms / 1000))
        while self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def left(self, *, now_s: float | None = None) -> list[tuple[Lease, int]]:
        """Return the leases of these fetches, and the milliseconds left of their hosts' delays."""
        now = monotonic() if now_s is None else now_s
        return [(lease, max(0, round((until - now) * 1000))) for _, lease, until in self._recent]
