"""The verbs of a crawl, one method for each Lua script; lua/ has their contracts.

An instance registers, beats, and repeats what a server forgot. URLs are sent to their shards, as
many in one call as the script takes.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from time import monotonic
from types import MappingProxyType
from typing import Any

from redis.exceptions import ResponseError

from crawler.frontier import keys, meta
from crawler.frontier.entry import DamagedEntry, Entry, decode, encode, host_in
from crawler.frontier.records import RETRY, Added, Beat, Claim, Lease, OwnerDead, Sizes
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import each_shard, outcomes, raised_at_the_end, shard_of, tags
from crawler.frontier.tuning import Tuning, turns
from crawler.servers.redis import checks
from crawler.servers.redis.connection import Client

# A server syncs its log every second.
_SYNC_MAX_MS = 2000


class Instance:
    """The part of a frontier that is about its owner."""

    def __init__(
        self, redis: Client, crawl: str, shards: int, tuning: Tuning, spider: str = ""
    ) -> None:
        self.crawl = crawl
        self.shards = shards
        self.tuning = tuning
        self.owner = ""
        # The only one that may work on the crawl; empty for whoever has no spider, as tests.
        self._spider = spider
        # Of each shard, when this instance registered: its epoch, its time in ms, and how often its
        # clock had leapt.
        self.epochs: list[int] = []
        self.opened_ms: list[int] = []
        self.leaps: list[int] = []
        self._redis = redis
        self._scripts = Scripts(redis, tuning.url_seen.name)
        self._seen_argument = tuning.url_seen.argument
        self._tags = tags(crawl, shards)

    async def open(self, about: Mapping[str, Any] | None = None) -> int:
        """Check that this program may work on the crawl, and register; returns the epoch."""
        await self.create()
        return await self.register(about)

    async def create(self) -> None:
        """Create the crawl if it is not there, or check that this program may work on it."""
        found = await meta.create_or_check(
            self._redis, self.crawl, self.shards, self.tuning.url_seen, self._spider
        )
        self._seen_argument = found.seen_argument

    async def register(self, about: Mapping[str, Any] | None = None, *, name: str = "") -> int:
        """Take a new name; an instance that was declared dead must not use its old one."""
        self.owner = name or uuid.uuid4().hex[:16]
        args = (self.owner, 0, 1, json.dumps(about or {}), self.tuning.grace_ms, b"", b"", b"")
        answers = await self._on_all("beat", *args)
        self.epochs = [answer[1] for answer in answers]
        self.opened_ms = [answer[3] for answer in answers]
        self.leaps = [answer[5] for answer in answers]
        return sum(self.epochs)

    async def beat(
        self,
        held: Iterable[Lease] = (),
        about: Mapping[str, Any] | None = None,
        *,
        unsuspected: Container[tuple[int, bytes]] = (),
        now_ms: int = 0,
    ) -> tuple[int, list[Lease]]:
        """Say that this instance is alive and what it holds, and what of it nobody fetched yet.

        Returns the epoch and the leases that Redis knows and the instance does not, as after a lost
        reply; raises OwnerDead when it was declared dead. All shards hear of it that can.
        """
        shards = range(self.shards)
        found = await self.beat_each(shards, held, about, unsuspected=unsuspected, now_ms=now_ms)
        beats = raised_at_the_end(list(found.values()))
        if not all(beat.alive for beat in beats):
            raise OwnerDead(self.owner)
        return sum(beat.epoch for beat in beats), [lease for b in beats for lease in b.strays]

    async def beat_each(
        self,
        shards: Collection[int],
        held: Iterable[Lease] = (),
        about: Mapping[str, Any] | None = None,
        *,
        unsuspected: Container[tuple[int, bytes]] = (),
        new: Container[int] = (),
        silent_ms: Mapping[int, int] = MappingProxyType({}),
        epochs: Sequence[int] = (),
        now_ms: int = 0,
    ) -> dict[int, Beat | BaseException]:
        """Tell it to these shards only; what each of them said. Registers where it is new.

        `silent_ms` is the time since each shard answered last, by this process's clock; `epochs`
        are those that it knows.
        """
        named: dict[int, list[bytes]] = defaultdict(list)
        for lease in held:
            mark = b"?" if lease.key in unsuspected else b""
            named[lease.shard].append(lease.token + mark)
        told = json.dumps(about or {})

        async def beat(shard: int) -> Beat:
            alive, epoch, strays, *times = await self._run(
                "beat",
                self._tags[shard],
                self.owner,
                now_ms,
                int(shard in new),
                told,
                self.tuning.grace_ms,
                b" ".join(named[shard]),
                silent_ms.get(shard, ""),
                epochs[shard] if epochs else "",
            )
            return Beat(bool(alive), epoch, await self._leases(shard, strays), *times)

        found = await outcomes(partial(beat, shard) for shard in shards)
        return dict(zip(shards, found, strict=True))

    async def reassert(
        self, flights: Iterable[Lease], rests: Mapping[str, int], *, now_ms: int = 0
    ) -> None:
        """After a restart of the server: repeat which hosts are in flight, and which rest."""
        per_shard: dict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for lease in flights:
            per_shard[lease.shard][0].extend((lease.entry.host, lease.token))
        for host, rest_ms in rests.items():
            per_shard[shard_of(host, self.shards)][1].extend((host, rest_ms))
        args = (now_ms, self.tuning.parallelism, self.owner)
        calls = (
            (self._tags[shard], (*args, len(in_flight) // 2, *in_flight, *resting))
            for shard, (in_flight, resting) in per_shard.items()
        )
        await self._run_each("reassert", calls)

    async def leave(self) -> None:
        """Sign off. Leases that are still held come back when this instance is found dead."""
        await self._on_all("leave", self.owner)

    async def sync(self) -> None:
        """Return when a single server has its log of all that it acknowledged on its disk.

        Servers before Redis 7.2 cannot tell, and a cluster has several logs: there it returns at
        once.
        """
        if self.shards > 1:
            return
        pipeline = self._redis.pipeline(transaction=False)
        # It waits for writes of its own connection, so there must be one.
        pipeline.set(checks.write_probe(), "", px=1)
        pipeline.execute_command("WAITAOF", 1, 0, _SYNC_MAX_MS)
        with suppress(ResponseError):
            await pipeline.execute()

    async def live(self) -> list[str]:
        """Names of the instances that beat."""
        found = await self._redis.zrangebyscore(keys.owners(self._tags[0]), "(0", "+inf")
        return [name.decode() for name in found]

    async def _run(self, verb: str, tag: str, *args: Any) -> Any:
        return await self._scripts.run(verb, tag, *args)

    async def _on_all(self, verb: str, *args: Any) -> list[Any]:
        return await self._on_some(None, verb, *args)

    async def _on_some(self, shards: Iterable[int] | None, verb: str, *args: Any) -> list[Any]:
        tags = self._tags if shards is None else [self._tags[shard] for shard in shards]
        return await self._run_each(verb, ((tag, args) for tag in tags))

    async def _run_each(self, verb: str, calls: Iterable[tuple[str, Iterable[Any]]]) -> list[Any]:
        return await each_shard(partial(self._run, verb, tag, *args) for tag, args in calls)

    async def _leases(self, shard: int, records: Iterable[bytes]) -> list[Lease]:
        """Read leases; one whose entry is damaged is buried with its bytes and stops nothing."""
        leases, now_s = [], monotonic()
        for record in records:
            token, _request, data = record.split(b" ", 2)
            try:
                leases.append(Lease(shard, token, decode(data), now_s))
            except DamagedEntry as error:
                args = (0, self.tuning.dead_max, token, f"damaged: {error}")
                await self._run("bury", self._tags[shard], self.owner, *args)
        return leases


# Leases settled by one call.
BATCH_MAX = 1000
# Owners that died with a URL in their hands, until it is taken for what killed them. A slow page
# may be there by chance when processes are killed from outside again and again.
POISON = 5


class Frontier(Instance):
    """One crawl's frontier. Every verb may be repeated after a lost reply."""

    def __init__(
        self,
        redis: Client,
        crawl: str,
        *,
        shards: int = 1,
        tuning: Tuning | None = None,
        spider: str = "",
    ) -> None:
        super().__init__(redis, crawl, shards, tuning or Tuning(), spider)
        # Stays when the owner's changes.
        self._name = uuid.uuid4().hex
        # Set while Redis is nearly full: then discoveries of low priority are refused.
        self.pressed = False
        self.serve(self.tuning.weights, self.tuning.load_weights, self.tuning.load_threshold)

    def serve(
        self, weights: Sequence[int], load_weights: Sequence[int], load_threshold: int
    ) -> None:
        """Serve the queues by these weights from now on, see Tuning."""
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._load_threshold = load_threshold

    # --- URLs in -------------------------------------------------------------------------------

    async def add(
        self,
        entries: Sequence[Entry | bytes],
        *,
        mode: str = "new",
        request_id: str = "",
        shard: int | None = None,
    ) -> Added:
        """Put unseen URLs into their front queues; all are of one shard if that is named.

        Mode "force" adds known ones too, for requests with dont_filter; "all" refuses none, for
        seeds and redirects. A forced add that is repeated with its request id adds nothing twice.
        """
        return await add(
            self._run,
            self._tags if shard is None else (self._tags[shard],),
            entries,
            mode=mode,
            seen_argument=self._seen_argument,
            full_at=1 if self.pressed else self.tuning.full_at,
            order=(self._name, request_id or (uuid.uuid4().hex if mode == "force" else "")),
        )

    async def promote(
        self, limit: int = 1000, *, shards: Iterable[int] | None = None, now_ms: int = 0
    ) -> int:
        """Move delayed URLs that are due to their front queues; says how many."""
        args = (now_ms, limit, self.tuning.dead_max)
        return sum(await self._on_some(shards, "promote", *args))

    # --- URLs out ------------------------------------------------------------------------------

    async def claim(
        self,
        n: int,
        request_id: str,
        *,
        shard: int = 0,
        max_pages: int = 0,
        host_pages: int = 0,
        now_ms: int = 0,
    ) -> Claim:
        """Lease up to `n` URLs of a shard. The same request id again brings the same leases."""
        tuning = self.tuning
        state, leases, wait, delayed, more = await self._run(
            "claim",
            self._tags[shard],
            self.owner,
            request_id,
            n,
            now_ms,
            self._order,
            self._load_order,
            self._load_threshold,
            tuning.parallelism,
            max_pages,
            host_pages,
            tuning.grace_ms,
            tuning.dead_max,
            tuning.spacing_ms,
        )
        if state == b"dead":
            raise OwnerDead(self.owner)
        return Claim(
            leases=await self._leases(shard, leases),
            state=state.decode(),
            wait_ms=None if int(wait) < 0 else int(wait),
            delayed_ms=None if int(delayed) < 0 else int(delayed),
            more=bool(more),
        )

    async def release(
        self, fetches: Sequence[tuple[Lease, int]], *, usual: bool = True, now_ms: int = 0
    ) -> None:
        """Fetches ended; their hosts rest for so many milliseconds, as they usually do or not."""
        ended = ((lease.shard, (lease.entry.host, lease.token, rest)) for lease, rest in fetches)
        await self._settle("release", (now_ms, int(usual)), ended)

    async def done(self, leases: Sequence[tuple[Lease, bool]], *, guarded: bool = False) -> None:
        """Settle leases for good; the flag says whether the URL gave a page.

        Guarded: not those claimed before a restart of the server, which may have lost their links.
        """
        grace = self.tuning.grace_ms if guarded else ""
        finished = ((lease.shard, (lease.token, int(page))) for lease, page in leases)
        await self._settle("done", (self.owner, grace), finished)

    async def retry(
        self,
        retries: Sequence[tuple[Lease, int, Entry]],
        *,
        kind: str = RETRY,
        guarded: bool = False,
        now_ms: int = 0,
    ) -> None:
        """Put leased URLs off by so many milliseconds, to come back as the given entry.

        A retry still has to be crawled, a recrawl was; that one may be guarded as done() is.
        """
        grace = self.tuning.grace_ms if guarded else ""
        put_off = (
            (lease.shard, (lease.token, wait, encode(entry))) for lease, wait, entry in retries
        )
        await self._settle("retry", (self.owner, now_ms, kind, grace), put_off)

    async def bury(self, leases: Sequence[tuple[Lease, str]], *, now_ms: int = 0) -> None:
        """Move leased URLs to the dead-letter queue, with the reason."""
        dead = ((lease.shard, (lease.token, reason)) for lease, reason in leases)
        await self._settle("bury", (self.owner, now_ms, self.tuning.dead_max), dead)

    async def hand_back(self, leases: Sequence[tuple[Lease, int]], *, now_ms: int = 0) -> None:
        """Give leases back unfetched; their hosts rest for so many milliseconds."""
        unfetched = ((lease.shard, (lease.token, rest_ms)) for lease, rest_ms in leases)
        await self._settle("hand_back", (self.owner, now_ms), unfetched)

    async def reclaim(
        self,
        *,
        silence_ms: int,
        rest_ms: int,
        limit: int = 100,
        poison: int = POISON,
        shards: Iterable[int] | None = None,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances silent for so long; says how many."""
        args = (now_ms, silence_ms, limit, poison, rest_ms, self.tuning.dead_max)
        return sum(await self._on_some(shards, "reclaim", *args))

    async def sizes(self) -> Sizes:
        """How many URLs are in each state, over all shards."""
        parts = await each_shard(partial(self.sizes_of, shard) for shard in range(self.shards))
        return sum(parts[1:], parts[0])

    async def sizes_of(self, shard: int) -> Sizes:
        """The same of one shard."""
        return Sizes.of(await self._run("sizes", self._tags[shard]))

    async def waiting_by_shard(self) -> list[int]:
        """How many URLs wait in each shard."""
        return [Sizes.of(answer).waiting for answer in await self._on_all("sizes")]

    async def _settle(
        self, verb: str, first: tuple[Any, ...], items: Iterable[tuple[int, tuple[Any, ...]]]
    ) -> None:
        """Run a verb on leases of any shards; one call serves many of them."""
        by_shard: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for shard, values in items:
            by_shard[shard].append(values)
        batches = (
            (self._tags[shard], chain(first, *leases[start : start + BATCH_MAX]))
            for shard, leases in by_shard.items()
            for start in range(0, len(leases), BATCH_MAX)
        )
        await self._run_each(verb, batches)


# URLs that one call of the script takes.
ADD_MAX = 1000

Run = Callable[..., Awaitable[Any]]


async def add(
    run: Run,
    tags: Sequence[str],
    entries: Sequence[Entry | bytes],
    *,
    mode: str,
    seen_argument: str,
    full_at: int = 0,
    order: tuple[str, str] = ("", ""),
) -> Added:
    """Run the verb `add` on every shard that these URLs belong to; some are encoded already.

    `order` is who forces and the name of its order, see lua/add.lua.
    """

    async def send(tag: str, data: Sequence[bytes]) -> bytes:
        answers = []
        for number, start in enumerate(range(0, len(data), ADD_MAX)):
            part = data[start : start + ADD_MAX]
            lengths = struct.pack(f">{len(part)}I", *map(len, part))
            args = (b"".join(part), lengths, mode, full_at, *order, number, seen_argument)
            answer = await run("add", tag, *args)
            if len(answer) != len(part):
                raise ValueError(f"{len(answer)} answers to {len(part)} URLs: {answer[:50]!r}")
            answers.append(answer)
        return b"".join(answers)

    encoded = [entry if isinstance(entry, bytes) else encode(entry) for entry in entries]
    if len(tags) == 1:
        # As in most crawls: nobody needs to know the hosts.
        return Added((await send(tags[0], encoded)).decode())
    answers = bytearray(len(encoded))
    by_shard = _by_shard(encoded, len(tags))
    found = await each_shard(
        partial(send, tags[shard], [encoded[place] for place in places])
        for shard, places in by_shard.items()
    )
    for places, answer in zip(by_shard.values(), found, strict=True):
        for place, character in zip(places, answer, strict=True):
            answers[place] = character
    return Added(answers.decode())


def _by_shard(encoded: Sequence[bytes], shards: int) -> dict[int, list[int]]:
    """Places of the entries of each shard."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, data in enumerate(encoded):
        found[shard_of(host_in(data), shards)].append(place)
    return found
