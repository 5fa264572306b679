"""The frontier's verbs as typed methods, one per Lua script. See lua/ for their contracts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgpack
import xxhash
from redis.asyncio import Redis
from redis.commands.core import AsyncScript
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawler.errors import ConfigurationError
from crawler.frontier import keys, scripts
from crawler.frontier.entry import Entry, decode, encode
from crawler.policy.turns import turns

DATA_MODEL = 1
ADD_MAX = 1000
# The server keeps a set of integers compact up to this many members (set-max-intset-entries).
BUCKET_MAX = 512


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to fetch one URL, until it is settled or its owner dies."""

    shard: int
    token: bytes
    entry: Entry

    @property
    def id(self) -> bytes:
        return self.entry.id.to_bytes(8, "big")


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim brought, and when the next one makes sense."""

    leases: list[Lease]
    # Milliseconds until the next host is due, None when no host waits.
    wait_ms: int | None
    # Milliseconds until the delay queue's next URLs are due, None when it is empty.
    delayed_ms: int | None
    # Routing stopped at its limit: claim again at once.
    more: bool
    # Every page the crawl may have is crawled or being crawled.
    limit_reached: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many URLs are in each state, and what the counters say."""

    front: tuple[int, ...]
    back: int
    leased: int
    retries: int
    added: int
    done: int
    pages: int
    dead: int
    claimed: int
    reclaimed: int
    retried: int
    ready_hosts: int
    owners: int

    @property
    def waiting(self) -> int:
        return sum(self.front) + self.back

    @property
    def unfinished(self) -> int:
        """URLs that still have to be crawled; recrawls do not count."""
        return self.waiting + self.leased + self.retries

    def __add__(self, other: Self) -> Sizes:
        front = tuple(a + b for a, b in zip(self.front, other.front, strict=True))
        rest = [getattr(self, name) + getattr(other, name) for name in _SIZES]
        return Sizes(front, *rest)


_SIZES = tuple(Sizes.__dataclass_fields__)[1:]


# What a call raises while the server is away, failing over or full: worth sending again.
RedisAway = (
    RedisConnectionError,
    RedisTimeoutError,
    ReadOnlyError,
    MasterDownError,
    ClusterDownError,
    TryAgainError,
    OutOfMemoryError,
    OSError,
)


class OwnerDead(Exception):
    """This instance was declared dead: its leases belong to others now."""


class Frontier:
    """One crawl's frontier. Its methods may be repeated after a lost reply."""

    def __init__(
        self,
        redis: Redis,
        crawl: str,
        *,
        shards: int = 1,
        weights: Sequence[int] = (40, 30, 20, 7, 3),
        load_weights: Sequence[int] = (60, 25, 10, 4, 1),
        load_threshold: int = 100_000,
        parallelism: int = 1,
        dead_max: int = 100_000,
    ) -> None:
        self.crawl = crawl
        self.shards = shards
        self.owner = ""
        self._redis = redis
        self._tags = [keys.shard_tag(crawl, shard) for shard in range(shards)]
        self._order = turns(weights)
        self._load_order = turns(load_weights)
        self._load_threshold = load_threshold
        self._parallelism = parallelism
        self._dead_max = dead_max
        self._scripts: dict[str, AsyncScript] = {
            verb: redis.register_script(scripts.source(verb)) for verb in scripts.VERBS
        }

    # --- life of an instance -------------------------------------------------------------------

    async def open(self) -> None:
        """Check the data model, and register this process under a new name."""
        key = keys.crawl_meta(self.crawl)
        await self._redis.hsetnx(key, "version", str(DATA_MODEL))
        await self._redis.hsetnx(key, "shards", str(self.shards))
        version, shards = await self._redis.hmget(key, "version", "shards")
        if int(version) != DATA_MODEL:
            raise ConfigurationError(
                f"The crawl {self.crawl!r} in Redis has data model {int(version)}, this program "
                f"has {DATA_MODEL}. Finish it with the version that began it, or choose another "
                "name with CRAWL."
            )
        if int(shards) != self.shards:
            raise ConfigurationError(
                f"FRONTIER_SHARDS is {self.shards}; the crawl {self.crawl!r} was created with "
                f"{int(shards)}, which cannot change. Set it to that."
            )
        await self.register()

    async def register(self) -> None:
        """Take a new name; an instance that was declared dead must not use its old one."""
        self.owner = uuid.uuid4().hex[:16]
        for tag in self._tags:
            await self._run("beat", tag, self.owner, 0, 1)

    async def beat(self) -> None:
        """Say that this instance is alive, or learn by OwnerDead that it is not."""
        for tag in self._tags:
            if not await self._run("beat", tag, self.owner, 0, 0):
                raise OwnerDead(self.owner)

    async def leave(self) -> None:
        """Sign off. Leases that are still held come back when this instance is found dead."""
        for tag in self._tags:
            await self._run("leave", tag, self.owner)

    # --- URLs in -------------------------------------------------------------------------------

    async def add(self, entries: Sequence[Entry], *, force: bool = False) -> list[bool]:
        """Put unseen URLs into their front queues; says of each whether it was added.

        `force` adds known ones too, for requests with dont_filter.
        """
        answers = [False] * len(entries)
        for shard, indexes in self._by_shard(entry.host for entry in entries).items():
            for start in range(0, len(indexes), ADD_MAX):
                part = indexes[start : start + ADD_MAX]
                # Redis' own msgpack knows strings only, no binary type.
                blob = msgpack.packb([encode(entries[i]) for i in part], use_bin_type=False)
                args = (blob, BUCKET_MAX, int(force))
                answer = await self._run("add", self._tags[shard], *args)
                for index, character in zip(part, answer, strict=True):
                    answers[index] = character == ord("1")
        return answers

    async def promote(self, limit: int = 1000, *, now_ms: int = 0) -> int:
        """Move delayed URLs that are due to their front queues; says how many."""
        moved = 0
        for tag in self._tags:
            moved += await self._run("promote", tag, now_ms, limit)
        return moved

    # --- URLs out ------------------------------------------------------------------------------

    async def claim(
        self, n: int, request_id: str, *, shard: int = 0, max_pages: int = 0, now_ms: int = 0
    ) -> Claim:
        """Lease up to `n` URLs. The same request id again brings the same leases."""
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
            self._parallelism,
            max_pages,
        )
        if state == b"dead":
            raise OwnerDead(self.owner)
        return Claim(
            leases=[self._lease(shard, lease) for lease in leases],
            wait_ms=None if wait < 0 else int(wait),
            delayed_ms=None if delayed < 0 else int(delayed),
            more=bool(more),
            limit_reached=state == b"limit",
        )

    async def release(self, fetches: Sequence[tuple[Lease, int]], *, now_ms: int = 0) -> None:
        """Fetches ended; their hosts rest for so many milliseconds."""
        for tag, args in self._batches(
            (lease.shard, (lease.entry.host, lease.token, delay_ms)) for lease, delay_ms in fetches
        ):
            await self._run("release", tag, now_ms, *args)

    async def done(self, leases: Sequence[tuple[Lease, bool]]) -> None:
        """Settle leases for good; the flag says whether the URL gave a page."""
        for tag, args in self._batches(
            (lease.shard, (lease.id, lease.token, int(page))) for lease, page in leases
        ):
            await self._run("done", tag, self.owner, *args)

    async def retry(
        self, retries: Sequence[tuple[Lease, int, Entry]], *, now_ms: int = 0
    ) -> None:
        """Put leased URLs off by so many milliseconds, to come back as the given entry."""
        for tag, args in self._batches(
            (lease.shard, (lease.id, lease.token, wait_ms, encode(entry)))
            for lease, wait_ms, entry in retries
        ):
            await self._run("retry", tag, self.owner, now_ms, *args)

    async def bury(self, leases: Sequence[tuple[Lease, str]]) -> None:
        """Move leased URLs to the dead-letter queue, with the reason."""
        for tag, args in self._batches(
            (lease.shard, (lease.id, lease.token, reason)) for lease, reason in leases
        ):
            await self._run("bury", tag, self.owner, self._dead_max, *args)

    async def hand_back(self, leases: Sequence[tuple[Lease, int]], *, now_ms: int = 0) -> None:
        """Give leases back unfetched; their hosts rest for so many milliseconds."""
        for tag, args in self._batches(
            (lease.shard, (lease.id, lease.token, wait_ms)) for lease, wait_ms in leases
        ):
            await self._run("hand_back", tag, self.owner, now_ms, *args)

    async def reclaim(
        self,
        *,
        silence_ms: int,
        delay_ms: int,
        limit: int = 100,
        poison: int = 3,
        now_ms: int = 0,
    ) -> int:
        """Take back leases of instances silent for so long; says how many."""
        taken = 0
        for tag in self._tags:
            args = (now_ms, silence_ms, limit, poison, delay_ms, self._dead_max)
            taken += await self._run("reclaim", tag, *args)
        return taken

    async def sizes(self) -> Sizes:
        """How many URLs are in each state, over all shards."""
        total: Sizes | None = None
        for tag in self._tags:
            numbers = await self._run("sizes", tag)
            part = Sizes(tuple(numbers[:5]), *numbers[5:])
            total = part if total is None else total + part
        assert total is not None
        return total

    # --- seeds that others push ----------------------------------------------------------------

    async def read_start_urls(self, name: str, limit: int = 1000) -> list[bytes]:
        """The next URLs of the list `<name>:start_urls`; they stay there until dropped."""
        return await self._redis.lrange(keys.start_urls(name), 0, limit - 1)

    async def drop_start_urls(self, name: str, urls: Iterable[bytes]) -> None:
        """Remove URLs that were read and added. By value: others push at the same end."""
        pipeline = self._redis.pipeline(transaction=False)
        for url in urls:
            pipeline.lrem(keys.start_urls(name), 1, url)
        await pipeline.execute()

    # -------------------------------------------------------------------------------------------

    def shard_of(self, host: str) -> int:
        """A host belongs to one shard for the life of the crawl."""
        return xxhash.xxh3_64_intdigest(host.encode()) % self.shards if self.shards > 1 else 0

    async def _run(self, verb: str, tag: str, *args: Any) -> Any:
        return await self._scripts[verb](keys=[tag], args=args)

    def _by_shard(self, hosts: Iterable[str]) -> dict[int, list[int]]:
        indexes: dict[int, list[int]] = defaultdict(list)
        for index, host in enumerate(hosts):
            indexes[self.shard_of(host)].append(index)
        return indexes

    def _batches(
        self, items: Iterable[tuple[int, tuple[Any, ...]]]
    ) -> Iterable[tuple[str, list[Any]]]:
        """Arguments of a script call per shard, so that one call serves many leases."""
        arguments: dict[int, list[Any]] = defaultdict(list)
        for shard, values in items:
            arguments[shard].extend(values)
        return [(self._tags[shard], args) for shard, args in arguments.items()]

    def _lease(self, shard: int, record: bytes) -> Lease:
        token, _request, data = record.split(b" ", 2)
        return Lease(shard, token, decode(data))
