"""Send what a process has to say to one shard, in batches, until Redis has acknowledged it.

Group commit: one flush is in flight, the next takes all that waits. The more leases are held, the
further apart flushes are; a settlement waits for some milliseconds at the most. Every verb may be
repeated, so what failed is sent again as it was. While its server is away everything waits here,
and the lanes of other shards go on.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from crawler.frontier.acknowledgements import Add, RecentAdds
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.records import PAGE_AGAIN, VISIT_AGAIN, Added, Again, Lease
from crawler.servers.redis.errors import RedisAway, RedisFull
from crawler.servers.redis.health import OUTBOX, GaveUp, RedisHealth

logger = logging.getLogger(__name__)


_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 5.0


class Lane:
    """Adds, releases and settlements on their way to a shard."""

    def __init__(
        self,
        frontier: Frontier,
        health: RedisHealth,
        shard: int,
        pace: Pace,
        *,
        on_settled: Callable[[Iterable[Lease]], None],
        on_flushed: Callable[[], None],
        on_give_up: Callable[[int], None],
    ) -> None:
        self.recent = RecentAdds()
        self.task: asyncio.Task[None] | None = None
        self._frontier = frontier
        self._health = health
        self._who = f"{OUTBOX} {shard}"
        self._shard = shard
        self._pace = pace
        self._on_settled = on_settled
        self._on_flushed = on_flushed
        self._on_give_up = on_give_up
        # Adds of the flush that is on its way.
        self._sending: list[Add] = []
        # It took no links the last time.
        self._is_full = False
        # Why nothing is sent any more.
        self._gave_up: GaveUp | None = None
        self._clear()

    def _clear(self) -> None:
        self._adds: list[Add] = []
        self._releases: list[tuple[Lease, int]] = []
        self._long_releases: list[tuple[Lease, int]] = []
        self._settlements = Settlements()

    def add(self, entries: Sequence[Entry | bytes], mode: str) -> asyncio.Future[Added]:
        """Add URLs of this shard; the future says what became of each, when Redis has them."""
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        if self._gave_up is not None:
            future.set_exception(self._gave_up)
            return future
        self._adds.append(Add(entries, mode, future))
        self._flush_soon()
        return future

    def release(self, lease: Lease, rest_ms: int, *, usual: bool) -> None:
        """A fetch ended; its host rests."""
        (self._releases if usual else self._long_releases).append((lease, rest_ms))
        self._flush_soon()

    def done(self, lease: Lease, page: bool, again: Again | None) -> None:
        """The URL is finished, for good or for a while."""
        self._settlements.done.append((lease, page, again))
        self._flush_soon()

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """The URL comes back later as `entry`."""
        self._settlements.retries.append((lease, wait_ms, entry))
        self._flush_soon()

    def bury(self, lease: Lease, reason: str) -> None:
        """The URL goes to the dead-letter queue."""
        self._settlements.buried.append((lease, reason))
        self._flush_soon()

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        """The URL was not fetched; its host rests, and it is next in line."""
        self._settlements.handed_back.append((lease, rest_ms))
        self._flush_soon()

    def repeat_adds(self, held: Sequence[Entry]) -> None:
        """Add once more what a server that restarted or failed over may have lost.

        `held` are URLs that this process has in its hands: who added them may be gone.
        """
        self._adds += self.recent.doubtful()
        if held:
            # Whoever holds them waits for no answer.
            self.add(held, "all").add_done_callback(lambda future: future.exception())
        elif self._adds:
            self._flush_soon()

    @property
    def _waiting(self) -> bool:
        return any((self._adds, self._releases, self._long_releases, self._settlements))

    def _flush_soon(self) -> None:
        if self.task is None and self._gave_up is None:
            self.task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._waiting:
                await self._pace.next()
                await self._send_releases()
                for call in self._take_adds():
                    await self._insist(call)
                await self._send_settlements()
                self._on_flushed()
        except GaveUp as error:
            self._give_up(error)
        finally:
            self.task = None

    def _give_up(self, error: GaveUp) -> None:
        logger.error("%s; what was not sent comes back when this process is found dead", error)
        self._gave_up = error
        for add in (*self._sending, *self._adds):
            if not add.future.done():
                add.future.set_exception(error)
        self.recent.clear()
        self._clear()
        self._on_give_up(self._shard)

    async def _send_releases(self) -> None:
        """They come first: hosts wait for them, and they for no link."""
        usual, long = self._releases, self._long_releases
        self._releases, self._long_releases = [], []
        if usual:
            await self._insist(partial(self._frontier.release, usual))
        if long:
            await self._insist(partial(self._frontier.release, long, usual=False))

    async def _send_settlements(self) -> None:
        settlements, self._settlements = self._settlements, Settlements()
        if settlements:
            # Of these leases too: nothing starts the clock of a host whose slot is free already,
            # and if this process died in between, a slot would stay taken by no lease.
            await self._send_releases()
            for call in settlements.calls(self._frontier):
                await self._insist(call)
            self._on_settled(settlements.leases)

    def _take_adds(self) -> list[Call]:
        adds = self._sending = self._adds
        self._adds = []
        calls: list[Call] = []
        for mode in ("new", "all"):
            alike = [add for add in adds if add.mode == mode]
            if alike:
                calls.append(partial(self._send_adds, alike, mode))
        # Each alone and by a name of its own: sent again as it was, it adds nothing twice.
        forced = [add for add in adds if add.mode == "force"]
        return calls + [partial(self._send_adds, [add], "force") for add in forced]

    async def _send_adds(self, adds: list[Add], mode: str) -> None:
        # Some are answered already when a flush is sent again.
        adds = [add for add in adds if add.acknowledged_s is None]
        entries = [entry for add in adds for entry in add.entries]
        request_id = adds[0].request_id if adds else ""
        try:
            added = await self._frontier.add(
                entries, mode=mode, request_id=request_id, shard=self._shard
            )
        except RedisFull:
            # It has no room for links, and takes what needs none.
            self._is_full = True
            await self._send_releases()
            await self._send_settlements()
            raise
        except RedisAway:
            raise
        except Exception as error:  # noqa: BLE001 - it is the sender's, who gets it
            await self._refuse(adds, mode, error)
            return
        self._is_full = False
        start, now_s = 0, monotonic()
        for add in adds:
            answer = Added(added.answers[start : start + len(add.entries)])
            start += len(add.entries)
            self.recent.acknowledged(add, answer, now_s=now_s)
            if not add.future.done():
                add.future.set_result(answer)

    async def _refuse(self, adds: list[Add], mode: str, error: Exception) -> None:
        """Something that cannot be sent must not take with it what can."""
        if len(adds) > 1:
            for add in adds:
                await self._send_adds([add], mode)
            return
        for add in adds:
            self.recent.failed(add)
            if not add.future.done():
                add.future.set_exception(error)

    async def _insist(self, call: Call) -> None:
        """Repeat a call until Redis has taken it."""
        backoff = _BACKOFF_S
        while True:
            try:
                await call()
            except RedisAway as error:
                self._health.failed(self._who, error)
                await self._health.wait(backoff * (1 + random.random()))
                backoff = min(backoff * 2, _BACKOFF_MAX_S)
            except GaveUp:
                raise
            except Exception:
                # The leases in it are not known to be settled; the next beat hands them back.
                logger.exception("The frontier did not understand what was sent")
                return
            else:
                if not self._is_full:
                    self._health.worked(self._who)
                return


Call = Callable[[], Awaitable[None]]
# A finished lease, whether it gave a page, and how it comes back.
Finished = tuple[Lease, bool, Again | None]


@dataclass(slots=True)
class Settlements:
    """By the verb that each of them needs."""

    done: list[Finished] = field(default_factory=list)
    retries: list[tuple[Lease, int, Entry]] = field(default_factory=list)
    buried: list[tuple[Lease, str]] = field(default_factory=list)
    handed_back: list[tuple[Lease, int]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.done or self.retries or self.buried or self.handed_back)

    @property
    def leases(self) -> list[Lease]:
        kinds = (self.done, self.retries, self.buried, self.handed_back)
        return [item[0] for kind in kinds for item in kind]

    def calls(self, frontier: Frontier) -> list[Call]:
        """What makes them, a call a verb."""
        calls = self._finishing(frontier)
        if self.retries:
            calls.append(partial(frontier.retry, self.retries))
        if self.buried:
            calls.append(partial(frontier.bury, self.buried))
        if self.handed_back:
            calls.append(partial(frontier.hand_back, self.handed_back))
        return calls

    def _finishing(self, frontier: Frontier) -> list[Call]:
        """Calls for what is finished; guarded, since a server may have lost the links."""
        over = [(lease, page) for lease, page, again in self.done if again is None]
        calls: list[Call] = [partial(frontier.done, over, guarded=True)] if over else []
        for kind, with_page in ((PAGE_AGAIN, True), (VISIT_AGAIN, False)):
            back = [
                (lease, again.wait_ms, again.entry)
                for lease, page, again in self.done
                if again is not None and page is with_page
            ]
            if back:
                calls.append(partial(frontier.retry, back, kind=kind, guarded=True))
        return calls


# Between the beginnings of two flushes, for each lease under way and at the most.
_GAP_S = 0.001
_GAP_MAX_S = 0.02


class Pace:
    """Of one process."""

    def __init__(self, under_way: Callable[[], int] = lambda: 0) -> None:
        self._under_way = under_way
        self._began_s = 0.0

    async def next(self) -> None:
        """Return when the next flush may begin."""
        wait_s = self._began_s + min(_GAP_MAX_S, self._under_way() * _GAP_S) - monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._began_s = monotonic()
