"""Keep a process known to the fleet: beat, follow the fleet's options, clear up after the dead."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from crawler.frontier import Frontier, Lease, OwnerDead, RedisAway
from crawler.frontier.health import LEASES, GaveUp, Health
from crawler.frontier.shards import preferred
from crawler.tasks import end
from crawler.workbench import Workbench

logger = logging.getLogger(__name__)

STRATEGIES = ("sticky", "balanced", "any")
# Calls in a row that take back leases: each is short, and a process may have died with thousands,
# of pages that waited for their store.
_RECLAIMS = 50


@dataclass(frozen=True, slots=True)
class Pulse:
    """How often a process beats, and when another one is taken for dead. Seconds."""

    beat_s: float = 2.0
    lease_ttl_s: float = 30.0
    # Rest of a host whose worker died in the middle of a fetch.
    reclaim_rest_s: float = 1.0
    strategy: str = "sticky"
    # Share of Redis' maxmemory from which on discoveries of low priority are refused.
    memory_full: float = 0.8


class Heartbeat:
    """Beats until it is closed."""

    def __init__(
        self,
        frontier: Frontier,
        workbench: Workbench,
        health: Health,
        pulse: Pulse,
        *,
        about: Callable[[], dict[str, Any]],
        on_beat: Callable[[], Any],
        on_epoch: Callable[[], None],
    ) -> None:
        self._frontier = frontier
        self._workbench = workbench
        self._health = health
        self._pulse = pulse
        self._about = about
        # Awaited after each beat: the scheduler looks at memory and lost leases there.
        self._on_beat = on_beat
        # Called when the server restarted and may have forgotten what it acknowledged.
        self._on_epoch = on_epoch
        self._epoch = 0
        self._turn = 0
        # Fetches that a restarted server was told of, until that is known to have worked.
        self._told: dict[tuple[int, bytes], Lease] = {}
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Register, and beat from now on."""
        until = self._alive_until()
        self._epoch = await self._frontier.open(self._about())
        self._workbench.beaten(until)
        await self._order_shards()
        self._task = asyncio.get_running_loop().create_task(self._beat_forever())

    async def close(self) -> None:
        """Sign off."""
        if self._task is not None:
            # Not between a beat and what it found.
            async with self._workbench.lock:
                await end(self._task)
        with suppress(*RedisAway):
            await self._frontier.leave()

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self._pulse.beat_s)
            try:
                await self._beat_or_start_over()
                self._health.worked(LEASES)
            except RedisAway as error:
                # The others could not beat either: they get the time to do it before a reclaim.
                self._turn = 0
                with suppress(GaveUp):
                    self._health.failed(LEASES, error)
            except Exception:
                # A process that stops beating is taken for dead with all that it holds.
                logger.exception("A beat failed; trying again")

    async def _beat_or_start_over(self) -> None:
        try:
            await self._beat()
        except OwnerDead:
            await self._start_over()

    async def _beat(self) -> None:
        self._turn += 1
        bench, began = self._workbench, monotonic()
        until = self._alive_until()
        async with bench.lock:
            epoch, strays = await self._frontier.beat(
                bench.known_leases, self._about(), unstarted=bench.unstarted
            )
            if strays:
                # Leases of a claim whose reply never came, or of a settlement that was lost.
                await self._frontier.hand_back([(lease, 0) for lease in strays])
        bench.beaten(until)
        if epoch == self._epoch:
            bench.outbox.seen_alive(began)
        else:
            await self._reassert()
        self._epoch = epoch
        if self._turn % 3 == 0:
            await self._reclaim()
            await self._order_shards()
        await self._on_beat()

    async def _reassert(self) -> None:
        logger.warning("Redis restarted or failed over; telling it again what is in flight")
        self._on_epoch()
        self._workbench.outbox.repeat_adds()
        rests = self._workbench.rests.left()
        # A slot whose release was lost would stay taken for ever.
        await self._frontier.release(rests, usual=False)
        flying = self._workbench.in_flight
        self._told |= {lease.key: lease for lease in flying}
        await self._frontier.reassert(
            flying, {lease.entry.host: left_ms for lease, left_ms in rests}
        )
        await self._free_overtaken()

    async def _free_overtaken(self) -> None:
        """Fetches that ended meanwhile may have been released before their slots were taken again.

        Nobody else would ever free them.
        """
        flying = {lease.key for lease in self._workbench.in_flight}
        left_ms = {lease.key: left for lease, left in self._workbench.rests.left()}
        # Those that do not rest were handed back unfetched.
        ended = [
            (lease, left_ms.get(key, 0)) for key, lease in self._told.items() if key not in flying
        ]
        await self._frontier.release(ended, usual=False)
        self._told.clear()

    async def _reclaim(self) -> None:
        taken = 0
        for _ in range(_RECLAIMS):
            part = await self._frontier.reclaim(
                silence_ms=round(self._pulse.lease_ttl_s * 1000),
                rest_ms=round(self._pulse.reclaim_rest_s * 1000),
            )
            if not part:
                break
            taken += part
        if taken:
            logger.info("Took back %d leases of processes that died", taken)
            self._workbench.news()

    async def _start_over(self) -> None:
        logger.warning(
            "This process was silent for too long, or Redis forgot it; what it held goes to "
            "others, and it goes on under a new name"
        )
        async with self._workbench.lock:
            hosts = {lease.entry.host for lease in self._workbench.in_flight}
            # Nothing is claimed from now on until the new name is known everywhere.
            self._workbench.drop_all()
            self._told.clear()
        # One for all attempts: each leaves it with those servers that are there.
        name = uuid.uuid4().hex[:16]
        while True:
            until = self._alive_until()
            try:
                epoch = await self._frontier.register(self._about(), name=name)
                if epoch != self._epoch:
                    await self._reassert_hosts(hosts)
                break
            except RedisAway as error:
                with suppress(GaveUp):
                    self._health.failed(LEASES, error)
                await asyncio.sleep(self._pulse.beat_s)
        self._epoch = epoch
        self._workbench.beaten(until)

    async def _reassert_hosts(self, in_flight: Iterable[str]) -> None:
        """Tell a server that fell back to before this process began which hosts rest.

        Those in flight do so as long as a lease lasts: nobody would free their slots.
        """
        self._on_epoch()
        self._workbench.outbox.repeat_adds()
        rests = {lease.entry.host: left_ms for lease, left_ms in self._workbench.rests.left()}
        rests |= dict.fromkeys(in_flight, round(self._pulse.lease_ttl_s * 1000))
        await self._frontier.reassert((), rests)

    def _alive_until(self) -> float:
        """Time to which a beat that is sent now keeps this process from being declared dead."""
        return monotonic() + self._pulse.lease_ttl_s

    async def _order_shards(self) -> None:
        """In which order the shards are asked, by the strategy."""
        shards = self._frontier.shards
        if shards == 1:
            return
        if self._pulse.strategy == "sticky":
            live = await self._frontier.live()
            order = preferred(shards, self._frontier.owner, live)
        elif self._pulse.strategy == "balanced":
            # The fullest first, so that all of them end at the same time.
            waiting = await self._frontier.waiting_by_shard()
            order = sorted(range(shards), key=lambda shard: -waiting[shard])
        else:
            order = [(self._turn + shard) % shards for shard in range(shards)]
        self._workbench.shard_order = order
