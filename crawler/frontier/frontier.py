"""The verbs of a crawl: one method for each Lua script, whose contract is in lua/<verb>.lua.

An instance registers, beats, adds and claims URLs, and settles its leases. Every verb may be
repeated after a lost reply. Methods send URLs and leases to their shards, in as few calls as the
scripts allow. Shards are called at the same time, so that one that hangs does not delay the others.

A script is made of files in lua/: the prelude shard.lua, the parts that its verb needs, and the
verb's own file.
"""

import asyncio
import hashlib
import json
import struct
import uuid
from collections import defaultdict
from collections.abc import Collection, Container, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import chain
from time import monotonic, time
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import xxhash
from redis.crc import key_slot
from redis.exceptions import NoScriptError, ResponseError

from crawler.errors import DataLost
from crawler.frontier import keys, meta
from crawler.frontier.entry import QUEUES, DamagedEntry, Entry, decode, encode, host_in
from crawler.frontier.records import (
    RETRY,
    Added,
    Beat,
    Claim,
    Lease,
    NoVisit,
    OwnerDead,
    Sizes,
    Visit,
)
from crawler.frontier.tuning import Tuning, TypeBudgets, turns, type_turns
from crawler.servers.redis import checks
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway, translated

# URLs that one call of add takes, leases that one call settles, and hosts that one call counts.
ADD_MAX = 1000
SETTLE_MAX = 1000
# URLs of a store that one call takes.
RESTORE_MAX = 500
HOSTS_MAX = 500
# URLs whose links one call counts: Lua passes so many arguments to a command at the most.
LINKED_MAX = 500
# URLs that one call notes as wanted sooner; and how many of each kind a shard notes, some 100 bytes
# each, until the next sweep.
WISHES_MAX = 500
WANTED_MAX = 20_000
# Part of a budget of recrawls for sitemaps and for pages that are brought forward, so that they do
# not wait behind all others. What is left of it is not spent.
EXPRESS_SHARE = 1 / 16
# Pages wait for so many rounds at the most, each of which is a visit to every page: as the plan of
# a budget has it.
_LONGEST_ROUNDS = 8
# They are too late after a multiple of that: the first intervals of pages vary by half.
_TOO_LATE = 2
# On a cluster, this part of a budget is shared equally: a shard without pages may soon have some.
_EQUAL_SHARE = 0.1
# A URL is buried when so many owners died while they fetched it. Not fewer: a slow page is in
# flight by chance when processes are killed from outside again and again.
POISON = 5
# Before a letter that is no entry: scripts find no front queue in it. JSON may begin with blanks.
_NO_ENTRY = b"\n\n\n"
# A server syncs its log every second.
_SYNC_MAX_MS = 2000


class Call(NamedTuple):
    """Call of a verb on a shard."""

    verb: str
    shard: int
    args: tuple[Any, ...]


class Frontier:
    """Frontier of one crawl, as one instance works on it."""

    def __init__(
        self,
        redis: Client,
        crawl: str,
        *,
        shards: int = 1,
        tuning: Tuning | None = None,
        spider: str = "",
    ) -> None:
        self.crawl = crawl
        self.shards = shards
        # Several masters may be away or lose data independently, and a script reaches only one.
        self.has_one_server = has_one_server(redis)
        self.tuning = tuning or Tuning()
        # Name of this instance. It changes when the instance was declared dead.
        self.owner = ""
        # By shard, when this instance registered: epoch, time in ms, and leaps of the clock so far.
        self.epochs: list[int] = []
        self.opened_ms: list[int] = []
        self.leaps: list[int] = []
        # True while Redis is nearly full: new URLs of low priority are refused then.
        self.nearly_full = False
        self._recrawls_per_s: float | None = None
        self._longest_recrawl_ms = 0
        self._recrawl_shares: Sequence[float] = ()
        self._redis = redis
        self.scripts = Scripts(redis, crawl, shards, self.tuning.url_seen.name)
        self._seen_argument = self.tuning.url_seen.argument
        # Id of the crawl, and when this process met it first, in unix ms.
        self._id = ""
        self._met_ms = 0
        # Only this spider may work on the crawl; empty in tests and tools, which have none.
        self._spider = spider
        # By which the server knows repeated forced adds of this process; it never changes.
        self._adder = uuid.uuid4().hex
        self.set_queues(
            *(self.tuning.weights, self.tuning.load_weights, self.tuning.load_threshold),
            self.tuning.type_budgets,
        )

    def set_queues(
        self,
        weights: Sequence[int],
        load_weights: Sequence[int],
        load_threshold: int,
        budgets: TypeBudgets,
    ) -> None:
        """Set the shares and budgets of the queues, see Tuning. They may change at any time."""
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._type_order = type_turns([budget.share for budget in budgets])
        # A shard counts its own URLs.
        self._load_threshold = -(-load_threshold // self.shards)
        # On one server it counts those of the other shards too.
        parts = 1 if self.has_one_server else self.shards
        limits = [(budget.max_per_host, -(-budget.max // parts)) for budget in budgets]
        self._budgets = " ".join(map(str, chain(*limits)))
        self._has_total_budget = any(budget.max for budget in budgets)

    # --- the instance --------------------------------------------------------------------------

    async def open(self, about: Mapping[str, Any] | None = None) -> int:
        """Check that this program may work on the crawl, and register; return the epoch."""
        await self.create()
        return await self.register(about)

    async def create(self) -> None:
        """Create the crawl if it does not exist, or check that this program may work on it.

        Raises DataLost if it is not the crawl that this process has met before.
        """
        found = await meta.create_or_check(
            *(self._redis, self.crawl, self.scripts.tags, self.tuning.url_seen, self._spider),
            crawl_id=self._id or meta.new_id(time()),
        )
        if not self._id:
            self._met_ms = round(time() * 1000)
        elif found.id != self._id and (begun_ms := meta.begun_ms(found.id)) < self._met_ms:
            # A later one is this crawl, which another process began after all of it was lost.
            begun = datetime.fromtimestamp(begun_ms / 1000, UTC)
            raise DataLost(
                f"Redis has another crawl of the name {self.crawl!r} now, begun on "
                f"{begun:%Y-%m-%d %H:%M:%S} UTC: REDIS_URL, a proxy or a failover leads to another "
                "server, or it was filled from a backup of that one. This run ends; start it "
                "again when Redis has its own crawl."
            )
        self._id = found.id
        self._seen_argument = found.url_seen.argument

    async def allow_visits(self) -> None:
        """Keep programs out that do not know visits; ServerAway while some work on the crawl."""
        tag = self.scripts.tags[0]
        await meta.keep_older_programs_out(self._redis, self.crawl, tag, meta.VISITS_MODEL)

    async def register(self, about: Mapping[str, Any] | None = None) -> int:
        """Register under a new name; an instance that was declared dead must not use its old one.

        Returns the sum of the shards' epochs.
        """
        self.owner = uuid.uuid4().hex[:16]
        args = (self.owner, 0, 1, json.dumps(about or {}), self.tuning.grace_ms, b"", b"", b"")
        answers = await self.scripts.run_on(None, "beat", *args)
        self.epochs = [answer[1] for answer in answers]
        self.opened_ms = [answer[3] for answer in answers]
        self.leaps = [answer[5] for answer in answers]
        return sum(self.epochs)

    async def beat(
        self,
        shards: Collection[int],
        held: Iterable[Lease | Visit] = (),
        about: Mapping[str, Any] | None = None,
        *,
        unsuspected: Container[tuple[int, bytes]] = (),
        new: Container[int] = (),
        silent_ms: Mapping[int, int] = MappingProxyType({}),
        epochs: Sequence[int] = (),
        now_ms: int = 0,
    ) -> dict[int, Beat | BaseException]:
        """Report to these shards that this instance is alive, and which leases and visits it holds.

        Visits that it does not name are ended: the reply to them was lost.

        Returns the answer or the error of each shard. `unsuspected` are keys of leases that are not
        to blame if this instance dies; `new` are shards to register with; `silent_ms` is the time
        since each shard answered last, by this process's clock; `epochs` are the ones it knows.
        """
        tokens: dict[int, list[bytes]] = defaultdict(list)
        for lease in held:
            mark = b"?" if lease.key in unsuspected else b""
            tokens[lease.shard].append(lease.token + mark)
        description = json.dumps(about or {})

        async def beat_one(shard: int) -> Beat:
            alive, epoch, strays, *times = await self.scripts.run(
                "beat",
                shard,
                self.owner,
                now_ms,
                int(shard in new),
                description,
                self.tuning.grace_ms,
                b" ".join(tokens[shard]),
                silent_ms.get(shard, ""),
                epochs[shard] if epochs else "",
            )
            return Beat(bool(alive), epoch, await self._read_leases(shard, strays), *times)

        return dict(zip(shards, await gather_outcomes(map(beat_one, shards)), strict=True))

    async def reassert(
        self, flights: Iterable[Lease | Visit], delays_ms: Mapping[str, int], *, now_ms: int = 0
    ) -> None:
        """Repeat after a restart of the server which hosts are in flight, and which must wait."""
        by_shard: dict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for flight in flights:
            by_shard[flight.shard][0].extend((flight.host, flight.token))
        for host, delay_ms in delays_ms.items():
            by_shard[shard_of(host, self.shards)][1].extend((host, delay_ms))
        args = (now_ms, self.tuning.parallelism, self.owner)
        await gather(
            self.scripts.run("reassert", shard, *args, len(flying) // 2, *flying, *waiting)
            for shard, (flying, waiting) in by_shard.items()
        )

    async def leave(self) -> None:
        """Sign off. Leases that are still held come back when this instance is found dead."""
        await self.scripts.run_on(None, "leave", self.owner)

    async def is_asked_to_stop(self) -> bool:
        """Tell whether people asked this instance to stop, see CrawlControl.stop."""
        return bool(await self._redis.exists(keys.stop(self.crawl, self.owner)))

    async def conclude(
        self, *, silence_ms: int, first_ms: int = 0, now_ms: int = 0
    ) -> tuple[int, int]:
        """Ask after `leave` whether this instance was the last; see conclude.lua for the answer."""
        args = (self.owner, now_ms, silence_ms, first_ms)
        verdict, now = await self.scripts.run("conclude", 0, *args)
        return verdict, now

    async def sync(self) -> None:
        """Return when a single server has all that it acknowledged on its disk.

        Servers before Redis 7.2 cannot say, and a cluster has several logs: in both cases this
        returns at once.
        """
        if not self.has_one_server:
            return
        pipeline = self._redis.pipeline(transaction=False)
        # WAITAOF waits for writes of its own connection, so there must be one.
        pipeline.set(checks.write_probe(), "", px=1)
        pipeline.execute_command("WAITAOF", 1, 0, _SYNC_MAX_MS)
        with suppress(ResponseError):
            await pipeline.execute()

    async def live(self) -> list[str]:
        """Return the names of the live instances."""
        found = await self._redis.zrangebyscore(keys.owners(self.scripts.tags[0]), "(0", "+inf")
        return [name.decode() for name in found]

    # --- URLs in -------------------------------------------------------------------------------

    async def add(
        self,
        entries: Sequence[Entry | bytes],
        *,
        mode: str = "new",
        request_id: str = "",
        shard: int | None = None,
    ) -> Added:
        """Put unseen URLs into their front queues; some may be encoded already.

        Mode "force" adds known URLs too, for requests with dont_filter; "all" refuses none, for
        seeds and redirects. A forced add that is repeated with its request id adds nothing twice.
        `shard` is given if all URLs belong to it.
        """
        if mode == "force" and not request_id:
            request_id = uuid.uuid4().hex
        encoded = [entry if isinstance(entry, bytes) else encode(entry) for entry in entries]
        places: Mapping[int, Sequence[int]] = {shard or 0: range(len(encoded))}
        if self.shards > 1 and shard is None:
            places = places_by_shard(encoded, self.shards)
        parts = [
            (shard, number, found[start : start + ADD_MAX])
            for shard, found in places.items()
            for number, start in enumerate(range(0, len(found), ADD_MAX))
        ]
        answers = await self.scripts.run_all(
            self._add(shard, [encoded[place] for place in part], mode, (request_id, number))
            for shard, number, part in parts
        )
        for answer, (_, _, part) in zip(answers, parts, strict=True):
            if len(answer) != len(part):
                raise ValueError(f"{len(answer)} answers to {len(part)} URLs: {answer[:50]!r}")
        return Added.merged([part for *_, part in parts], [answer.decode() for answer in answers])

    def _add(self, shard: int, data: Sequence[bytes], mode: str, forced: tuple[str, int]) -> Call:
        full_at = 1 if self.nearly_full else self.tuning.full_at
        lengths = struct.pack(f">{len(data)}I", *map(len, data))
        args = (b"".join(data), lengths, mode, full_at, self._budgets, self._adder, *forced)
        beside = self._beside(shard) if full_at or self._has_total_budget else ()
        return Call("add", shard, (*args, *beside, self._seen_argument))

    async def restore(
        self, crawled: Sequence[tuple[Entry, bool, int | None]], *, now_ms: int = 0
    ) -> list[bool]:
        """Take URLs that a store has into the frontier as crawled; tell which were not known.

        Each comes with whether it gave a page, and the milliseconds until its next visit, if there
        is one. A repeated call changes nothing.
        """
        parts = [
            (shard, places[start : start + RESTORE_MAX])
            for shard, places in places_by_shard(
                [each for each, _, _ in crawled], self.shards
            ).items()
            for start in range(0, len(places), RESTORE_MAX)
        ]

        def call(shard: int, part: Sequence[int]) -> Call:
            args: list[Any] = []
            for entry, page, wait_ms in (crawled[place] for place in part):
                args += (encode(entry), int(page), "" if wait_ms is None else wait_ms)
            return Call("restore", shard, (now_ms, *args, self._seen_argument))

        answers = await self.scripts.run_all(call(shard, part) for shard, part in parts)
        found = [False] * len(crawled)
        for answer, (_, part) in zip(answers, parts, strict=True):
            for place, char in zip(part, answer.decode(), strict=True):
                found[place] = char == "1"
        return found

    async def reject(self, letters: Sequence[bytes], reason: str) -> None:
        """Put what is no URL of the crawl into the dead-letter queue.

        A repeated call writes the letters twice.
        """
        marked = [_NO_ENTRY + letter for letter in letters]
        await self.scripts.run("reject", 0, 0, self.tuning.dead_max, reason, *marked)

    async def unseen(self, entries: Sequence[Entry]) -> list[bool]:
        """Tell for each URL whether it was never seen. One round trip, as for `add`."""
        parts = [
            (shard, places[start : start + ADD_MAX])
            for shard, places in places_by_shard(entries, self.shards).items()
            for start in range(0, len(places), ADD_MAX)
        ]
        answers = await self.scripts.run_all(
            self._unseen(shard, [entries[place].id for place in part]) for shard, part in parts
        )
        found = [False] * len(entries)
        for (_, part), answer in zip(parts, answers, strict=True):
            for place, character in zip(part, answer, strict=True):
                found[place] = character == ord("1")
        return found

    def _unseen(self, shard: int, ids: Sequence[int]) -> Call:
        return Call("unseen", shard, (_packed(ids), self._seen_argument))

    async def promote(
        self, limit: int = 1000, *, shards: Iterable[int] | None = None, now_ms: int = 0
    ) -> int:
        """Move delayed URLs that are due to their front queues; return how many."""
        chosen = range(self.shards) if shards is None else shards
        return sum(
            await self.scripts.run_all(
                Call("promote", shard, (now_ms, limit, self.tuning.dead_max, *self._turns(shard)))
                for shard in chosen
            )
        )

    def set_recrawl_budget(
        self, per_s: float | None, pages: Sequence[int] = (), *, longest_s: float = 0
    ) -> None:
        """Let no more recrawls be due in the fleet than so many a second; 0: as many as are due.

        None: there are no recrawls, and those that wait are left as they are. When the budget is
        changed, those are due that wait for more than twice as long as a page has to in it, which
        is `longest_s` if there are few pages.

        Shards on one server share the turns. On a cluster each has its own part of the budget, by
        the number of `pages` that each shard visits again; by default the same.
        """
        self._recrawls_per_s = per_s
        self._longest_recrawl_ms = round(_TOO_LATE * longest_s * 1000)
        equal, total = 1 / self.shards, sum(pages)
        self._recrawl_shares = [
            _EQUAL_SHARE * equal + (1 - _EQUAL_SHARE) * number / total for number in pages if total
        ] or [equal] * self.shards

    def _turns(self, shard: int) -> tuple[float, float, str, str, int, float]:
        """Return what promote.lua has to know of the budget of recrawls."""
        tag = self.scripts.tags[0 if self.has_one_server else shard]
        if not self._recrawls_per_s:
            budget = "" if self._recrawls_per_s is None else "0"
            return 0, 0, tag, budget, self._longest_recrawl_ms, 0
        per_ms, parts = self._recrawls_per_s / 1000, self.shards
        if not self.has_one_server:
            per_ms, parts = per_ms * self._recrawl_shares[shard], 1
        return (
            1 / (per_ms * (1 - EXPRESS_SHARE)),
            1 / (per_ms * EXPRESS_SHARE),
            tag,
            str(self._recrawls_per_s),
            self._longest_recrawl_ms,
            # A shard has its part of the pages on a server.
            _TOO_LATE * _LONGEST_ROUNDS * parts / per_ms,
        )

    async def lift(self, wanted: Iterable[tuple[int, str, int]]) -> int:
        """Move URLs that wait to better queues, with the next sweep (sweep.py).

        Each is given by its id, its host (`Entry.host`), and the queue in which it is to wait, if
        it waits in a worse one. A URL that does not wait is left alone: so the order of calls does
        not matter, and they may be repeated. Returns how many were noted, of those for which there
        was room.
        """
        return await self._wish((id_, host, queue, host) for id_, host, queue in wanted)

    async def bring_forward(self, urls: Iterable[tuple[int, str, int]]) -> int:
        """Let recrawls be due now, with the next sweep, as when a sitemap says that pages changed.

        Each URL is given by its id, its host (`Entry.host`), and when it changed, in unix seconds:
        if its last visit was later, it stays; 0: it never does. It goes to the front queue of its
        entry, so its host's delay is kept. A URL that does not wait for a recrawl is left alone:
        one that is unknown, waits for its first visit, is being fetched, or is delayed by a retry.
        Returns how many were noted, of those for which there was room. Sweeps read all that is
        delayed, up to 10,000 records a second: give only those that have a reason.
        """
        return await self._wish((id_, host, 0, changed_s) for id_, host, changed_s in urls)

    async def _wish(self, wanted: Iterable[tuple[int, str, int, str | int]]) -> int:
        by_shard: dict[int, list[tuple[bytes, int, str | int]]] = defaultdict(list)
        for id_, host, queue, more in wanted:
            by_shard[shard_of(host, self.shards)].append((id_.to_bytes(8), queue, more))
        calls = [
            Call("wish", shard, (WANTED_MAX, *chain(*part[start : start + WISHES_MAX])))
            for shard, part in by_shard.items()
            for start in range(0, len(part), WISHES_MAX)
        ]
        return sum(await self.scripts.run_all(calls))

    # --- URLs out ------------------------------------------------------------------------------

    async def claim(self, n: int, request_id: str, *, shard: int = 0, **limits: Any) -> Claim:
        """Lease up to `n` URLs of a shard. The same request id again returns the same leases.

        `limits` are those of `claim_from`.
        """
        return (await self.claim_from({shard: (n, request_id)}, **limits))[shard]

    async def claim_from(
        self,
        wanted: Mapping[int, tuple[int, str]],
        *,
        max_pages: int = 0,
        host_pages: int = 0,
        per_minute: float = 0,
        unused: Mapping[int, int] = MappingProxyType({}),
        now_ms: int = 0,
    ) -> dict[int, Claim]:
        """Lease URLs of several shards: so many of each, under its request id.

        `per_minute` is the rate of the whole crawl, 0 for no limit; on a cluster each shard has an
        equal part of it. `unused` are leases of each shard that ended without a fetch since the
        last claim.
        """
        tuning = self.tuning
        parts = 1 if self.has_one_server else self.shards
        interval_ms = 60_000 * parts / per_minute if per_minute else 0
        calls = [
            Call(
                "claim",
                shard,
                (
                    self.owner,
                    request_id,
                    n,
                    now_ms,
                    self._order,
                    self._load_order,
                    self._load_threshold,
                    self._type_order,
                    tuning.parallelism,
                    max_pages,
                    host_pages,
                    tuning.grace_ms,
                    tuning.dead_max,
                    tuning.spacing_ms,
                    interval_ms,
                    self.scripts.tags[0 if self.has_one_server else shard],
                    unused.get(shard, 0),
                    *(self._beside(shard) if max_pages else ()),
                ),
            )
            for shard, (n, request_id) in wanted.items()
        ]
        found = {}
        for shard, answer in zip(wanted, await self.scripts.run_all(calls), strict=True):
            state, leases, wait, delayed, more = answer
            if state == b"dead":
                raise OwnerDead(self.owner)
            found[shard] = Claim(
                leases=await self._read_leases(shard, leases),
                state=state.decode(),
                wait_ms=None if int(wait) < 0 else int(wait),
                delayed_ms=None if int(delayed) < 0 else int(delayed),
                more=bool(more),
            )
        return found

    def _beside(self, shard: int) -> Sequence[str]:
        """Return the other shards that a script on this one can count: those on its server."""
        if not self.has_one_server:
            return ()
        return [tag for number, tag in enumerate(self.scripts.tags) if number != shard]

    async def release(
        self, fetches: Sequence[tuple[Lease | Visit, int]], *, usual: bool = True, now_ms: int = 0
    ) -> None:
        """End fetches and free their hosts' slots; each host waits for so many milliseconds.

        Only a `usual` delay is remembered as the host's own.
        """
        items = ((fetch, (fetch.host, fetch.token, delay)) for fetch, delay in fetches)
        await self._settle("release", (now_ms, int(usual)), items)

    async def visit(self, host: str, *, now_ms: int = 0) -> Visit | NoVisit:
        """Take the slot of a host without a URL of it, if it is free and the host's clock is due.

        Asked again before the visit has ended, as after a lost reply, this returns the same visit.
        """
        shard, tuning = shard_of(host, self.shards), self.tuning
        args = (self.owner, host, now_ms, tuning.parallelism, tuning.spacing_ms, tuning.grace_ms)
        state, token, wait_ms = await self.scripts.run("visit", shard, *args)
        if state == b"dead":
            raise OwnerDead(self.owner)
        if state == b"ok":
            return Visit(shard, token, host)
        return NoVisit(state.decode(), None if int(wait_ms) < 0 else int(wait_ms))

    async def visited(
        self, visits: Sequence[tuple[Visit, int]], *, usual: bool = True, now_ms: int = 0
    ) -> None:
        """End visits, as `release` ends fetches."""
        items = ((visit, (visit.host, visit.token, delay)) for visit, delay in visits)
        await self._settle("visited", (self.owner, now_ms, int(usual)), items)

    async def done(self, leases: Sequence[tuple[Lease, bool]], *, guarded: bool = False) -> None:
        """Settle leases for good; the flag says whether the URL gave a page.

        Guarded: leases claimed before a restart of the server are not settled, since the server may
        have lost their links.
        """
        items = ((lease, (lease.token, int(page))) for lease, page in leases)
        await self._settle("done", (self.owner, self._grace(guarded)), items)

    async def retry(
        self,
        retries: Sequence[tuple[Lease, int, Entry]],
        *,
        kind: str = RETRY,
        guarded: bool = False,
        now_ms: int = 0,
    ) -> None:
        """Delay leased URLs by so many milliseconds; they come back as the given entry.

        A retry still has to be crawled. A recrawl was crawled, and may be guarded as in done().
        """
        items = ((lease, (lease.token, wait, encode(entry))) for lease, wait, entry in retries)
        await self._settle("retry", (self.owner, now_ms, kind, self._grace(guarded)), items)

    async def bury(self, leases: Sequence[tuple[Lease, str]], *, now_ms: int = 0) -> None:
        """Move leased URLs to the dead-letter queue, each with its reason."""
        items = ((lease, (lease.token, reason)) for lease, reason in leases)
        await self._settle("bury", (self.owner, now_ms, self.tuning.dead_max), items)

    async def hand_back(self, leases: Sequence[tuple[Lease, int]], *, now_ms: int = 0) -> None:
        """Give leases back without a fetch; their hosts wait for so many milliseconds."""
        items = ((lease, (lease.token, delay_ms)) for lease, delay_ms in leases)
        await self._settle("hand_back", (self.owner, now_ms), items)

    async def _settle(
        self,
        verb: str,
        first: tuple[Any, ...],
        items: Iterable[tuple[Lease | Visit, tuple[Any, ...]]],
    ) -> None:
        """Run a verb on leases of any shards: `first` are its arguments before those of leases."""
        by_shard: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for held, args in items:
            by_shard[held.shard].append(args)
        await self.scripts.run_all(
            Call(verb, shard, (*first, *chain(*part[start : start + SETTLE_MAX])))
            for shard, part in by_shard.items()
            for start in range(0, len(part), SETTLE_MAX)
        )

    def _grace(self, guarded: bool) -> int | str:
        return self.tuning.grace_ms if guarded else ""

    async def reclaim(
        self,
        *,
        silence_ms: int,
        delay_ms: int,
        limit: int = 100,
        shards: Iterable[int] | None = None,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances that were silent for so long; return how many."""
        args = (now_ms, silence_ms, limit, delay_ms, self.tuning.dead_max)
        return sum(await self.scripts.run_on(shards, "reclaim", *args))

    # --- sizes and hosts -----------------------------------------------------------------------

    async def sizes(self, shard: int | None = None) -> Sizes:
        """Count the URLs in each state, in one shard or in all of them."""
        found = await self.sizes_by_shard(None if shard is None else (shard,))
        return sum(found[1:], found[0])

    async def sizes_by_shard(self, shards: Iterable[int] | None = None) -> list[Sizes]:
        """Count the URLs in each state, for each of these shards; None means all of them."""
        parts = await self.scripts.run_on(shards, "sizes")
        return [Sizes(tuple(part[:QUEUES]), *part[QUEUES:]) for part in parts]

    async def is_full(self) -> bool:
        """Return whether URLs of low priority are refused: Redis or the frontier has no room."""
        # On one server each shard counts the URLs of all.
        limit = self.tuning.full_at * (1 if self.has_one_server else self.shards)
        return self.nearly_full or 0 < limit <= (await self.sizes()).waiting

    async def count_hosts(
        self, counts: Mapping[str, tuple[int, int]]
    ) -> dict[str, tuple[int, int]]:
        """Add to the URLs found of each host and its links from other domains; return the sums."""
        by_shard: dict[int, list[str]] = defaultdict(list)
        for host in counts:
            by_shard[shard_of(host, self.shards)].append(host)
        totals: dict[str, tuple[int, int]] = {}
        for shard, hosts in by_shard.items():
            for start in range(0, len(hosts), HOSTS_MAX):
                part = hosts[start : start + HOSTS_MAX]
                args = chain.from_iterable((host, *counts[host]) for host in part)
                sums = iter(await self.scripts.run("tally", shard, *args))
                totals |= zip(part, zip(sums, sums, strict=True), strict=True)
        return totals

    async def count_links(
        self, links: Mapping[int, tuple[str, int]], sketch_bytes: int
    ) -> dict[int, int]:
        """Add to the links from other domains that URLs have; return the sums, 255 at the most.

        URLs are given by id: the host (`Entry.host`), and the number of new links, which may be 0.
        The counts are estimates, see lua/count_links.lua; all of them need `sketch_bytes`.
        """
        by_shard: dict[int, list[int]] = defaultdict(list)
        for id_, (host, _) in links.items():
            by_shard[shard_of(host, self.shards)].append(id_)
        # Two generations of each shard.
        limit = sketch_bytes // (2 * self.shards)
        parts = [
            (shard, ids[start : start + LINKED_MAX])
            for shard, ids in by_shard.items()
            for start in range(0, len(ids), LINKED_MAX)
        ]
        answers = await self.scripts.run_all(
            Call("count_links", shard, (_packed(ids), bytes(links[id_][1] for id_ in ids), limit))
            for shard, ids in parts
        )
        totals: dict[int, int] = {}
        for (_, ids), answer in zip(parts, answers, strict=True):
            totals |= zip(ids, answer, strict=True)
        return totals

    async def links_to(self, id_: int, host: str) -> int:
        """Return the links from other domains that a URL has, 255 at the most; an estimate."""
        shard = shard_of(host, self.shards)
        answer: bytes = await self.scripts.run("count_links", shard, _packed([id_]), b"", 0)
        return answer[0]

    async def upcoming_hosts(
        self, shard: int, *, within_ms: int, most: int, now_ms: int = 0
    ) -> list[str]:
        """Return names of hosts, without ports, that are claimed next by whichever process.

        Each name comes once, and there are at most twice `most` of them.
        """
        names: dict[str, None] = {}
        for data in await self.scripts.run("upcoming", shard, now_ms, within_ms, most):
            # A damaged entry is buried when its turn comes.
            with suppress(DamagedEntry, ValueError):
                names[urlsplit(decode(data).url).hostname or ""] = None
        names.pop("", None)
        return list(names)

    # -------------------------------------------------------------------------------------------

    async def _read_leases(self, shard: int, records: Iterable[bytes]) -> list[Lease]:
        """Decode leases. One whose entry is damaged is buried with its bytes, and stops nothing."""
        leases, now_s = [], monotonic()
        for record in records:
            token, _request, data = record.split(b" ", 2)
            try:
                leases.append(Lease(shard, token, decode(data), now_s))
            except DamagedEntry as error:
                args = (self.owner, 0, self.tuning.dead_max, token, f"damaged: {error}")
                await self.scripts.run("bury", shard, *args)
        return leases


def _packed(ids: Sequence[int]) -> bytes:
    return struct.pack(f">{len(ids)}Q", *ids)


# --- scripts --------------------------------------------------------------------------------------

PRELUDE = "shard"
# Parts between the prelude and a verb's own file; {seen} is the form of URL-seen.
PARTS = {
    "add": ("seen_{seen}",),
    "forget": ("leased", "seen_{seen}"),
    "status": ("leased", "seen_{seen}"),
    "restore": ("seen_{seen}",),
    "unseen": ("seen_{seen}",),
    "claim": ("route",),
    "lift_back": ("lifts",),
    "lift_front": ("lifts",),
    "done": ("trust",),
    "retry": ("trust",),
    "host": ("host_view",),
    "hosts": ("host_view",),
}


@cache
def script(verb: str, seen: str = "intset") -> tuple[str, str]:
    """Return the text of a verb's script and its SHA-1, by which a server knows it."""
    parts = [part.format(seen=seen) for part in PARTS.get(verb, ())]
    text = "\n".join(read_part(name) for name in (PRELUDE, *parts, verb))
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def read_part(name: str) -> str:
    """Return the text of one file of lua/."""
    return files("crawler.frontier").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


def has_one_server(redis: Client) -> bool:
    """Return whether all shards are on one server: it is no cluster."""
    return not hasattr(redis, "get_primaries")


class Scripts:
    """Verbs of one crawl, run on its shards. A server gets a script's text once, then its hash."""

    def __init__(self, redis: Client, crawl: str, shards: int, seen: str = "intset") -> None:
        self.tags = tags(crawl, shards)
        self._redis = redis
        self._has_one_server = has_one_server(redis)
        self._seen = seen

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        """Run a verb on one shard."""
        text, sha = script(verb, self._seen)
        try:
            try:
                return await self._redis.evalsha(sha, 1, self.tags[shard], *args)
            except NoScriptError:
                # The server restarted or failed over. EVAL also stores the script.
                return await self._redis.eval(text, 1, self.tags[shard], *args)
        except ResponseError as error:
            raise translated(error) from error

    async def run_on(self, shards: Iterable[int] | None, verb: str, *args: Any) -> list[Any]:
        """Run a verb on several shards at the same time; None means all of them."""
        chosen = range(len(self.tags)) if shards is None else shards
        return await self.run_all(Call(verb, shard, args) for shard in chosen)

    async def _run_by_shard(self, calls: Sequence[Call]) -> list[Any]:
        places: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(calls):
            places[call.shard].append(place)
        answers: list[Any] = [None] * len(calls)

        async def run_in_order(shard: int) -> None:
            for place in places[shard]:
                verb, _, args = calls[place]
                answers[place] = await self.run(verb, shard, *args)

        await gather(run_in_order(shard) for shard in places)
        return answers

    async def run_all(self, calls: Iterable[Call]) -> list[Any]:
        """Run verbs on several shards at the same time, those of a shard in their order.

        Errors are raised when all have ended.
        """
        chosen = list(calls)
        if len(chosen) <= 1 or not self._has_one_server:
            return await self._run_by_shard(chosen)
        pipeline = self._redis.pipeline(transaction=False)
        for verb, shard, args in chosen:
            pipeline.evalsha(script(verb, self._seen)[1], 1, self.tags[shard], *args)
        answers = await pipeline.execute(raise_on_error=False)
        for place, (verb, shard, args) in enumerate(chosen):
            if isinstance(answers[place], NoScriptError):
                answers[place] = await self.run(verb, shard, *args)
            elif isinstance(answers[place], ResponseError):
                answers[place] = translated(answers[place])
        return raise_errors(answers)


# --- shards ---------------------------------------------------------------------------------------

T = TypeVar("T")

# Slots of a Redis Cluster, over which the shards are spread.
SLOTS = 16384


@cache
def tags(crawl: str, shards: int) -> tuple[str, ...]:
    """Return the hash tags of a crawl's shards, each of which lies in its own part of the slots."""
    return tuple(_tag(crawl, shard, shards) for shard in range(shards))


def _tag(crawl: str, shard: int, shards: int) -> str:
    low, high = shard * SLOTS // shards, (shard + 1) * SLOTS // shards
    attempt = 0
    while True:
        name = f"{{{crawl}:{shard}}}" if attempt == 0 else f"{{{crawl}:{shard}.{attempt}}}"
        if low <= key_slot(name.encode()) < high:
            return name
        attempt += 1


def shard_of(host: str, shards: int) -> int:
    """Return the shard of a host, which never changes during a crawl."""
    return xxhash.xxh3_64_intdigest(host.encode()) % shards if shards > 1 else 0


def places_by_shard(entries: Iterable[Entry | bytes], shards: int) -> dict[int, list[int]]:
    """Group entries, some of them encoded, by shard: the indexes of those that belong to each."""
    found: dict[int, list[int]] = defaultdict(list)
    digest = xxhash.xxh3_64_intdigest
    # As shard_of(), but for all links of a page: 0.5 µs each.
    for place, entry in enumerate(entries):
        host = host_in(entry) if isinstance(entry, bytes) else entry.host.encode()
        found[digest(host) % shards].append(place)
    return found


async def gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await calls to several shards and return their answers, or raise when all have ended."""
    return raise_errors(await gather_outcomes(calls))


async def gather_outcomes(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """Await calls to several shards and return the answer or the error of each."""
    coming = list(calls)
    if len(coming) == 1:
        # The usual case: no task is needed.
        try:
            return [await coming[0]]
        except Exception as error:  # noqa: BLE001 - as gather() does
            return [error]
    return await asyncio.gather(*coming, return_exceptions=True)


def raise_errors(outcomes: Sequence[T | BaseException]) -> list[T]:
    """Return the answers, or raise the first error.

    A RedisAway comes before any other error: the caller repeats everything then, and another error
    is raised again by its own call.
    """
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failed:
        raise next((error for error in failed if isinstance(error, RedisAway)), failed[0])
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def shard_time_ms(redis: Client, tag: str) -> int:
    """Return the server's time, less the leaps that the shard did not follow (lua/shard.lua)."""
    seconds, micros = await redis.time()
    skew_ms = await redis.hget(keys.stats(tag), "skew_ms")
    return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)
