"""Send all that a process has to tell the frontier, through one lane for each shard of a cluster.

A lane sends adds, releases and settlements in batches. Group commit: one flush is in flight, and
the next one takes all that waits. The more leases are held, the further apart flushes are; a
settlement waits for some milliseconds at the most. Every verb may be repeated, so whatever failed
is sent again as it was. While a shard's server is away everything waits in its lane, and the lanes
of other shards go on. The size is bounded: nothing is claimed while much waits. A single server
has one lane for all shards: it is there for all of them, or for none.

A master that dies loses its last second, whatever it acknowledged. An add is safe when its master
was seen alive, and not restarted, some time later. Until then, and for a while longer, the lane
keeps it to repeat it.

A page may have links on other masters than its lease. So with several masters it is done only when
each master that acknowledged anything since the lease was claimed was seen alive, and not
restarted, two seconds later. A master that is away acknowledges nothing: pages whose leases were
claimed later do not wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import uuid
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, Literal

import numpy as np

from crawler.frontier.entry import Entry, encode
from crawler.frontier.frontier import Frontier, places_by_shard, raise_errors
from crawler.frontier.records import PAGE_AGAIN, VISIT_AGAIN, Added, Again, Lease, Visit
from crawler.servers.health import OUTBOX, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway, RedisFull
from crawler.util.backoff import Backoff

logger = logging.getLogger(__name__)

# Settlements that may wait before nothing more is claimed; on a cluster those of some seconds do.
UNSETTLED_MAX = 10_000
# Between two checks whether blocked settlements may go.
_CHECK_S = 0.05


class Outbox:
    """Adds and settlements on their way to Redis."""

    def __init__(
        self,
        frontier: Frontier,
        health: ServerHealth,
        on_flushed: Callable[[], None],
        *,
        under_way: Callable[[], int] = lambda: 0,
    ) -> None:
        self._health = health
        # Leases whose settlement Redis has not acknowledged.
        self.unsettled: dict[tuple[int, bytes], Lease] = {}
        # By host: visits whose end Redis has not acknowledged.
        self.ending: dict[str, Visit] = {}
        self._lanes = [
            Lane(
                frontier,
                health,
                shard,
                Pace(under_way),
                on_settled=self._forget,
                # Hosts and URLs may have become claimable.
                on_flushed=on_flushed,
                on_give_up=self._drop,
            )
            for shard in ([None] if frontier.has_one_server else range(frontier.shards))
        ]
        # A single master that loses links loses the end of their page's lease with them.
        recents = () if frontier.has_one_server else [lane.recent for lane in self._lanes]
        self._barrier = SettlementBarrier(recents)

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self._barrier and all(lane.task is None for lane in self._lanes)

    @property
    def is_safe(self) -> bool:
        """Whether a server that dies now can lose no add."""
        return all(lane.recent.are_safe(lane.recent.last) for lane in self._lanes)

    # --- URLs in -------------------------------------------------------------------------------

    def add(self, entries: Sequence[Entry | bytes], *, mode: str = "new") -> asyncio.Future[Added]:
        """Add URLs; the future has the answer to each when all their shards have answered."""
        if len(self._lanes) == 1:
            return self._lanes[0].add(entries, mode)
        places = places_by_shard(entries, len(self._lanes))
        parts = [
            self._lanes[shard].add([entries[place] for place in found], mode)
            for shard, found in places.items()
        ]
        if len(parts) == 1:
            return parts[0]
        return asyncio.ensure_future(_merged(list(places.values()), parts))

    def repeat_adds(self, shard: int, held: Sequence[Entry] = ()) -> None:
        """Repeat adds of a shard that its server may have lost when it restarted."""
        self._lane(shard).repeat_adds(held)

    def seen_alive(self, shard: int, at_s: float) -> None:
        """Note that a beat that began at this time found the shard's master not restarted."""
        self._lane(shard).recent.seen_alive(at_s)
        if self._barrier:
            self._barrier.check(shard)

    # --- leases --------------------------------------------------------------------------------

    def release(self, lease: Lease, delay_ms: int, *, usual: bool = True) -> None:
        """End a fetch; its host waits for so long, which is its usual delay or not."""
        self._lane(lease.shard).put("release" if usual else "long_release", lease, delay_ms)

    def visited(self, visit: Visit, delay_ms: int, *, usual: bool = True) -> None:
        """End a visit; its host waits for so long, which is its usual delay or not."""
        self.ending[visit.host] = visit
        self._lane(visit.shard).put("visited" if usual else "long_visited", visit, delay_ms)

    def done(self, lease: Lease, *, page: bool, again: Again | None = None) -> None:
        """Settle a finished URL, for good or until its recrawl. Call it when its links are in."""
        if again is None:
            self._settle_when_safe("done", lease, page)
        else:
            verb: Verb = "recrawl" if page else "revisit"
            self._settle_when_safe(verb, lease, again.wait_ms, again.entry)

    def bury(self, lease: Lease, reason: str) -> None:
        """Move a URL to the dead letters. Call it when Redis has what its errback yielded."""
        self._settle_when_safe("bury", lease, reason)

    def retry(self, lease: Lease, wait_ms: int, entry: Entry) -> None:
        """Delay a URL; it comes back as `entry`."""
        self._settle("retry", lease, wait_ms, entry)

    def hand_back(self, lease: Lease, delay_ms: int) -> None:
        """Give a URL back without a fetch; it is next in line when its host has waited."""
        self._settle("hand_back", lease, delay_ms)

    def _settle(self, verb: Verb, lease: Lease, *args: Any) -> None:
        self.unsettled[lease.key] = lease
        self._lane(lease.shard).put(verb, lease, *args)

    def _settle_when_safe(self, verb: Verb, lease: Lease, *args: Any) -> None:
        self.unsettled[lease.key] = lease
        put = partial(self._lane(lease.shard).put, verb, lease, *args)
        self._barrier.settle(lease, put)

    # -------------------------------------------------------------------------------------------

    def _lane(self, shard: int) -> Lane:
        return self._lanes[0] if len(self._lanes) == 1 else self._lanes[shard]

    async def drain(self) -> None:
        """Return when Redis has acknowledged everything, or was given up on.

        Beats must go on meanwhile: settlements that wait for other masters need them.
        """
        while not self.empty:
            tasks = [lane.task for lane in self._lanes if lane.task is not None]
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            elif self._health.given_up:
                for shard in range(len(self._lanes)):
                    self._drop(shard)
            else:
                await asyncio.sleep(_CHECK_S)

    def _drop(self, shard: int) -> None:
        self._barrier.drop(shard)

    def _forget(self, settled: Iterable[Lease | Visit]) -> None:
        for each in settled:
            if isinstance(each, Visit):
                self.ending.pop(each.host, None)
            else:
                self.unsettled.pop(each.key, None)


async def _merged(places: list[list[int]], parts: list[asyncio.Future[Added]]) -> Added:
    found = raise_errors(await asyncio.gather(*parts, return_exceptions=True))
    return Added.merged(places, [part.answers for part in found])


@dataclass(slots=True, eq=False)
class _Blocked:
    """Settlement that waits, and the number of shards it waits for."""

    settle: Callable[[], None]
    shards: int = 0
    dropped: bool = False


class SettlementBarrier:
    """Settlements that wait until recent adds of several shards are safe."""

    def __init__(self, recents: Sequence[RecentAdds]) -> None:
        self._recents = recents
        # By shard, in order: the number of the add that must be safe there, and who waits.
        self._waiting: list[deque[tuple[int, _Blocked]]] = [deque() for _ in recents]
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def settle(self, lease: Lease, settle: Callable[[], None]) -> None:
        """Call `settle` when the links of a lease are safe, which may be now."""
        blocked = _Blocked(settle)
        for recent, waiting in zip(self._recents, self._waiting, strict=True):
            if recent.last_s >= lease.claimed_s and not recent.are_safe(recent.last):
                blocked.shards += 1
                waiting.append((recent.last, blocked))
        if blocked.shards:
            self._size += 1
        else:
            settle()

    def check(self, shard: int) -> None:
        """Settle what no longer has to wait, after adds of this shard became safe."""
        waiting, recent = self._waiting[shard], self._recents[shard]
        while waiting and recent.are_safe(waiting[0][0]):
            blocked = waiting.popleft()[1]
            blocked.shards -= 1
            if not blocked.shards and not blocked.dropped:
                self._size -= 1
                blocked.settle()

    def drop(self, shard: int) -> None:
        """Drop what waits for a shard that was given up on.

        These leases come back when this process is found dead.
        """
        if not self._waiting:
            return
        for _, blocked in self._waiting[shard]:
            self._size -= not blocked.dropped
            blocked.dropped = True
        self._waiting[shard].clear()


# Verbs of leases and visits in a flush. A long release or visit ends with a delay that is not the
# host's usual one; a recrawl comes back after a page, a revisit after a visit without one.
Verb = Literal[
    "release",
    "long_release",
    "visited",
    "long_visited",
    "done",
    "recrawl",
    "revisit",
    "retry",
    "bury",
    "hand_back",
]
_RELEASES: tuple[Verb, ...] = ("release", "long_release")
_SETTLEMENTS: tuple[Verb, ...] = (
    *("visited", "long_visited"),
    *("done", "recrawl", "revisit", "retry", "bury", "hand_back"),
)

Call = Callable[[], Awaitable[None]]

# A server syncs its log every second, and a replica is no further behind.
SAFE_AFTER_S = 2.0
# Longer than needed: repeating costs little, and a server may be slower than it should be. If a
# server lost more than this before the last beat, it lost adds that nobody can repeat.
KEPT_S = 10.0
_BACKOFF = Backoff(0.1, 5.0, jitter=1.0)
# Time between the beginnings of two flushes: for each lease under way, and at the most.
_GAP_S = 0.001
_GAP_MAX_S = 0.02


@dataclass(slots=True, eq=False)
class Add:
    """URLs on their way to Redis, and the future of their answers."""

    entries: Sequence[bytes]
    mode: str
    future: asyncio.Future[Added]
    # Identifies a forced add when it is repeated; other modes need none.
    request_id: str = ""
    # Its number among the acknowledged adds of its shard; 0 before that.
    number: int = 0
    # When Redis acknowledged it; None while it has to be sent.
    acknowledged_s: float | None = None

    def __post_init__(self) -> None:
        if self.mode == "force":
            self.request_id = uuid.uuid4().hex


class RecentAdds:
    """Acknowledged adds of one shard, numbered in the order of their first acknowledgement."""

    def __init__(self) -> None:
        # By number: adds that are not safe yet, and adds that are safe by now.
        self._open: dict[int, Add] = {}
        self._safe: deque[Add] = deque()
        # Number and time of the last acknowledged add.
        self.last = 0
        self.last_s = -math.inf

    def acknowledged(self, add: Add, added: Added, *, now_s: float) -> None:
        """Keep an add that Redis has, without the URLs that it did not take."""
        if not added.has_all:
            add.entries = [e for i, e in enumerate(add.entries) if added.is_taken(i)]
        if not add.number:
            self.last += 1
            add.number = self.last
            self._open[add.number] = add
        add.acknowledged_s = self.last_s = now_s

    def failed(self, add: Add) -> None:
        """Drop an add that cannot be sent."""
        self._open.pop(add.number, None)

    def seen_alive(self, at_s: float) -> None:
        """Note that at this time or later the master had not restarted."""
        for add in list(self._open.values()):
            if add.acknowledged_s is not None and add.acknowledged_s <= at_s - SAFE_AFTER_S:
                self._safe.append(self._open.pop(add.number))
        while self._safe and (self._safe[0].acknowledged_s or 0.0) <= at_s - KEPT_S:
            self._safe.popleft()

    def are_safe(self, last: int) -> bool:
        """Return whether the server can lose no add up to this number."""
        return not self._open or next(iter(self._open)) > last

    def take_doubtful(self) -> list[Add]:
        """Return the acknowledged adds, to be sent again: the server may have lost some."""
        again = [*self._safe, *(a for a in self._open.values() if a.acknowledged_s is not None)]
        for add in again:
            add.acknowledged_s = None
            if add.mode == "new":
                # Redis took it once; it must not be refused now.
                add.mode = "all"
        known = {add.number: add for add in (*self._safe, *self._open.values())}
        self._open = dict(sorted(known.items()))
        self._safe.clear()
        return again

    def clear(self) -> None:
        """Forget all adds, when nothing is sent any more."""
        self._open.clear()
        self._safe.clear()


class Pace:
    """Pace of a lane's flushes: the more leases are under way, the further apart they are."""

    def __init__(self, under_way: Callable[[], int] = lambda: 0) -> None:
        self._under_way = under_way
        self._began_s = 0.0

    async def next(self) -> None:
        """Return when the next flush may begin."""
        wait_s = self._began_s + min(_GAP_MAX_S, self._under_way() * _GAP_S) - monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._began_s = monotonic()


class Lane:
    """Adds, releases and settlements on their way to one shard, or to all on a single server."""

    def __init__(
        self,
        frontier: Frontier,
        health: ServerHealth,
        shard: int | None,
        pace: Pace,
        *,
        on_settled: Callable[[Iterable[Lease | Visit]], None],
        on_flushed: Callable[[], None],
        on_give_up: Callable[[int], None],
    ) -> None:
        self.recent = RecentAdds()
        self.task: asyncio.Task[None] | None = None
        self._frontier = frontier
        self._health = health
        self._who = f"{OUTBOX} {shard or 0}"
        self._shard = shard
        self._pace = pace
        self._on_settled = on_settled
        self._on_flushed = on_flushed
        self._on_give_up = on_give_up
        # Finished leases are guarded, since a server that restarted may have lost their links.
        self._calls: dict[Verb, Callable[[list[Any]], Awaitable[None]]] = {
            "release": frontier.release,
            "long_release": partial(frontier.release, usual=False),
            "visited": frontier.visited,
            "long_visited": partial(frontier.visited, usual=False),
            "done": partial(frontier.done, guarded=True),
            "recrawl": partial(frontier.retry, kind=PAGE_AGAIN, guarded=True),
            "revisit": partial(frontier.retry, kind=VISIT_AGAIN, guarded=True),
            "retry": frontier.retry,
            "bury": frontier.bury,
            "hand_back": frontier.hand_back,
        }
        # What waits to be sent: adds, and by verb the leases with their arguments.
        self._adds: list[Add] = []
        self._waiting: dict[Verb, list[tuple[Any, ...]]] = defaultdict(list)
        # Adds of the flush that is on its way.
        self._sending: list[Add] = []
        # Redis took no links the last time.
        self._is_full = False
        # Why nothing is sent any more.
        self._gave_up: GaveUp | None = None

    def add(self, entries: Sequence[Entry | bytes], mode: str) -> asyncio.Future[Added]:
        """Add URLs of this shard; the future has the answer to each when Redis has them."""
        future: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        if self._gave_up is not None:
            future.set_exception(self._gave_up)
            return future
        try:
            # Bytes take a third of the memory of entries, and are kept for seconds.
            data = [entry if isinstance(entry, bytes) else encode(entry) for entry in entries]
        except Exception as error:  # noqa: BLE001 - the sender of the add gets it
            future.set_exception(error)
            return future
        self._adds.append(Add(data, mode, future))
        self._flush_soon()
        return future

    def put(self, verb: Verb, held: Lease | Visit, *args: Any) -> None:
        """Send a verb for a lease or visit with the next flush; the arguments are of Frontier."""
        self._waiting[verb].append((held, *args))
        self._flush_soon()

    def repeat_adds(self, held: Sequence[Entry]) -> None:
        """Repeat adds that a server may have lost when it restarted or failed over.

        `held` are URLs that this process has leased: the process that added them may be gone.
        """
        self._adds += self.recent.take_doubtful()
        if held:
            # Nobody waits for this answer.
            self.add(held, "all").add_done_callback(lambda future: future.exception())
        elif self._adds:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if self.task is None and self._gave_up is None:
            self.task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._adds or self._waiting:
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
        self._adds.clear()
        self._waiting.clear()
        self._on_give_up(self._shard or 0)

    async def _send_releases(self) -> None:
        """Send releases first: hosts wait for them, and they depend on no link."""
        await self._send(self._take(_RELEASES))

    async def _send_settlements(self) -> None:
        settlements = self._take(_SETTLEMENTS)
        if settlements:
            # The releases of these leases go first: the clock of a host starts only with a slot
            # that is taken, and if this process died in between, a slot would stay taken by no
            # lease.
            await self._send_releases()
            await self._send(settlements)
            self._on_settled(item[0] for batch in settlements.values() for item in batch)

    def _take(self, verbs: Iterable[Verb]) -> dict[Verb, list[tuple[Any, ...]]]:
        return {verb: self._waiting.pop(verb) for verb in verbs if verb in self._waiting}

    async def _send(self, batches: dict[Verb, list[tuple[Any, ...]]]) -> None:
        for verb, batch in batches.items():
            await self._insist(partial(self._calls[verb], batch))

    def _take_adds(self) -> list[Call]:
        adds = self._sending = self._adds
        self._adds = []
        calls: list[Call] = []
        for mode in ("new", "all"):
            alike = [add for add in adds if add.mode == mode]
            if alike:
                calls.append(partial(self._send_adds, alike, mode))
        # Each forced add alone, under its own id: sent again as it was, it adds nothing twice.
        forced = [add for add in adds if add.mode == "force"]
        return calls + [partial(self._send_adds, [add], "force") for add in forced]

    async def _send_adds(self, adds: list[Add], mode: str) -> None:
        # When a flush is sent again, some adds have their answer already.
        adds = [add for add in adds if add.acknowledged_s is None]
        entries = [entry for add in adds for entry in add.entries]
        request_id = adds[0].request_id if adds else ""
        try:
            added = await self._frontier.add(
                entries, mode=mode, request_id=request_id, shard=self._shard
            )
        except RedisFull:
            # It has no room for links, but takes what needs no room.
            self._is_full = True
            await self._send_releases()
            await self._send_settlements()
            raise
        except RedisAway:
            raise
        except Exception as error:  # noqa: BLE001 - the sender of the add gets it
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
        """Send each add alone, so that one that cannot be sent does not stop the others."""
        if len(adds) > 1:
            for add in adds:
                await self._send_adds([add], mode)
            return
        for add in adds:
            self.recent.failed(add)
            if not add.future.done():
                add.future.set_exception(error)

    async def _insist(self, call: Call) -> None:
        """Repeat a call until Redis has accepted it."""
        failures = 0
        while True:
            try:
                await call()
            except RedisAway as error:
                self._health.failed(self._who, error)
                failures += 1
                await self._health.wait(_BACKOFF.delay_s(failures, random.random()))
            except GaveUp:
                raise
            except Exception:
                # Its leases may not be settled; the next beat hands them back.
                logger.exception("Redis refused a batch of the outbox")
                return
            else:
                if not self._is_full:
                    self._health.worked(self._who)
                return


# Single URLs that may wait for Redis; with more, start() waits too.
_SENT_MAX = 1000


class UrlAdder:
    """Way of URLs into the outbox, past a cache of those that are known."""

    def __init__(self, outbox: Outbox, known: SeenCache, count: Callable[[str, int], None]) -> None:
        self._outbox = outbox
        self._known = known
        self._count = count
        # Single URLs that Redis has not acknowledged.
        self._sent: set[asyncio.Future[Added]] = set()
        self._some_room = asyncio.Event()

    def known_among(self, fingerprints: Sequence[int]) -> set[int]:
        """Return those of the URLs that are surely in the frontier: they need not be added."""
        return self._known.among(fingerprints)

    def met_again(self, number: int) -> None:
        """Count URLs that were found again, and not added."""
        if number:
            self._count("frontier/discovered", number)
            self._count("frontier/cached", number)

    def forget(self) -> None:
        """Forget the known URLs: Redis may have lost some of them."""
        self._known.clear()

    async def add(self, entries: Sequence[Entry], mode: str) -> Added:
        """Add URLs, see Frontier.add. Returns when Redis has answered."""
        unknown = self._unknown(entries, mode)
        answers = ["0"] * len(entries)
        if unknown:
            sent = [entries[i] for i in unknown]
            added = await self._send([entry.id for entry in sent], sent, mode)
            for place, index in enumerate(unknown):
                answers[index] = added.answers[place]
        return Added("".join(answers))

    async def add_unknown(self, ids: Sequence[int], entries: Sequence[Entry | bytes]) -> Added:
        """Add URLs with these fingerprints in the mode "new". None of them is in the cache."""
        self._count("frontier/discovered", len(ids))
        return await self._send(ids, entries, "new")

    def send(
        self, entry: Entry, mode: str, done: Callable[[], None]
    ) -> asyncio.Future[Added] | None:
        """Pass one URL to the outbox, and call `done` when Redis has it. None: it has it."""
        if not self._unknown([entry], mode):
            return None
        future = self._send([entry.id], [entry], mode)
        self._sent.add(future)
        future.add_done_callback(lambda sent: self._arrived(sent, done))
        return future

    def _arrived(self, sent: asyncio.Future[Added], done: Callable[[], None]) -> None:
        self._sent.discard(sent)
        self._some_room.set()
        done()

    async def arrival(self) -> bool:
        """Wait until Redis has all that was sent; return False if it was given up on."""
        sent = list(self._sent)
        if sent:
            await asyncio.wait(sent)
        return not any(one.cancelled() or isinstance(one.exception(), GaveUp) for one in sent)

    async def room(self) -> None:
        """Wait until there is room for more URLs that wait for Redis."""
        while len(self._sent) >= _SENT_MAX:
            self._some_room.clear()
            await self._some_room.wait()

    def _unknown(self, entries: Sequence[Entry], mode: str) -> list[int]:
        self._count("frontier/discovered", len(entries))
        known = self._known.among([entry.id for entry in entries]) if mode != "force" else ()
        unknown = [i for i, entry in enumerate(entries) if entry.id not in known]
        self._count("frontier/cached", len(entries) - len(unknown))
        return unknown

    def _send(
        self, ids: Sequence[int], entries: Sequence[Entry | bytes], mode: str
    ) -> asyncio.Future[Added]:
        future = self._outbox.add(entries, mode=mode)
        future.add_done_callback(lambda done: self._remember(ids, done))
        return future

    def _remember(self, ids: Sequence[int], future: asyncio.Future[Added]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        added = future.result()
        # Only now: a URL that Redis does not have must not count as known.
        if not added.has_all:
            ids = [id_ for index, id_ in enumerate(ids) if added.is_taken(index)]
        self._known.update(ids)
        self._count("frontier/added", added.new)


# Fingerprints in a row of the cache: one bit each is a byte, and eight of these are one number.
_ROW = 8
# Fingerprints that wait to be written to the table; and its rows for each that is written at once.
_WAITING_MAX = 10_000
_ROWS_FOR_ONE = 64


class SeenCache:
    """Set of the fingerprints that came last, about `size` of them, in 8 bytes each.

    A fingerprint belongs to one row of a table, and takes the place of the oldest one there. They
    are written and looked up many at a time: a call of numpy takes as long for one as for a page.
    """

    def __init__(self, size: int) -> None:
        self._rows = max(2, size // _ROW)
        self._table = np.empty((self._rows, _ROW), np.uint64)
        # The place in each row that is taken next.
        self._next = np.zeros(self._rows, np.uint8)
        self._waiting: list[int] = []
        self.clear()

    def __contains__(self, fingerprint: int) -> bool:
        return bool(self.among([fingerprint]))

    def among(self, fingerprints: Sequence[int]) -> set[int]:
        """Return those that are remembered, for all links of a page at once."""
        if self._waiting:
            self._write()
        asked = np.array(fingerprints, np.uint64)
        is_equal = self._table[asked % self._rows] == asked[:, None]
        # Eight bytes, one of which is 1, are a number above 0.
        return set(asked[is_equal.view(np.uint64)[:, 0] > 0].tolist())

    def update(self, fingerprints: Iterable[int]) -> None:
        """Remember URLs that Redis has acknowledged."""
        self._waiting.extend(fingerprints)
        if len(self._waiting) >= _WAITING_MAX:
            self._write()

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()
        # A free place has a number that belongs to the next row.
        self._table[:] = np.arange(1, self._rows + 1, dtype=np.uint64)[:, None]

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, however many fingerprints it has."""
        return self._table.nbytes + self._next.nbytes

    def _write(self) -> None:
        waiting = np.array(self._waiting, np.uint64)
        self._waiting.clear()
        # Of two in the same row one would be lost: that is rare among so few.
        some = max(1, self._rows // _ROWS_FOR_ONE)
        for start in range(0, len(waiting), some):
            found = waiting[start : start + some]
            rows = found % self._rows
            places = self._next[rows]
            self._table[rows, places] = found
            self._next[rows] = (places + 1) % _ROW
