"""Does a host with millions of waiting URLs slow others down?

Two crawls have the same 10,000 hosts with some URLs each, and one of them a host whose millions of
URLs came first, in the same queues. Both are claimed from in turns, at nine tenths of the rate that
the hosts allow: most claims find their hosts in the front queues. The clock is made up, and hosts
rest for a second of it.

After half of the turns the big host's URLs are purged. They are still known, so that the crawl is
as large as before, but none waits: what a claim costs more then is the size of the crawl.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.frontier.client import add_all, batched, open_frontier
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier import CrawlControl, Entry, Frontier, Tuning
from crawler.servers.redis.connection import connect
from crawler.settings import CONCURRENT_REQUESTS
from crawler.urls import fingerprint

_HOSTS = 10_000
_URLS_A_HOST = 20
_BIG = "big.example"
# Far in the future, so that the server's own clock never gets ahead of it.
_T0_MS = 4_000_000_000_000
_DELAY_MS = 1000
# The queues have the shares of a large crawl in both: else their order would differ.
_TUNING = Tuning(load_threshold=0)
# Between two claims.
_STEP_MS = 7
# Turns of the two crawls, and claims in a turn: short ones, since the machine's speed changes.
_TURNS = 300
_CLAIMS = 10


@dataclass(frozen=True, slots=True)
class Served:
    """URLs of the others that one crawl leased, and what that took."""

    leases: int = 0
    wall_s: float = 0.0
    redis_s: float = 0.0

    def __add__(self, other: Served) -> Served:
        return Served(
            self.leases + other.leases, self.wall_s + other.wall_s, self.redis_s + other.redis_s
        )

    @property
    def per_s(self) -> float:
        return self.leases / self.wall_s

    @property
    def redis_us(self) -> float:
        """Microseconds of Redis a lease."""
        return self.redis_s / self.leases * 1e6


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """The rate of the others beside the big host, and without it."""
    size = 1_000_000 if quick else 10_000_000
    cores = Cores.found()
    with ExitStack() as stack:
        alone, beside = (
            stack.enter_context(private_redis(persistent=False, cores=cores.servers))
            for _ in range(2)
        )
        stack.enter_context(running_on(cores.client))
        memory_mb, waiting, purged = asyncio.run(_serve(alone, beside, size))
    yield Figure("scaling.big_host_urls", size, "URLs")
    yield Figure("scaling.big_host_mb", memory_mb, "MB")
    yield from figures(waiting)
    yield Figure("scaling.big_host_slowdown_when_purged", slowdown_of(purged), "")


# In each turn, without the big host and beside it.
Turns = Sequence[tuple[Served, Served]]


def figures(turns: Turns) -> Iterator[Figure]:
    """What the turns say."""
    fewer, more = (sum(served, Served()) for served in zip(*turns, strict=True))
    yield Figure("scaling.big_host_others_per_s", more.per_s, "1/s")
    yield Figure("scaling.big_host_others_alone_per_s", fewer.per_s, "1/s")
    yield Figure("scaling.big_host_redis_us", more.redis_us, "µs")
    # The few URLs of the big host that stand in front of others are moved once.
    first_s = [each.redis_s for each in turns[0]]
    yield Figure("scaling.big_host_first_turn_ms", (first_s[1] - first_s[0]) * 1000, "ms")
    yield Figure("scaling.big_host_slowdown", slowdown_of(turns), "", target=at_most(0.02))
    # The slowdown is that of a lease. Others that starve have fewer of them at the same price.
    lost = 1 - more.leases / fewer.leases
    yield Figure("scaling.big_host_leases_lost", lost, "", target=at_most(0.02))


def slowdown_of(turns: Turns) -> float:
    """Return by which share the others' rate is lower beside the big host, in the median turn.

    By Redis' CPU time, which a busy machine disturbs least.
    """
    return 1 - median(fewer.redis_us / more.redis_us for fewer, more in turns)


async def _serve(
    alone: PrivateRedis, beside: PrivateRedis, size: int
) -> tuple[float, Turns, Turns]:
    """Return what the big host takes of Redis, and the turns before and after it is purged."""
    async with AsyncExitStack() as stack:
        crawls = [
            (server, await stack.enter_async_context(open_frontier(server, _TUNING)))
            for server in (alone, beside)
        ]
        await add_all(crawls[1][1], batched(map(_of_big, range(size)), 1000))
        for _, frontier in crawls:
            others = (_of_other(number) for number in range(_HOSTS * _URLS_A_HOST))
            await add_all(frontier, batched(others, 1000))
        memory_mb = (beside.memory_bytes() - alone.memory_bytes()) / 2**20
        waiting = [await _pair(crawls, turn) for turn in range(_TURNS // 2)]
        client = await connect(beside.url)
        stack.push_async_callback(client.aclose)
        await (await CrawlControl.open(client, crawls[1][1].crawl)).host(_BIG, purge=True)
        return (
            memory_mb,
            waiting,
            [await _pair(crawls, turn) for turn in range(len(waiting), _TURNS)],
        )


async def _pair(crawls: list[tuple[PrivateRedis, Frontier]], turn: int) -> tuple[Served, Served]:
    # Each is the first in every second turn.
    order = (0, 1) if turn % 2 else (1, 0)
    served = {place: await _turn(*crawls[place], turn) for place in order}
    return served[0], served[1]


async def _turn(server: PrivateRedis, frontier: Frontier, turn: int) -> Served:
    redis_s, wall_s, leased = server.cpu_s(), time.perf_counter(), 0
    for step in range(_CLAIMS):
        number = turn * _CLAIMS + step
        now_ms = _T0_MS + number * _STEP_MS
        found = await frontier.claim_from({0: (CONCURRENT_REQUESTS, str(number))}, now_ms=now_ms)
        leases = found[0].leases
        leased += sum(lease.entry.host != _BIG for lease in leases)
        if leases:
            await frontier.release([(lease, _DELAY_MS) for lease in leases], now_ms=now_ms)
            await frontier.done([(lease, True) for lease in leases])
    return Served(leased, time.perf_counter() - wall_s, server.cpu_s() - redis_s)


def _of_big(number: int) -> Entry:
    return _entry(f"http://{_BIG}/section/{number}/a-title-of-some-length.html", number)


def _of_other(number: int) -> Entry:
    page, host = divmod(number, _HOSTS)
    # The URLs of a host are in different queues.
    return _entry(f"http://www.host{host}.example/section/{page}/a-title.html", number + 3 * page)


def _entry(url: str, number: int) -> Entry:
    # Most URLs of a crawl are of middling importance.
    queue = (1, 2, 2, 3, 3, 3, 3, 4, 4, 5)[number % 10]
    return Entry(fingerprint(url), url, queue=queue, depth=3, discovered_s=1_800_000_000)
