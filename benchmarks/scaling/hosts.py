"""Does a claim cost more when a hundred thousand hosts wait, or a million?

Each crawl is measured twice: when its hosts were never contacted, so that their URLs are in the
front queues, and when all of them are active and due. The crawls take turns, and the best round of
each counts: whatever else the machine does can only make one slower. The clock is made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import count

from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.frontier.client import Spent, Stopwatch, add_all, batched, open_frontier
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier import Claim, Entry, Frontier, Lease
from crawler.settings import CONCURRENT_REQUESTS
from crawler.urls import fingerprint

_FEW = 1_000
# Far in the future, so that the server's own clock never gets ahead of it.
_T0_MS = 4_000_000_000_000
_DAY_MS = 86_400_000
_REST_MS = 1000
# URLs in a round: no host may be leased twice, and the smallest crawl has this many.
_ROUND = 960
_ROUNDS = 10
# Rounds of hosts that are contacted for the first time; together one of the others.
_FRESH_ROUNDS = 3
_LEASES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """The best rounds of a crawl: claims of fresh hosts, of active ones, and their settlements."""

    fresh: Spent
    active: Spent
    settled: Spent
    memory_bytes: int


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Claims of crawls with more and more hosts."""
    sizes = (_FEW, 100_000) if quick else (_FEW, 100_000, 1_000_000)
    cores = Cores.found()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(private_redis(persistent=False, cores=cores.servers)) for _ in sizes
        ]
        stack.enter_context(running_on(cores.client))
        found = asyncio.run(_costs(dict(zip(sizes, servers, strict=True))))
    few = found[_FEW]
    for hosts, cost in found.items():
        name = f"scaling.hosts_{short(hosts)}"
        for kind, of in _KINDS.items():
            yield Figure(f"{name}.{kind}_redis_us", of(cost).redis_us, "µs")
            yield Figure(f"{name}.{kind}_client_us", of(cost).client_us, "µs")
        yield Figure(f"{name}.redis_mb", cost.memory_bytes / 2**20, "MB")
        if hosts != _FEW:
            growth = max(of(cost).redis_us / of(few).redis_us for of in _KINDS.values())
            yield Figure(f"{name}.redis_growth", growth, "×", target=at_most(1.5))


_KINDS: dict[str, Callable[[Cost], Spent]] = {
    "fresh_claim": lambda cost: cost.fresh,
    "claim": lambda cost: cost.active,
    "settle": lambda cost: cost.settled,
}


def short(number: int) -> str:
    """Return a number of hosts as it stands in the name of a figure."""
    return f"{number // 1_000_000}m" if number >= 1_000_000 else f"{number // 1000}k"


@dataclass(slots=True)
class Crawl:
    """A frontier with so many hosts, and a made-up clock."""

    server: PrivateRedis
    frontier: Frontier
    hosts: int
    now_ms: int = _T0_MS
    requests: Iterator[int] = field(default_factory=count)

    async def add_first(self) -> None:
        """Add one URL of each host."""
        await self._add(self._entry(host, 0) for host in range(self.hosts))

    async def activate_all(self) -> None:
        """Contact all hosts, fill their back queues while they rest, and let a day pass."""
        left = self.hosts - _ROUND
        while left > 0:
            leases = await self.claim(min(left, _LEASES_MAX), _LEASES_MAX)
            await self.settle(leases)
            left -= len(leases)
        # As many as all rounds need.
        pages = range(1, 3 + _ROUNDS * _ROUND // self.hosts)
        await self._add(self._entry(host, page) for host in range(self.hosts) for page in pages)
        while (await self._claim_once(1)).more:
            pass
        self.now_ms += _DAY_MS

    async def claim(self, urls: int, at_once: int = CONCURRENT_REQUESTS) -> list[Lease]:
        """Claim so many URLs in several calls."""
        leases: list[Lease] = []
        while len(leases) < urls:
            claim = await self._claim_once(min(at_once, urls - len(leases)))
            assert claim.leases, "a crawl has no URL that may be fetched"
            leases += claim.leases
        return leases

    async def settle(self, leases: list[Lease]) -> None:
        """End the fetches; their hosts rest for a while."""
        await self.frontier.release([(lease, _REST_MS) for lease in leases], now_ms=self.now_ms)
        await self.frontier.done([(lease, True) for lease in leases])

    async def _claim_once(self, urls: int) -> Claim:
        wanted = {0: (urls, f"{next(self.requests)}")}
        return (await self.frontier.claim_from(wanted, now_ms=self.now_ms))[0]

    async def _add(self, entries: Iterable[Entry]) -> None:
        await add_all(self.frontier, batched(entries, 1000))

    @staticmethod
    def _entry(host: int, page: int) -> Entry:
        url = f"http://www.host{host}.example/section/{page}/a-title-of-some-length.html"
        return Entry(fingerprint(url), url, queue=3, depth=3, discovered_s=1_800_000_000)


async def _costs(servers: dict[int, PrivateRedis]) -> dict[int, Cost]:
    async with AsyncExitStack() as stack:
        crawls = [
            Crawl(server, await stack.enter_async_context(open_frontier(server)), hosts)
            for hosts, server in servers.items()
        ]
        for crawl in crawls:
            await crawl.add_first()
        fresh = await _rounds(crawls, _FRESH_ROUNDS, _ROUND // _FRESH_ROUNDS, rests=False)
        for crawl in crawls:
            await crawl.activate_all()
            assert (await crawl.frontier.sizes()).hosts == crawl.hosts
        active = await _rounds(crawls, _ROUNDS, _ROUND, rests=True)
        return {
            crawl.hosts: Cost(first[0], later[0], later[1], crawl.server.memory_bytes())
            for crawl, first, later in zip(crawls, fresh, active, strict=True)
        }


async def _rounds(
    crawls: list[Crawl], rounds: int, urls: int, *, rests: bool
) -> list[tuple[Spent, Spent]]:
    """Return the best rounds of claims and of settlements, for each crawl."""
    spent: list[tuple[list[Spent], list[Spent]]] = [([], []) for _ in crawls]
    for _ in range(rounds):
        for crawl, (claims, settlements) in zip(crawls, spent, strict=True):
            watch = Stopwatch(crawl.server)
            leases = await crawl.claim(urls)
            claims.append(watch.stop(urls))
            watch = Stopwatch(crawl.server)
            await crawl.settle(leases)
            settlements.append(watch.stop(urls))
            if rests:
                crawl.now_ms += _REST_MS
    return [(_best(claims), _best(settlements)) for claims, settlements in spent]


def _best(rounds: list[Spent]) -> Spent:
    """The least of each kind of time."""
    return Spent(
        rounds[0].urls,
        min(spent.wall_s for spent in rounds),
        min(spent.client_cpu_s for spent in rounds),
        min(spent.redis_cpu_s for spent in rounds),
    )
