"""Hold the leases of this process, from claim to settlement.

A lease gives one URL to one process. It is in one of these states:

    ready      claimed, and not taken by the engine
    taken      its request is with the engine: being fetched, parsed or stored
    settling   its end is decided, and waits until something else is safe (`settle_after`)
    settled    passed to the outbox, which repeats it until Redis has acknowledged it

`done`, `fail` and `hand_back` settle a lease. `release` ends its fetch: the host becomes available
to others after a delay, while the page is still parsed and stored.

The pool claims as many leases as the downloader has room for, since a lease that waits here keeps
its URL from the other processes (claimer.py decides when to claim).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler.errors import NotStored
from crawler.frontier import Again, Frontier, Kind, Lease
from crawler.frontier.outbox import Outbox
from crawler.scheduling.claimer import Claimer
from crawler.scheduling.completion import Completion, CompletionLimits
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.options import CrawlOptions
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.retry_policy import Bury, Retry
from crawler.servers.health import GaveUp, ServerHealth
from crawler.util.request_meta import LEASE
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)


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
        self._recrawls = recrawls
        # By shard. Without a heartbeat nobody declares a process dead.
        self._alive_until = [math.inf] * frontier.shards
        self._ready: deque[Lease] = deque()
        # Those of them whose hosts have a slot taken: claimed, and not released yet.
        self._in_flight: dict[tuple[int, bytes], Lease] = {}
        # And those whose fetch may have begun, and whose page is not read yet.
        self._started: set[tuple[int, bytes]] = set()
        # See `settle_after`.
        self._settling: set[tuple[int, bytes]] = set()
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
        self._settling.clear()
        self._claimer.drop_all()

    def follow(self, now: CrawlOptions) -> None:
        """The fleet's options changed."""
        self.limits.max_pages = now.max_pages
        self.limits.host_pages = now.max_pages_per_host
        self._frontier.set_weights(now.weights, now.load_weights, now.load_threshold)

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

    def holds(self, lease: Lease) -> bool:
        """Is this lease to be settled by this process, and is nobody settling it already?"""
        return lease.key in self._held and lease.key not in self._settling

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
        others = {lease.key for lease in self._ready} | self._settling
        return [lease for lease in self._held.values() if lease.key not in others]

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
