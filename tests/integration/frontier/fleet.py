"""Instances at work on one frontier, in virtual time: what the tests of the verbs share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from crawler.frontier import CrawlControl, Entry, Frontier, Lease, OwnerDead, Tuning
from crawler.frontier.frontier import raise_errors, shard_of, tags
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.health import redis_health
from crawler.servers.redis.connection import Client
from crawler.urls import fingerprint, host_of

# Far in the future, so that the server's own clock never gets ahead of a test's.
T0 = 4_000_000_000_000
CRAWL = "test"

_requests = count(1)


def entry(url: str, queue: int = 1, **more: Any) -> Entry:
    """The entry of a canonical URL."""
    return Entry(id=fingerprint(url), url=url, queue=queue, **more)


def entries(number: int, host: str = "a.test", queue: int = 1) -> list[Entry]:
    """So many URLs of one host."""
    return [entry(f"http://{host}/{i}", queue) for i in range(number)]


def hosts(number: int, queue: int = 1) -> list[Entry]:
    """One URL each of so many hosts."""
    return [entry(f"http://h{i}.test/", queue) for i in range(number)]


async def beat(
    frontier: Frontier,
    held: Iterable[Lease] = (),
    about: Mapping[str, Any] | None = None,
    *,
    unsuspected: Container[tuple[int, bytes]] = (),
    now_ms: int = 0,
) -> tuple[int, list[Lease]]:
    """Beat all shards; the epoch, and the leases that they know and the instance does not."""
    shards = range(frontier.shards)
    found = await frontier.beat(shards, held, about, unsuspected=unsuspected, now_ms=now_ms)
    beats = raise_errors(list(found.values()))
    if not all(beat.alive for beat in beats):
        raise OwnerDead(frontier.owner)
    return sum(beat.epoch for beat in beats), [lease for b in beats for lease in b.strays]


def request_id() -> str:
    return f"r{next(_requests)}"


def urls(leases: list[Lease]) -> list[str]:
    return [lease.entry.url for lease in leases]


@dataclass(slots=True)
class Place:
    """Where a frontier lies: a client of one server or of a cluster, and the number of shards."""

    redis: Client
    shards: int

    async def instance(self, *, now_ms: int = T0, tuning: Tuning | None = None) -> Frontier:
        """A registered instance."""
        frontier = Frontier(self.redis, CRAWL, shards=self.shards, tuning=tuning)
        await frontier.open()
        await beat(frontier, now_ms=now_ms)
        return frontier

    async def control(self) -> CrawlControl:
        return await CrawlControl.open(self.redis, CRAWL)

    def tag(self, host: str) -> str:
        """The prefix of the keys of a host's shard."""
        return tags(CRAWL, self.shards)[shard_of(host, self.shards)]

    def key(self, host: str, name: str) -> str:
        """A key of the host's shard."""
        return f"{self.tag(host)}:{name}"

    async def dead(self) -> dict[str, str]:
        """Dead letters: URL (or bytes in hex) and reason."""
        letters = await (await self.control()).dead(limit=10_000)
        return {
            letter.entry.url if letter.entry else letter.data.hex(): letter.reason
            for letter in letters
        }


class InterceptedFrontier(Frontier):
    """Frontier whose scripts are run by run(), which tests override."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run_script = self.scripts.run
        self.scripts.run = self.run  # type: ignore[method-assign]

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        return await self._run_script(verb, shard, *args)


# What one call gives at the most.
CLAIM_MAX = 1000


async def claim(frontier: Frontier, n: int = 1000, *, now_ms: int = T0, **more: Any) -> list[Lease]:
    """Claim from all shards, and go on while there is more to route."""
    leases: list[Lease] = []
    for shard in range(frontier.shards):
        while len(leases) < n:
            found = await frontier.claim(
                n - len(leases), request_id(), shard=shard, now_ms=now_ms, **more
            )
            leases += found.leases
            if not found.more and len(found.leases) < CLAIM_MAX:
                break
    return leases


async def one(frontier: Frontier, *, now_ms: int = T0, **more: Any) -> Lease:
    """The one lease there is to claim."""
    leases = await claim(frontier, now_ms=now_ms, **more)
    assert len(leases) == 1, leases
    return leases[0]


async def crawl(frontier: Frontier, lease: Lease, *, rest_ms: int = 0, now_ms: int = T0) -> None:
    """Fetch and settle one lease."""
    await frontier.release([(lease, rest_ms)], now_ms=now_ms)
    await frontier.done([(lease, True)])


def host(url: str) -> str:
    return host_of(url)


class Process:
    """One without Scrapy: a lease pool with room, and a heart that beats."""

    def __init__(
        self,
        frontier: Frontier,
        limits: CompletionLimits | None = None,
        *,
        lease_ttl_s: float = 30.0,
        strategy: str = "sticky",
    ) -> None:
        self.health = redis_health()
        hooks = EngineHooks(lambda: 20, lambda: None, self._nothing)
        self.pool = LeasePool(
            frontier, self.health, limits or CompletionLimits(), hooks, Recrawls()
        )
        self.heart = Heartbeat(
            frontier,
            self.pool,
            self.health,
            Pulse(beat_s=0.05, lease_ttl_s=lease_ttl_s, strategy=strategy),
            about=dict,
            on_beat=self._nothing,
            on_epoch=lambda: None,
            on_loss=lambda _: None,
        )

    async def _nothing(self) -> int:
        return 0


def hosts_of_master(number: int, count: int, shards: int) -> list[str]:
    """Hosts whose shards lie on one of three masters."""
    first = shards // 3 * number
    names = (f"h{i}.test" for i in range(10_000))
    found = [name for name in names if first <= shard_of(name, shards) < first + shards // 3]
    return found[:count]


async def crawl_all(pool: LeasePool) -> list[str]:
    """Fetch and settle what a process is given, until the crawl is over for it."""
    fetched = []
    deadline = time.monotonic() + 60
    while pool.completion.reason is None:
        assert time.monotonic() < deadline, "it does not end"
        lease = pool.take()
        if lease is None:
            await asyncio.sleep(0.005)
            continue
        fetched.append(lease.entry.url)
        pool.release(lease, 0)
        pool.done(lease, page=True)
    return fetched
