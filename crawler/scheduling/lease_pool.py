"""Hold the leases of this process, from claim to settlement, and decide when the crawl is over.

A lease gives one URL to one process. It is in one of these states:

    ready      claimed, and not taken by the engine
    taken      its request is with the engine: being fetched, parsed or stored
    settling   its end is decided, and waits until something else is safe (`settle_after`)
    settled    passed to the outbox, which repeats it until Redis has acknowledged it

`done`, `fail` and `hand_back` settle a lease. `release` ends its fetch: the host becomes available
to others after a delay, while the page is still parsed and stored. A visit takes the slot of a host
without a URL of it, and `visited` ends it (visits.py).

The pool claims as many leases as the downloader has room for, since a lease that waits here keeps
its URL from the other processes, and no more than the rates of this process and of the crawl allow.
A lease counts for the rates unless it ends without a fetch. Between two claims the pool sleeps
until the next host is due, or this process changed something, or a second has passed: other
processes may have changed something. A shard whose server does not answer is asked again later,
after twice as long each time.

The crawl is over for this process when front queues, back queues, leases and retries are empty, and
nothing waits outside the frontier, in two readings with the same number of URLs added. Recrawls do
not count; pages in a spool do. It is also over when the crawl has as many pages as it may have, or
when all that is left waits longer than CRAWL_MAX_WAIT.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import uuid
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from crawler.config.values import fill, setting, value
from crawler.errors import NotStored
from crawler.frontier import (
    Again,
    Claim,
    Entry,
    Frontier,
    Kind,
    Lease,
    NoVisit,
    OwnerDead,
    Sizes,
    Visit,
)
from crawler.frontier.frontier import POISON, gather_outcomes, shard_of
from crawler.frontier.outbox import UNSETTLED_MAX, Outbox
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.options import CrawlOptions, budgets_of
from crawler.scheduling.outcome import Bury, Retry
from crawler.scheduling.rate_limit import RateLimit
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.shards import ShardTurns
from crawler.servers.health import LEASES, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.util.backoff import Backoff
from crawler.util.breaker import Breaker
from crawler.util.request_meta import LEASE
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
# Leases claimed at a time: their fetches begin together, and the event loop does nothing else for
# so long. A process with room for more claims again at once.
_CLAIM_MAX = 100
# URLs whose ends are being stored, from which on none is taken: a sink may be slow, or away.
_SETTLING_MAX = 1000
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
        self.completion = Completion(
            *(frontier, limits, hooks.take_in, hooks.messages_wait, hooks.elsewhere),
            before_end=hooks.before_end,
        )
        self.shards = ShardTurns(frontier.shards)
        # Held while leases change hands, so that a heartbeat does not miss those on their way.
        self.lock = asyncio.Lock()
        self.recent_releases = RecentReleases()
        # Whether there ever was a lease.
        self.has_claimed = False
        self._held: dict[tuple[int, bytes], Lease] = {}
        self._claim_soon = asyncio.Event()
        self.outbox = Outbox(
            frontier,
            health,
            self._flushed,
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
        # By host: visits that have not ended.
        self._visits: dict[str, Visit] = {}
        # Held leases whose fetch may have begun, and whose page is not parsed yet; and such visits.
        self._started: set[tuple[int, bytes]] = set()
        # Leases and visits whose fetch ended when they may have belonged to others already: the
        # next beat tells whether they did.
        self._late: set[tuple[int, bytes]] = set()
        # See `settle_after`.
        self._settling: set[tuple[int, bytes]] = set()
        self._rate = RateLimit(limits.own_per_minute)
        # By shard: leases that ended without a fetch, and are not reported to the frontier yet.
        self._unused: Counter[int] = Counter()
        # By shard: the id of a claim without an answer.
        self._claim_ids: dict[int, str] = {}
        self._checked_s = 0.0
        self._standstill = Standstill()
        # Breakers of the servers that do not answer, by shard; 0 if all shards are on one.
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
        for _ in ({each.key for each in self.in_flight} & self._started) | self._late:
            # Another process may have contacted the host while this one fetched from it.
            self._hooks.count("politeness/violations")
        self._late.clear()
        self._alive_until = [-math.inf] * len(self._alive_until)
        self._ready.clear()
        self._held.clear()
        self._in_flight.clear()
        self._visits.clear()
        self._started.clear()
        self._settling.clear()
        self._claim_ids.clear()

    def follow(self, now: CrawlOptions) -> None:
        """Apply the fleet's options."""
        self.limits.max_pages = now.max_pages
        self.limits.host_pages = now.max_pages_per_host
        self.limits.per_minute = now.max_pages_per_minute
        self._frontier.set_queues(
            now.weights, now.load_weights, now.load_threshold, budgets_of(now.type_budgets)
        )

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

    def _flushed(self) -> None:
        # Most flushes are for all shards.
        self.shards.changed(monotonic())
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
        now_s = monotonic()
        if wait_s := self._rate.wait_s(now_s):
            return min(wait_s, _IDLE_MAX_S)
        room = min(wanted - self.ready, _CLAIM_MAX, self._rate.room(now_s))
        if room <= 0 or self._paused or not self.is_alive_anywhere:
            return _IDLE_MAX_S
        if len(self.outbox.unsettled) >= UNSETTLED_MAX:
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
        for shards in self._groups():
            asked = [shard for shard in shards if self._should_ask(shard, round_)]
            while asked and (left := room - round_.leases) > 0:
                # With room for few, some are asked first.
                await self._claim_from(asked[:left], left, max_pages, round_)
                asked = asked[left:]
        return round_

    def _groups(self) -> Iterable[Sequence[int]]:
        """Return the shards that are asked together, one group after the other.

        On one server the first of the own shards may have enough; then all others are asked in one
        round trip, and those of other processes come last.
        """
        own, others = self.shards.turn()
        if self._frontier.has_one_server:
            return own[:1], own[1:], others
        return [(shard,) for shard in (*own, *others)]

    def _should_ask(self, shard: int, round_: Round) -> bool:
        if not self._may_ask(shard):
            return False
        # The end of the crawl is decided by answers of all shards.
        if self._held and (wait_s := self.shards.wait_s(shard, monotonic())):
            round_.waits_s.append(wait_s)
            return False
        return True

    async def _claim_from(
        self, shards: Sequence[int], room: int, max_pages: int, round_: Round
    ) -> None:
        """Claim from shards of one server, the same number from each."""
        async with self.lock:
            # This process may be about to take a new name: no beat would keep the lease.
            asked = [each for each in shards if self._may_ask(each) and self.is_alive(each)]
            if not asked:
                return
            wanted = {each: room // len(asked) for each in asked}
            for each in asked[: room % len(asked)]:
                wanted[each] += 1
            try:
                claims = await self._claim(wanted, max_pages)
            except RedisAway as error:
                # The other shards' servers may be there.
                self._breaker(asked[0]).failed(monotonic(), random.random())
                self._health.failed(LEASES, error)
                return
            self._away.pop(self._server(asked[0]), None)
            for shard, claim in claims.items():
                self.claimed(claim.leases)
                self._rate.started(len(claim.leases), monotonic())
                self.shards.asked(shard, claim, wanted=wanted[shard], now_s=monotonic())
                self.completion.page_limit.claimed(shard, len(claim.leases))
        for shard, claim in claims.items():
            round_.take(shard, claim)
            if len(claim.leases) == wanted[shard]:
                # It may have more than its share.
                round_.waits_s.append(0.0)
        if round_.leases:
            # At once: the next shard's server may be away.
            self._hooks.wake()

    def _may_ask(self, shard: int) -> bool:
        breaker = self._away.get(self._server(shard))
        return breaker is None or monotonic() >= breaker.retry_at

    def _breaker(self, shard: int) -> Breaker:
        return self._away.setdefault(self._server(shard), Breaker(1, backoff=_BACKOFF))

    def _server(self, shard: int) -> int:
        return 0 if self._frontier.has_one_server else shard

    async def _claim(self, wanted: Mapping[int, int], max_pages: int) -> dict[int, Claim]:
        # The same id until an answer came: Redis repeats a claim whose reply was lost.
        ids = {each: self._claim_ids.setdefault(each, uuid.uuid4().hex[:12]) for each in wanted}
        unused = self._unused.copy()
        claims = await self._frontier.claim_from(
            {shard: (n, ids[shard]) for shard, n in wanted.items()},
            max_pages=max_pages,
            host_pages=self.limits.host_pages,
            per_minute=self.limits.per_minute,
            unused=unused,
        )
        for shard in claims:
            self._claim_ids.pop(shard, None)
            self._unused[shard] -= unused[shard]
        return claims

    def claimed(self, leases: Iterable[Lease]) -> None:
        """Hold leases that this process has just claimed."""
        for lease in leases:
            self._held[lease.key] = self._in_flight[lease.key] = lease
            self._ready.append(lease)
            self.has_claimed = True

    # --- fetching and settling -----------------------------------------------------------------

    def take(self) -> Lease | None:
        """Take the next lease to fetch, if one is ready."""
        if not self._paused and len(self._settling) < _SETTLING_MAX:
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
        self._end_flight(lease)
        self._fetch_ended(lease, delay_ms)
        self.outbox.release(lease, delay_ms, usual=usual)

    def _fetch_ended(self, held: Lease | Visit, delay_ms: int) -> None:
        if held.key in self._started and not self.is_alive(held.shard):
            self._late.add(held.key)
        self.recent_releases.add(held, delay_ms)

    def done(
        self, lease: Lease, *, page: bool, no_page: str = "", again: Again | None = None
    ) -> None:
        """Finish the URL, for good or until `again`. Its links are in the frontier by now.

        `no_page` is the stat that counts why it gave no page, see monitoring/figures.py.
        """
        if page or no_page:
            self._hooks.count("pages/crawled" if page else no_page)
        if page:
            self._hooks.count(f"shard/pages/{lease.shard}")
        self.outbox.done(lease, page=page, again=again)
        self._recrawls.settled(lease.entry, again)
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
        again = self._recrawls.after_failures(lease)
        # A URL that kills its processes is not fetched again, whatever it was before.
        if lease.entry.reclaims >= POISON:
            again = None
        self._recrawls.settled(lease.entry, again)
        if again is not None:
            self.outbox.done(lease, page=False, again=again)
            self._hooks.count("recrawl/failed")
        else:
            self.outbox.bury(lease, reason)
            self._hooks.count(f"dead/{reason}")
            logger.debug("Gave up on %s: %s", lease.entry.url, reason)

    def hand_back(self, lease: Lease, delay_ms: int) -> None:
        """Return the URL, which was not fetched: it is its host's next one, after the delay."""
        self._end_flight(lease)
        if delay_ms:
            self.recent_releases.add(lease, delay_ms)
        self.outbox.hand_back(lease, delay_ms)
        self._settled(lease)

    def postpone(self, lease: Lease, delay_ms: int, *, queue: int) -> None:
        """Fetch the URL later from this queue, without an attempt. Others of its host go on."""
        self.outbox.retry(lease, delay_ms, replace(lease.entry, queue=queue))
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
            if len(self._settling) == _SETTLING_MAX:
                self._hooks.wake()
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

    def _end_flight(self, lease: Lease) -> bool:
        """Return whether the lease still occupied its host."""
        was_flying = self._in_flight.pop(lease.key, None) is not None
        if was_flying and lease.key not in self._started:
            self._rate.unused()
            self._unused[lease.shard] += 1
        return was_flying

    def _settled(self, lease: Lease) -> None:
        self._held.pop(lease.key, None)
        was_flying = self._end_flight(lease)
        self._started.discard(lease.key)
        if was_flying:
            # It ended without a fetch: its host was not contacted and needs no delay.
            self.release(lease, 0)

    # --- visits --------------------------------------------------------------------------------

    async def visit(self, host: str) -> Visit | NoVisit:
        """Take the slot of a host, if this process does not have it already.

        "away" is a shard that cannot be asked now. Raises RedisAway, OwnerDead.
        """
        shard = shard_of(host, self._frontier.shards)
        async with self.lock:
            if self._paused:
                return NoVisit("paused")
            if not self._may_ask(shard) or not self.is_alive(shard):
                return NoVisit("away")
            if host in self._visits or host in self.outbox.ending:
                # The frontier would take it for the same visit, whose end is on its way.
                return NoVisit("busy")
            try:
                found = await self._frontier.visit(host)
            except RedisAway:
                # Claims and beats wait for the lock.
                self._breaker(shard).failed(monotonic(), random.random())
                raise
            self._away.pop(self._server(shard), None)
            if isinstance(found, Visit):
                self._visits[host] = found
            return found

    def has_visit(self, visit: Visit) -> bool:
        """Tell whether this process surely has the slot of a visit at this moment."""
        return self._visits.get(visit.host) is visit and self.is_alive(visit.shard)

    def may_visit(self, visit: Visit) -> bool:
        """Tell the same. If so, a fetch counts as begun."""
        if not self.has_visit(visit):
            return False
        self._started.add(visit.key)
        return True

    def visited(self, visit: Visit, delay_ms: int, *, usual: bool = True) -> None:
        """End a visit: the host is available again after the delay; `usual` as in `release`."""
        if self._visits.get(visit.host) is visit:
            del self._visits[visit.host]
        self._fetch_ended(visit, delay_ms)
        self._started.discard(visit.key)
        self.outbox.visited(visit, delay_ms, usual=usual)

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
            self._away.pop(self._server(each), None)
            self._late = {key for key in self._late if key[0] != each}
        if self._ready:
            self._hooks.wake()

    def missed(self, shard: int) -> None:
        """Claim nothing from a shard that did not answer to a beat, until it does.

        If all are on one server, claims find out for themselves, and delay nobody.
        """
        if not self._frontier.has_one_server:
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
        return [*self._held.values(), *self.outbox.unsettled.values()]

    @property
    def known_visits(self) -> Iterable[Visit]:
        """Visits that go on, or whose end Redis has not acknowledged."""
        return [*self._visits.values(), *self.outbox.ending.values()]

    @property
    def unsuspected(self) -> set[tuple[int, bytes]]:
        """Leases that cannot be the cause if this process dies: not begun, parsed, or settled."""
        return (self._held.keys() - self._started) | self.outbox.unsettled.keys()

    @property
    def in_flight(self) -> Iterable[Lease | Visit]:
        """Leases and visits whose hosts this process occupies."""
        return [*self._in_flight.values(), *self._visits.values()]


# Longer than what a server can lose: a second of its append-only file, or a failover.
_WINDOW_S = 30.0


class RecentReleases:
    """Fetches that ended so lately that a server which restarts may have forgotten it."""

    def __init__(self) -> None:
        # When the fetch ended, when its host is available again, the lease's identity and its host:
        # whole leases would take three times the memory.
        self._recent: deque[tuple[float, float, tuple[int, bytes], str]] = deque()

    def add(self, held: Lease | Visit, delay_ms: int, *, now_s: float | None = None) -> None:
        """Remember a fetch that has just ended, and the delay of its host."""
        now = monotonic() if now_s is None else now_s
        self._recent.append((now, now + delay_ms / 1000, held.key, held.host))
        while self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def left(self, shard: int, *, now_s: float | None = None) -> list[tuple[Lease, int]]:
        """Return leases that release the hosts of a shard, and the ms left of their delays."""
        now = monotonic() if now_s is None else now_s
        return [
            (Lease(*key, Entry(0, f"http://{host}/")), max(0, round((until - now) * 1000)))
            for _, until, key, host in self._recent
            if key[0] == shard
        ]


# Why a crawl closes that has no URL to begin with, or not all that it should.
NO_SEEDS = "no_seeds"
BAD_SEEDS = "bad_seeds"
# Redis was away for longer than REDIS_GIVE_UP.
REDIS_LOST = "redis_lost"
# Redis lost more of the crawl than can be repeated.
DATA_LOST = "data_lost"


class Verdict(Enum):
    """Result of a check for the end."""

    GO_ON = auto()
    # The first reading was empty: a second one decides.
    CHECK_AGAIN = auto()
    OVER = auto()


@dataclass(slots=True)
class CompletionLimits:
    """Limits at which a process stops or waits. Three may change while the crawl runs."""

    max_pages: int = 0
    host_pages: int = 0
    # URLs a minute that all processes together begin to fetch, and this one; 0: no limit.
    per_minute: int = 0
    own_per_minute: float = setting("MAX_PAGES_PER_MINUTE")
    # False: stay when nothing is left, and wait for seeds.
    close_when_done: bool = True
    max_wait_s: float = setting("CRAWL_MAX_WAIT")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return fill(cls, settings, close_when_done=value(settings, "CRAWL_IDLE") == "close")


@dataclass(slots=True)
class Round:
    """Result of one round of claims over the shards."""

    leases: int = 0
    more: bool = False
    # Shards with delayed URLs that are due.
    due: set[int] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    waits_s: list[float] = field(default_factory=list)

    def take(self, shard: int, claim: Claim) -> None:
        """Add the claim of one shard."""
        self.leases += len(claim.leases)
        self.more |= claim.more
        if claim.delayed_ms == 0:
            self.due.add(shard)
        self.states.add(claim.state)
        waits = (claim.wait_ms, claim.delayed_ms)
        self.waits_s += [ms / 1000 for ms in waits if ms is not None]


class Completion:
    """End of the crawl for this process: whether it has come, and why."""

    def __init__(
        self,
        frontier: Frontier,
        limits: CompletionLimits,
        take_in: Callable[[], Awaitable[int]],
        messages_wait: Callable[[], Awaitable[bool]],
        elsewhere: Callable[[], Awaitable[list[str]]],
        *,
        before_end: Callable[[], Awaitable[None]],
    ) -> None:
        # "finished", "max_pages", "waiting", "redis_lost" or "data_lost", once it is over for this
        # process.
        self.reason: str | None = None
        # Seconds to the earliest waiting URL when the reason is "waiting".
        self.waits_s: float | None = None
        # The crawl is over, and no URL was ever added to it.
        self.never_began = False
        # Only used with several servers.
        self.page_limit = PageLimit(frontier)
        self._frontier = frontier
        self._limits = limits
        self._take_in = take_in
        self._messages_wait = messages_wait
        self._elsewhere = elsewhere
        self._before_end = before_end
        self._last: Sizes | None = None
        # Where other processes have parts of the crawl on their disks, and since when only these
        # are left, by monotonic().
        self._places: list[str] = []
        self._places_since_s = 0.0

    @property
    def may_go_on(self) -> bool:
        """Whether the crawl goes on if somebody adds URLs."""
        return self.reason == "finished"

    def not_yet(self) -> None:
        """Forget earlier readings, and an end for want of URLs: there is work."""
        self._last = None
        self._places = []
        self.never_began = False
        if self.may_go_on:
            self.reason = None

    def log_left(self) -> None:
        """Log what is left, if this process does not wait for it."""
        if self._places:
            logger.warning(
                "The crawl is not over: other processes have pages or URLs of it on their disks. "
                "If none runs there any more, start one with the same settings: %s",
                ", ".join(self._places),
            )
            return
        if self.reason == "waiting" and self._last is not None and self.waits_s is not None:
            logger.info(
                "URLs left: %d. The earliest waits %.0f s more, longer than CRAWL_MAX_WAIT (%g s): "
                "a later run of this crawl goes on with them",
                *(self._last.unfinished, self.waits_s, self._limits.max_wait_s),
            )

    async def allowance(self, round_: Round, room: int) -> tuple[int, int]:
        """Return how many leases may be claimed now, and the page limit that scripts enforce.

        A script cannot count the pages on other servers, so a fleet on a cluster may exceed the
        limit by what its processes claim in the same second.
        """
        limit = self._limits.max_pages
        if not limit or self._frontier.has_one_server:
            return room, limit
        left = await self.page_limit.left(limit)
        if self.page_limit.pages >= limit:
            round_.states.add("limit")
        return min(room, left), 0

    async def check(self, round_: Round) -> Verdict:
        """Check for the end, after a round without leases and while this process holds none."""
        if await self._take_in():
            self.not_yet()
            return Verdict.GO_ON
        if self.may_go_on or round_.states & {"paused", "grace", "leap"}:
            return Verdict.GO_ON
        if not self._limits.close_when_done:
            return Verdict.GO_ON
        if round_.states == {"limit"}:
            return await self._end("max_pages")
        # Before the frontier is counted: a message is in one of both. After the limit, as a stream
        # may never end.
        if await self._messages_wait():
            self.not_yet()
            return Verdict.GO_ON
        sizes = await self._frontier.sizes()
        before, self._last = self._last, sizes
        if sizes.unfinished == 0:
            # Two readings, since another process may move a URL between two parts of one.
            if before is None or before.unfinished or before.added != sizes.added:
                return Verdict.CHECK_AGAIN
            if places := await self._elsewhere():
                return await self._wait_for_others(places)
            self.never_began = sizes.added == 0
            return await self._end("finished")
        if "paced" in round_.states:
            return Verdict.GO_ON
        earliest_s = min(round_.waits_s, default=0.0)
        if sizes.leased == 0 and earliest_s > self._limits.max_wait_s:
            self.waits_s = earliest_s
            return await self._end("waiting")
        return Verdict.GO_ON

    async def _wait_for_others(self, places: list[str]) -> Verdict:
        """Give other processes time to bring in what they have on their disks."""
        if not self._places:
            self._places_since_s = monotonic()
        self._places = places
        if monotonic() - self._places_since_s < self._limits.max_wait_s:
            return Verdict.GO_ON
        return await self._end("waiting")

    async def _end(self, reason: str) -> Verdict:
        await self._before_end()
        # Redis may have been given up on, or found to have lost data, during the check.
        if self.reason is None:
            self.reason = reason
        return Verdict.OVER


_KEPT_S = 1.0


class PageLimit:
    """Number of pages that a crawl on several servers may still have, as one process knows it.

    All shards are asked, about once a second. If a server is away, its last answer counts.
    """

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        # By shard.
        self._sizes: dict[int, Sizes] = {}
        self._read_s = 0.0
        # By shard: leases that this process claimed since its answer.
        self._claimed: dict[int, int] = {}

    @property
    def pages(self) -> int:
        """Number of pages that the crawl had when the shards were asked."""
        return sum(sizes.pages for sizes in self._sizes.values())

    async def left(self, limit: int) -> int:
        """Return how many URLs may be leased without exceeding this number of pages."""
        if not self._sizes or monotonic() > self._read_s + _KEPT_S:
            await self._read()
        leased = sum(sizes.leased for sizes in self._sizes.values())
        return limit - self.pages - leased - sum(self._claimed.values())

    def claimed(self, shard: int, number: int) -> None:
        """Count leases that this process claimed from a shard since its answer."""
        self._claimed[shard] = self._claimed.get(shard, 0) + number

    async def _read(self) -> None:
        shards = range(self._frontier.shards)
        found = await gather_outcomes(self._frontier.sizes(shard) for shard in shards)
        for shard, sizes in zip(shards, found, strict=True):
            if not isinstance(sizes, BaseException):
                self._sizes[shard] = sizes
                self._claimed[shard] = 0
            elif shard not in self._sizes or not isinstance(sizes, RedisAway):
                raise sizes
        self._read_s = monotonic()


class Standstill:
    """Reasons why nothing is claimed: the crawl is paused, or Redis has restarted."""

    def __init__(self) -> None:
        self._paused = False
        # Monotonic seconds.
        self._grace_until = 0.0

    def log(self, round_: Round) -> None:
        """Log what a round of claims found, if it changed."""
        # No state: no shard was asked, because Redis is away.
        if round_.states and ("paused" in round_.states) != self._paused:
            self._paused = not self._paused
            if self._paused:
                logger.info(
                    "The crawl is paused: nothing new is fetched until it is resumed, by `scrapy "
                    "frontier resume` or on the dashboard"
                )
            else:
                logger.info("The crawl is resumed")
        if "grace" in round_.states and monotonic() > self._grace_until:
            wait_s = max(round_.waits_s, default=0.0)
            # Only once for all masters of a cluster.
            self._grace_until = monotonic() + wait_s
            logger.info(
                "Redis has restarted: nothing new is fetched for %.0f s, in which processes that "
                "may still be fetching tell it what they have in flight",
                wait_s,
            )
