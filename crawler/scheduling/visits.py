"""Visit other hosts for the parts of pages that are rendered.

A page may need a script or data from another host. A visit takes the slot of that host when it is
free and the host's clock is due, makes one request at a time, and starts the clock when it ends.
Pages of this process that need a host at the same time share one visit, which ends when the last of
them leaves. The host's own URLs, and other processes, must get their turn: so after some seconds a
visit takes in no more pages. They wait until it has ended, and for the delay of the host.

A page keeps the slot of its own host meanwhile. Two pages that need each other's hosts wait in
vain, as long as they may.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from crawler.frontier import OwnerDead, Visit
from crawler.politeness.host_delays import Fetch
from crawler.servers.redis.errors import RedisAway

if TYPE_CHECKING:
    from crawler.politeness.host_delays import HostDelays
    from crawler.scheduling.lease_pool import LeasePool

logger = logging.getLogger(__name__)

# A visit takes in pages for so long after its beginning. It ends after so long at the latest, if a
# page does not leave.
SHARED_S, LONGEST_S = 5.0, 60.0
# Between two questions for a slot that is taken.
_POLL_S = 0.2
# Refusals that will not pass while a page waits.
_FINAL = frozenset({"closed", "away"})
# Delay of a host whose delay could not be found out.
_UNKNOWN_DELAY_MS = 2000
# At the end of the process; longer than a call to Redis takes.
_CLOSING_S = 10.0


class HostVisits:
    """Visits of hosts by the pages that this process renders."""

    def __init__(
        self,
        leases: LeasePool,
        host_delays: HostDelays,
        *,
        shared_s: float = SHARED_S,
        longest_s: float = LONGEST_S,
    ) -> None:
        self._leases = leases
        self._host_delays = host_delays
        self._limits = {"shared_s": shared_s, "longest_s": longest_s}
        # By host, with the task that takes its slot and ends it.
        self._visits: dict[str, tuple[SharedVisit, asyncio.Task[None]]] = {}

    @asynccontextmanager
    async def at(self, host: str, *, within_s: float) -> AsyncIterator[SharedVisit | None]:
        """Visit a host, once its slot is free and its clock is due; None if that takes too long.

        Also None, at once: people closed the host, HOST_RULES block it, Redis is away, or this
        process may have been declared dead. `host` is a politeness group, see `Entry.host`; never
        that of the page.
        """
        is_blocked = self._host_delays.rules.for_host(host).blocked
        visit = None if is_blocked else await self._join(host, monotonic() + within_s)
        try:
            yield visit
        finally:
            if visit is not None:
                visit.leave()

    async def _join(self, host: str, until_s: float) -> SharedVisit | None:
        while True:
            visit, task = self._visits.get(host) or self._begin(host)
            if visit.takes_in:
                return visit if await visit.join(until_s) else None
            await asyncio.wait({task}, timeout=max(0.0, until_s - monotonic()))
            if not task.done():
                return None

    def _begin(self, host: str) -> tuple[SharedVisit, asyncio.Task[None]]:
        visit = SharedVisit(host, self._leases, self._host_delays, **self._limits)
        task = asyncio.create_task(visit.run())
        task.add_done_callback(lambda _: self._visits.pop(host, None))
        self._visits[host] = visit, task
        return visit, task

    async def close(self) -> None:
        """End all visits; the lease pool, which is closed later, sends that."""
        tasks = []
        for visit, task in self._visits.values():
            visit.end()
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)


class _Contact(NamedTuple):
    """Request to a host: the delay that its robots.txt asks for, and `answered` of FailureKind."""

    fetch: Fetch
    crawl_delay_s: float = 0.0
    answered: bool | None = None


class SharedVisit:
    """Visit of a host by the pages of this process that need it at the same time."""

    def __init__(
        self,
        host: str,
        leases: LeasePool,
        host_delays: HostDelays,
        *,
        shared_s: float,
        longest_s: float,
    ) -> None:
        self.host = host
        self._leases = leases
        self._host_delays = host_delays
        self._shared_s = shared_s
        self._longest_s = longest_s
        self._turn = asyncio.Lock()
        # Pages that are here, or wait for the slot.
        self._pages = 0
        # The slot, and since when this process has it; before that: not before when it gets it.
        self._visit: Visit | None = None
        self._since_s = 0.0
        self._not_before_s = 0.0
        # Set, and replaced, when one of these has changed.
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        # A request may be under way, or was cut off with its page.
        self._is_fetching = False
        self._last: _Contact | None = None
        # The host does not answer, or says that it is overloaded.
        self._is_in_trouble = False

    # --- for pages -----------------------------------------------------------------------------

    def turn(self) -> asyncio.Lock:
        """Return the right to make a request, `async with visit.turn()`: one at a time has it.

        Whoever has it asks `may_fetch` before the request, and notes it with `fetched`.
        """
        return self._turn

    def may_fetch(self) -> bool:
        """Tell whether the host may be contacted now. If so, it counts as contacted.

        It may not if it is in trouble, if others may have its slot by now, or if the page stayed
        for too long.
        """
        if self._visit is None or self._over.is_set() or self._is_in_trouble:
            return False
        if not self._leases.may_visit(self._visit):
            return False
        self._is_fetching = True
        return True

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None:
        """Note a request to the host: it decides how long the host is left alone afterwards.

        `answered` is that of FailureKind; True for any response.
        """
        self._is_fetching = False
        if not self._is_in_trouble:
            self._last = _Contact(fetch, crawl_delay_s, answered)
        self._is_in_trouble |= fetch.is_overload or answered is False

    # --- for HostVisits ------------------------------------------------------------------------

    @property
    def takes_in(self) -> bool:
        """Whether one more page may join."""
        if self._over.is_set() or self._is_in_trouble:
            return False
        return self._visit is None or (
            monotonic() < self._since_s + self._shared_s and self._leases.has_visit(self._visit)
        )

    async def join(self, until_s: float) -> bool:
        """Wait for the slot until this time, by monotonic(); if True is returned, `leave` later."""
        self._pages += 1
        has_slot = False
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_s - monotonic()):
                    while not self._over.is_set() and self._not_before_s <= until_s:
                        if self._visit is not None:
                            has_slot = True
                            break
                        await self._changed.wait()
        finally:
            if not has_slot:
                self.leave()
        return has_slot

    def leave(self) -> None:
        """Note that a page needs the host no more, or waits no longer. The last one ends it."""
        self._pages -= 1
        if not self._pages:
            self.end()

    def end(self) -> None:
        """End the visit: nothing is fetched any more."""
        self._over.set()
        self._tell()

    async def run(self) -> None:
        """Take the slot, and give it back when the last page has left."""
        delay_ms, usual = _UNKNOWN_DELAY_MS, False
        try:
            await self._take()
            if self._visit is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._longest_s):
                        await self._over.wait()
                self.end()
                # Not in the middle of a request.
                async with self._turn:
                    delay_ms, usual = await self._delay()
        except Exception:
            logger.exception("The visit of %s failed", self.host)
        finally:
            if self._visit is not None:
                self._leases.visited(self._visit, delay_ms, usual=usual)
            self.end()

    async def _take(self) -> None:
        while not self._over.is_set():
            try:
                found = await self._leases.visit(self.host)
            except (*RedisAway, OwnerDead) as error:
                logger.debug("%s cannot be visited: %s", self.host, error)
                return
            if isinstance(found, Visit):
                self._visit, self._since_s = found, monotonic()
                self._tell()
                return
            if found.state in _FINAL:
                return
            wait_s = _POLL_S if found.wait_ms is None else found.wait_ms / 1000
            self._not_before_s = monotonic() + wait_s
            # Who would wait in vain does not wait; perhaps nobody does then.
            self._tell()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._over.wait()

    async def _delay(self) -> tuple[int, bool]:
        """Return the delay of the host, and whether that is its usual one."""
        last = self._last
        if self._is_fetching:
            # It was cut off with its page.
            last = _Contact(Fetch(0.0, None), last.crawl_delay_s if last is not None else 0.0)
        if last is None:
            # It was not contacted.
            return 0, False
        delay = await self._host_delays.after(
            self.host,
            last.fetch,
            crawl_delay_s=last.crawl_delay_s,
            unanswered=last.answered is False,
        )
        if last.answered:
            await self._host_delays.answered(self.host)
        return delay.ms, delay.is_usual

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
