"""The verbs of a crawl: one method for each Lua script, whose contract is in lua/<verb>.lua.

An instance registers, beats, adds and claims URLs, and settles its leases. Every verb may be
repeated after a lost reply. Methods send URLs and leases to their shards, in as few calls as the
scripts allow.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from time import monotonic
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from redis.exceptions import ResponseError

from crawler.frontier import keys, meta
from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.frontier.records import RETRY, Added, Beat, Claim, Lease, OwnerDead, Sizes
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import gather, gather_outcomes, places_by_shard, shard_of
from crawler.frontier.tuning import Tuning, turns
from crawler.servers.redis import checks
from crawler.servers.redis.connection import Client

# URLs that one call of add takes, leases that one call settles, and hosts that one call counts.
ADD_MAX = 1000
SETTLE_MAX = 1000
HOSTS_MAX = 500
# A URL is buried when so many owners died while they fetched it. Not fewer: a slow page is in
# flight by chance when processes are killed from outside again and again.
POISON = 5
# A server syncs its log every second.
_SYNC_MAX_MS = 2000


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
        self.tuning = tuning or Tuning()
        # Name of this instance. It changes when the instance was declared dead.
        self.owner = ""
        # By shard, when this instance registered: epoch, time in ms, and leaps of the clock so far.
        self.epochs: list[int] = []
        self.opened_ms: list[int] = []
        self.leaps: list[int] = []
        # True while Redis is nearly full: new URLs of low priority are refused then.
        self.nearly_full = False
        self._redis = redis
        self.scripts = Scripts(redis, crawl, shards, self.tuning.url_seen.name)
        self._seen_argument = self.tuning.url_seen.argument
        # Only this spider may work on the crawl; empty in tests and tools, which have none.
        self._spider = spider
        # By which the server knows repeated forced adds of this process; it never changes.
        self._adder = uuid.uuid4().hex
        self.set_weights(self.tuning.weights, self.tuning.load_weights, self.tuning.load_threshold)

    def set_weights(
        self, weights: Sequence[int], load_weights: Sequence[int], load_threshold: int
    ) -> None:
        """Set the shares of the queues, see Tuning. They may change while a crawl runs."""
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._load_threshold = load_threshold

    # --- the instance --------------------------------------------------------------------------

    async def open(self, about: Mapping[str, Any] | None = None) -> int:
        """Check that this program may work on the crawl, and register; return the epoch."""
        await self.create()
        return await self.register(about)

    async def create(self) -> None:
        """Create the crawl if it does not exist, or check that this program may work on it."""
        found = await meta.create_or_check(
            self._redis, self.crawl, self.shards, self.tuning.url_seen, self._spider
        )
        self._seen_argument = found.url_seen.argument

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
        held: Iterable[Lease] = (),
        about: Mapping[str, Any] | None = None,
        *,
        unsuspected: Container[tuple[int, bytes]] = (),
        new: Container[int] = (),
        silent_ms: Mapping[int, int] = MappingProxyType({}),
        epochs: Sequence[int] = (),
        now_ms: int = 0,
    ) -> dict[int, Beat | BaseException]:
        """Report to these shards that this instance is alive, and which leases it holds.

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
        self, flights: Iterable[Lease], delays_ms: Mapping[str, int], *, now_ms: int = 0
    ) -> None:
        """Repeat after a restart of the server which hosts are in flight, and which must wait."""
        by_shard: dict[int, tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
        for lease in flights:
            by_shard[lease.shard][0].extend((lease.entry.host, lease.token))
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

    async def sync(self) -> None:
        """Return when a single server has all that it acknowledged on its disk.

        Servers before Redis 7.2 cannot say, and a cluster has several logs: in both cases this
        returns at once.
        """
        if self.shards > 1:
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
        if self.shards == 1 or shard is not None:
            return Added(await self._add(shard or 0, encoded, mode, request_id))
        places = places_by_shard(encoded, self.shards)
        answers = await gather(
            self._add(shard, [encoded[place] for place in found], mode, request_id)
            for shard, found in places.items()
        )
        return Added.merged(places.values(), answers)

    async def _add(self, shard: int, data: Sequence[bytes], mode: str, request_id: str) -> str:
        full_at = 1 if self.nearly_full else self.tuning.full_at
        answers = []
        for number, start in enumerate(range(0, len(data), ADD_MAX)):
            part = data[start : start + ADD_MAX]
            lengths = struct.pack(f">{len(part)}I", *map(len, part))
            forced = (self._adder, request_id, number)
            args = (b"".join(part), lengths, mode, full_at, *forced, self._seen_argument)
            answer = await self.scripts.run("add", shard, *args)
            if len(answer) != len(part):
                raise ValueError(f"{len(answer)} answers to {len(part)} URLs: {answer[:50]!r}")
            answers.append(answer)
        return b"".join(answers).decode()

    async def promote(
        self, limit: int = 1000, *, shards: Iterable[int] | None = None, now_ms: int = 0
    ) -> int:
        """Move delayed URLs that are due to their front queues; return how many."""
        args = (now_ms, limit, self.tuning.dead_max)
        return sum(await self.scripts.run_on(shards, "promote", *args))

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
        """Lease up to `n` URLs of a shard. The same request id again returns the same leases."""
        tuning = self.tuning
        state, leases, wait, delayed, more = await self.scripts.run(
            "claim",
            shard,
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
            leases=await self._read_leases(shard, leases),
            state=state.decode(),
            wait_ms=None if int(wait) < 0 else int(wait),
            delayed_ms=None if int(delayed) < 0 else int(delayed),
            more=bool(more),
        )

    async def release(
        self, fetches: Sequence[tuple[Lease, int]], *, usual: bool = True, now_ms: int = 0
    ) -> None:
        """End fetches and free their hosts' slots; each host waits for so many milliseconds.

        Only a `usual` delay is remembered as the host's own.
        """
        items = ((lease, (lease.entry.host, lease.token, delay)) for lease, delay in fetches)
        await self._settle("release", (now_ms, int(usual)), items)

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
        self, verb: str, first: tuple[Any, ...], items: Iterable[tuple[Lease, tuple[Any, ...]]]
    ) -> None:
        """Run a verb on leases of any shards: `first` are its arguments before those of leases."""
        by_shard: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for lease, args in items:
            by_shard[lease.shard].append(args)
        await gather(
            self.scripts.run(verb, shard, *chain(first, *part[start : start + SETTLE_MAX]))
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
        poison: int = POISON,
        shards: Iterable[int] | None = None,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances that were silent for so long; return how many."""
        args = (now_ms, silence_ms, limit, poison, delay_ms, self.tuning.dead_max)
        return sum(await self.scripts.run_on(shards, "reclaim", *args))

    # --- sizes and hosts -----------------------------------------------------------------------

    async def sizes(self, shard: int | None = None) -> Sizes:
        """Count the URLs in each state, in one shard or in all of them."""
        shards = range(self.shards) if shard is None else (shard,)
        parts = [Sizes.from_numbers(each) for each in await self.scripts.run_on(shards, "sizes")]
        return sum(parts[1:], parts[0])

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
