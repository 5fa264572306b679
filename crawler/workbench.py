"""Keep a process supplied with leases, and notice when the crawl is over.

A lease that is claimed and not started idles, so the workbench claims just what the downloader has
room for. It sleeps exactly until the next host is due, wakes when this process changed something,
and looks once a second for what other processes did.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from crawler.frontier import Claim, Frontier, Lease, Sizes
from crawler.frontier.frontier import OwnerDead, RedisAway
from crawler.frontier.outbox import Outbox

logger = logging.getLogger(__name__)

# Two claims are at least this far apart, so that a busy process claims in batches.
_CLAIM_GAP_S = 0.01
_IDLE_MAX_S = 1.0
_BACKOFF_MAX_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """When a process stops, and when another one is taken for dead."""

    max_pages: int = 0
    # False: stay when nothing is left, and wait for seeds.
    close_when_done: bool = True
    max_wait_s: float = 60.0
    lease_ttl_s: float = 30.0
    # Rest of a host whose worker died in the middle of a fetch.
    reclaim_rest_s: float = 1.0


class Workbench:
    """The leases of one process."""

    def __init__(
        self,
        frontier: Frontier,
        limits: Limits,
        *,
        room: Callable[[], int],
        wake: Callable[[], None],
        look_for_seeds: Callable[[], Awaitable[int]],
    ) -> None:
        self._changed = asyncio.Event()
        self.outbox = Outbox(frontier, on_flushed=self._changed.set)
        # Why the crawl is over for this process: "finished", "max_pages", "waiting"; else None.
        self.over: str | None = None
        # Seconds to the earliest waiting URL when the reason is "waiting".
        self.waits_s: float | None = None
        self._frontier = frontier
        self._limits = limits
        self._room = room
        self._wake = wake
        self._look_for_seeds = look_for_seeds
        self._ready: deque[Lease] = deque()
        self._held: dict[bytes, Lease] = {}
        self._request_id = ""
        self._last_sizes: Sizes | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- life ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start claiming and beating."""
        await self._frontier.open()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._claim_forever()), loop.create_task(self._beat())]

    async def close(self) -> None:
        """Hand back what is not settled, and sign off."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        for lease in self._held.values():
            self.outbox.hand_back(lease, 0)
        self._held.clear()
        await self.outbox.drain()
        with suppress(*RedisAway):
            await self._frontier.leave()

    # --- leases --------------------------------------------------------------------------------

    def take(self) -> Lease | None:
        """The next lease to fetch, if one is ready."""
        if self._ready:
            return self._ready.popleft()
        self._changed.set()
        return None

    def settled(self, lease: Lease) -> None:
        """A lease was passed to the outbox for good."""
        self._held.pop(lease.token, None)

    def holds(self, lease: Lease) -> bool:
        """Is this lease still to be settled by this process?"""
        return lease.token in self._held

    @property
    def held(self) -> int:
        """Leases claimed and not yet settled."""
        return len(self._held)

    # --- claiming ------------------------------------------------------------------------------

    async def _claim_forever(self) -> None:
        backoff = _CLAIM_GAP_S
        while True:
            try:
                pause = await self._claim_once()
                backoff = _CLAIM_GAP_S
            except OwnerDead:
                await self._start_over()
                continue
            except RedisAway as error:
                if backoff == _CLAIM_GAP_S:
                    logger.warning("Redis is away (%s); nothing new is started until it is back", error)
                pause = backoff = min(backoff * 2 * (1 + random.random()), _BACKOFF_MAX_S)
            await self._sleep(pause)

    async def _claim_once(self) -> float:
        """Claim once; returns the seconds until it makes sense to claim again."""
        self._changed.clear()
        room = self._room() - len(self._ready)
        if room <= 0:
            return _IDLE_MAX_S
        # The same request id until an answer came: a claim whose reply was lost is not lost.
        self._request_id = self._request_id or uuid.uuid4().hex[:12]
        claim = await self._frontier.claim(
            room, self._request_id, max_pages=self._limits.max_pages
        )
        self._request_id = ""
        if claim.leases:
            self._last_sizes = None
            self._held.update((lease.token, lease) for lease in claim.leases)
            self._ready.extend(claim.leases)
            self._wake()
        if claim.delayed_ms == 0:
            await self._frontier.promote()
            return 0
        if claim.more:
            return 0
        if not claim.leases and not self._held and self.outbox.empty:
            await self._look_for_end(claim)
        due = [ms / 1000 for ms in (claim.wait_ms, claim.delayed_ms) if ms is not None]
        return min([_IDLE_MAX_S, *due])

    async def _sleep(self, pause: float) -> None:
        await asyncio.sleep(min(pause, _CLAIM_GAP_S))
        if pause > _CLAIM_GAP_S:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), pause - _CLAIM_GAP_S)

    async def _start_over(self) -> None:
        logger.warning(
            "This process was silent too long and its leases went to others; it goes on under a "
            "new name"
        )
        self._ready.clear()
        self._held.clear()
        self._request_id = ""
        await self._frontier.register()

    # --- the end of the crawl ------------------------------------------------------------------

    async def _look_for_end(self, claim: Claim) -> None:
        if await self._look_for_seeds():
            return
        if claim.limit_reached:
            self._finish("max_pages")
            return
        sizes = await self._frontier.sizes()
        before, self._last_sizes = self._last_sizes, sizes
        if sizes.unfinished == 0:
            # Two readings, since another process may move a URL between two parts of one.
            if before is not None and before.unfinished == 0 and before.added == sizes.added:
                self._finish("finished")
            else:
                self._changed.set()
            return
        due = [ms / 1000 for ms in (claim.wait_ms, claim.delayed_ms) if ms is not None]
        if sizes.leased == 0 and due and min(due) > self._limits.max_wait_s:
            self.waits_s = min(due)
            self._finish("waiting")

    def _finish(self, reason: str) -> None:
        if self._limits.close_when_done and self.over is None:
            self.over = reason
            self._wake()

    # --- heartbeat -----------------------------------------------------------------------------

    async def _beat(self) -> None:
        ttl_s = self._limits.lease_ttl_s
        while True:
            try:
                await self._frontier.beat()
                taken = await self._frontier.reclaim(
                    silence_ms=round(ttl_s * 1000),
                    delay_ms=round(self._limits.reclaim_rest_s * 1000),
                )
                if taken:
                    logger.info("Took back %d leases of processes that died", taken)
                    self._changed.set()
            except OwnerDead:
                self._changed.set()
            except RedisAway as error:
                logger.debug("No beat: %s", error)
            await asyncio.sleep(ttl_s / 6)
