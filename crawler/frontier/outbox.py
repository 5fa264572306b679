"""Send what a process has to tell the frontier, in batches, until Redis has acknowledged it.

Group commit: one flush is in flight, the next takes all that waits (when it begins: pace.py). Every
verb may be repeated, so a flush that failed is sent again as it was; while Redis is away everything
waits here. What waits is bounded: nothing is claimed while it is much. Adds of the last moments are
kept, and made once more when a server lost its last second.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic

from crawler.frontier.entry import Entry
from crawler.frontier.errors import RedisAway, RedisFull
from crawler.frontier.frontier import Frontier
from crawler.frontier.health import OUTBOX, GaveUp, Health
from crawler.frontier.pace import Pace
from crawler.frontier.recent_adds import Add, RecentAdds
from crawler.frontier.records import Added, Again, Lease
from crawler.frontier.settling import Call, Finished, Settlements

logger = logging.getLogger(__name__)

_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 5.0
# Settlements that wait; on a cluster those of some seconds do.
_FULL = 10_000
# Between two looks whether what ripens is ripe.
_LOOK_S = 0.05


class Outbox:
    """Adds and settlements on their way to Redis."""

    def __init__(
        self,
        frontier: Frontier,
        health: Health,
        on_flushed: Callable[[], None],
        *,
        several_masters: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self._frontier = frontier
        self._health = health
        # Called after each flush: hosts and URLs may have become claimable.
        self._on_flushed = on_flushed
        # On several masters a URL is done when its links are safe: a master that falls back by its
        # last second alone must not have lost them. A single one loses the lease's end with them.
        self._several_masters = several_masters
        self._pace = pace or Pace()
        self._recent = RecentAdds()
        # Leases that Redis does not know to be settled yet.
        self._unsettled: dict[tuple[int, bytes], Lease] = {}
        # And the number of the last add that must be safe before.
        self._ripening: deque[tuple[int, Finished]] = deque()
        # Adds of the flush that is on its way.
        self._sending: list[Add] = []
        # Why nothing is sent any more.
        self._gave_up: GaveUp | None = None
        self._task: asyncio.Task[None] | None = None
        self._clear()

    def _clear(self) -> None:
        self._adds: list[Add] = []
        self._releases: list[tuple[Lease, int]] = []
        self._long_releases: list[tuple[Lease, int]] = []
        self._settlements = Settlements()

    @property
    def empty(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return self._task is None and not self._ripening

    @property
    def full(self) -> bool:
        """Does so much wait that nothing should be added to it?"""
        return len(self._unsettled) >= _FULL

    @property
    def unsettled(self) -> Iterable[Lease]:
        """Leases whose settlement Redis has not acknowledged."""
        return self._unsettled.values()

    def add(self, entries: Sequence[Entry | bytes], *, mode: str = "new") -> asyncio.Future[Added]:
        """Add URLs; the future says what became of each, when Redis has them.

        What is passed here before a settlement reaches Redis before it.
        """
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        if self._gave_up is not None:
            future.set_exception(self._gave_up)
            return future
        self._adds.append(self._recent.passed(entries, mode, future))
        self._flush_soon()
        return future

    def release(self, lease: Lease, rest_ms: int, *, usual: bool = True) -> None:
        """The fetch ended; its host rests, as long as it usually does or not."""
        (self._releases if usual else self._long_releases).append((lease, rest_ms))
        self._flush_soon()

    def done(self, lease: Lease, *, page: bool, again: Again | None = None) -> None:
        """The URL is finished, for good or for a while.

        Call it after its links were acknowledged or passed to add().
        """
        self._unsettled[lease.key] = lease
        if self._several_masters and not self._recent.are_safe(self._recent.last):
            self._ripening.append((self._recent.last, (lease, page, again)))
            return
        self._settlements.done.append((lease, page, again))
        self._flush_soon()

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """The URL comes back later as `entry`."""
        self._unsettled[lease.key] = lease
        self._settlements.retries.append((lease, wait_ms, entry))
        self._flush_soon()

    def bury(self, lease: Lease, reason: str) -> None:
        """The URL goes to the dead-letter queue."""
        self._unsettled[lease.key] = lease
        self._settlements.buried.append((lease, reason))
        self._flush_soon()

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; its host rests, and it is next in line."""
        self._unsettled[lease.key] = lease
        self._settlements.handed_back.append((lease, rest_ms))
        self._flush_soon()

    def seen_alive(self, at_s: float) -> None:
        """A beat that began at this time found all masters as they were."""
        self._recent.seen_alive(at_s)
        while self._ripening and self._recent.are_safe(self._ripening[0][0]):
            self._settlements.done.append(self._ripening.popleft()[1])
            self._flush_soon()

    def repeat_adds(self) -> None:
        """A server restarted or failed over: add once more what it may have lost."""
        doubtful = self._recent.doubtful()
        if doubtful:
            self._adds += doubtful
            self._flush_soon()

    async def drain(self) -> None:
        """Return when Redis has acknowledged all of it, or was given up on.

        What ripens needs a heart that beats.
        """
        while not self.empty:
            if self._task is not None:
                await asyncio.wait([self._task])
            elif self._health.given_up:
                self._give_up(GaveUp("Redis is away"))
            else:
                await asyncio.sleep(_LOOK_S)

    @property
    def _waiting(self) -> bool:
        return any((self._adds, self._releases, self._long_releases, self._settlements))

    def _flush_soon(self) -> None:
        if self._task is None and self._gave_up is None:
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._pace.next()
                for call in self._take():
                    await self._insist(call)
                self._on_flushed()
        except GaveUp as error:
            self._give_up(error)
        finally:
            self._task = None

    def _give_up(self, error: GaveUp) -> None:
        logger.error("%s; what was not sent comes back when this process is found dead", error)
        self._gave_up = error
        for add in (*self._sending, *self._adds):
            if not add.future.done():
                add.future.set_exception(error)
        self._recent.clear()
        self._clear()
        self._ripening.clear()

    def _take(self) -> list[Call]:
        """All that waits, as calls in the order they must reach Redis: adds before settlements."""
        calls = self._take_releases()
        self._sending = self._adds
        for mode in ("new", "all"):
            adds = [add for add in self._adds if add.mode == mode]
            if adds:
                calls.append(partial(self._send_adds, adds, mode))
        # Each alone and by a name of its own: sent again as it was, it adds nothing twice.
        forced = [add for add in self._adds if add.mode == "force"]
        calls += [partial(self._send_adds, [add], "force") for add in forced]
        if self._settlements:
            calls += self._settlements.calls(self._frontier)
            calls.append(partial(self._forget, self._settlements.leases))
        self._clear()
        return calls

    def _take_releases(self) -> list[Call]:
        """They come first: hosts wait for them, and they for no link."""
        kinds = ((self._releases, True), (self._long_releases, False))
        calls: list[Call] = [
            partial(self._frontier.release, ended, usual=usual) for ended, usual in kinds if ended
        ]
        self._releases, self._long_releases = [], []
        return calls

    async def _forget(self, settled: list[Lease]) -> None:
        for lease in settled:
            self._unsettled.pop(lease.key, None)

    async def _send_adds(self, adds: list[Add], mode: str) -> None:
        # Some are answered already when a flush is sent again.
        adds = [add for add in adds if add.acknowledged_s is None]
        entries = [entry for add in adds for entry in add.entries]
        request_id = adds[0].request_id if adds else ""
        try:
            added = await self._frontier.add(entries, mode=mode, request_id=request_id)
        except RedisAway:
            raise
        except Exception as error:  # noqa: BLE001 - it is the sender's, who gets it
            await self._refuse(adds, mode, error)
            return
        start, now_s = 0, monotonic()
        for add in adds:
            answer = Added(added.answers[start : start + len(add.entries)])
            start += len(add.entries)
            self._recent.acknowledged(add, answer, now_s=now_s)
            if not add.future.done():
                add.future.set_result(answer)

    async def _refuse(self, adds: list[Add], mode: str, error: Exception) -> None:
        """Something that cannot be sent must not take with it what can."""
        if len(adds) > 1:
            for add in adds:
                await self._send_adds([add], mode)
            return
        for add in adds:
            self._recent.failed(add)
            if not add.future.done():
                add.future.set_exception(error)

    async def _insist(self, call: Call) -> None:
        """Repeat a call until Redis has taken it."""
        backoff = _BACKOFF_S
        while True:
            try:
                await call()
            except RedisAway as error:
                self._health.failed(OUTBOX, error)
                await self._health.wait(backoff * (1 + random.random()))
                backoff = min(backoff * 2, _BACKOFF_MAX_S)
                if isinstance(error, RedisFull):
                    # It has no room for links, and takes what needs none.
                    for release in self._take_releases():
                        await self._insist(release)
            except Exception:
                # The leases in it are not known to be settled; the next beat hands them back.
                logger.exception("The frontier did not understand what was sent")
                return
            else:
                self._health.worked(OUTBOX)
                return
