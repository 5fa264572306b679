"""An instance among others on a crawl: it registers, beats, tells again what a server forgot.

See lua/ for the contracts of the verbs.
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import Any

from redis.exceptions import ResponseError

from crawler.frontier import keys, meta
from crawler.frontier.connection import Client
from crawler.frontier.each_shard import each_shard, outcomes, raised_at_the_end
from crawler.frontier.entry import DamagedEntry, decode
from crawler.frontier.errors import OwnerDead
from crawler.frontier.records import Beat, Lease
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, tags
from crawler.frontier.tuning import Tuning

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
        pipeline.set(keys.write_probe(), "", px=1)
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
