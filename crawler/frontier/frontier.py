"""The verbs of a crawl at work, one method per Lua script. See lua/ for their contracts."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from crawler.frontier import adding, keys, meta
from crawler.frontier.connection import Client
from crawler.frontier.each_shard import each_shard
from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.frontier.errors import OwnerDead
from crawler.frontier.records import RETRY, Added, Claim, Lease, Sizes
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, tags
from crawler.frontier.tuning import Tuning
from crawler.policy.turns import turns

# Leases settled by one call.
BATCH_MAX = 1000


class Frontier:
    """One crawl's frontier. Every verb may be repeated after a lost reply."""

    def __init__(
        self,
        redis: Client,
        crawl: str,
        *,
        shards: int = 1,
        tuning: Tuning | None = None,
    ) -> None:
        self.crawl = crawl
        self.shards = shards
        self.tuning = tuning or Tuning()
        self.owner = ""
        # Stays when the owner's changes.
        self._name = uuid.uuid4().hex
        # Set while Redis is nearly full: then discoveries of low priority are refused.
        self.pressed = False
        self._redis = redis
        self._scripts = Scripts(redis, self.tuning.url_seen.name)
        self._seen_argument = self.tuning.url_seen.argument
        self._tags = tags(crawl, shards)
        self.serve(self.tuning.weights, self.tuning.load_weights, self.tuning.load_threshold)

    def serve(
        self, weights: Sequence[int], load_weights: Sequence[int], load_threshold: int
    ) -> None:
        """Serve the queues by these weights from now on, see Tuning."""
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._load_threshold = load_threshold

    # --- life of an instance -------------------------------------------------------------------

    async def open(self, about: Mapping[str, Any] | None = None) -> int:
        """Check that this program may work on the crawl, and register; returns the epoch."""
        found = await meta.create_or_check(
            self._redis, self.crawl, self.shards, self.tuning.url_seen
        )
        self._seen_argument = found.seen_argument
        return await self.register(about)

    async def register(self, about: Mapping[str, Any] | None = None, *, name: str = "") -> int:
        """Take a new name; an instance that was declared dead must not use its old one."""
        self.owner = name or uuid.uuid4().hex[:16]
        args = (self.owner, 0, 1, json.dumps(about or {}), self.tuning.grace_ms, b"")
        return sum([answer[1] for answer in await self._on_all("beat", *args)])

    async def beat(
        self,
        held: Iterable[Lease] = (),
        about: Mapping[str, Any] | None = None,
        *,
        unstarted: Container[tuple[int, bytes]] = (),
        now_ms: int = 0,
    ) -> tuple[int, list[Lease]]:
        """Say that this instance is alive and what it holds, and what of it nobody fetched yet.

        Returns the epoch and the leases that Redis knows and the instance does not, as after a lost
        reply; raises OwnerDead when it was declared dead. All shards hear of it that can.
        """
        named: dict[int, list[bytes]] = defaultdict(list)
        for lease in held:
            mark = b"?" if lease.key in unstarted else b""
            named[lease.shard].append(lease.token + mark)
        epochs, unknown = 0, []
        args = (self.owner, now_ms, 0, json.dumps(about or {}), self.tuning.grace_ms)
        calls = [(tag, (*args, b" ".join(named[n]))) for n, tag in enumerate(self._tags)]
        answers = await self._run_each("beat", calls)
        for shard, (alive, epoch, strays) in enumerate(answers):
            if not alive:
                raise OwnerDead(self.owner)
            epochs += epoch
            unknown += await self._leases(shard, strays)
        return epochs, unknown

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

    async def live(self) -> list[str]:
        """Names of the instances that beat."""
        found = await self._redis.zrangebyscore(keys.owners(self._tags[0]), "(0", "+inf")
        return [name.decode() for name in found]

    # --- URLs in -------------------------------------------------------------------------------

    async def add(
        self, entries: Sequence[Entry | bytes], *, mode: str = "new", request_id: str = ""
    ) -> Added:
        """Put unseen URLs into their front queues.

        Mode "force" adds known ones too, for requests with dont_filter; "all" refuses none, for
        seeds and redirects. A forced add that is repeated with its request id adds nothing twice.
        """
        return await adding.add(
            self._run,
            self._tags,
            entries,
            mode=mode,
            seen_argument=self._seen_argument,
            full_at=1 if self.pressed else self.tuning.full_at,
            order=(self._name, request_id or (uuid.uuid4().hex if mode == "force" else "")),
        )

    async def promote(self, limit: int = 1000, *, now_ms: int = 0) -> int:
        """Move delayed URLs that are due to their front queues; says how many."""
        return sum(await self._on_all("promote", now_ms, limit, self.tuning.dead_max))

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
        poison: int = 3,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances silent for so long; says how many."""
        args = (now_ms, silence_ms, limit, poison, rest_ms, self.tuning.dead_max)
        return sum(await self._on_all("reclaim", *args))

    async def sizes(self) -> Sizes:
        """How many URLs are in each state, over all shards."""
        parts = [Sizes.of(answer) for answer in await self._on_all("sizes")]
        return sum(parts[1:], parts[0])

    async def waiting_by_shard(self) -> list[int]:
        """How many URLs wait in each shard."""
        return [Sizes.of(answer).waiting for answer in await self._on_all("sizes")]

    async def _run(self, verb: str, tag: str, *args: Any) -> Any:
        return await self._scripts.run(verb, tag, *args)

    async def _on_all(self, verb: str, *args: Any) -> list[Any]:
        return await self._run_each(verb, ((tag, args) for tag in self._tags))

    async def _run_each(self, verb: str, calls: Iterable[tuple[str, Iterable[Any]]]) -> list[Any]:
        return await each_shard(partial(self._run, verb, tag, *args) for tag, args in calls)

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

    async def _leases(self, shard: int, records: Iterable[bytes]) -> list[Lease]:
        """Read leases; one whose entry is damaged is buried with its bytes and stops nothing."""
        leases = []
        for record in records:
            token, _request, data = record.split(b" ", 2)
            try:
                leases.append(Lease(shard, token, decode(data)))
            except DamagedEntry as error:
                args = (0, self.tuning.dead_max, token, f"damaged: {error}")
                await self._run("bury", self._tags[shard], self.owner, *args)
        return leases
