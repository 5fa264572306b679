"""Does an operation cost more when the crawl is a hundred times larger?

Costs are Redis' CPU time, which a busy machine disturbs least. Both crawls are measured in turns:
the speed of a machine changes by more, from one minute to the next, than what is measured here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from statistics import median

from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.frontier.client import BATCH, Stopwatch, add_all, batched, fill, open_frontier
from benchmarks.frontier.cycle import cycle_all
from benchmarks.frontier.links import entry, page_links
from benchmarks.servers import PrivateRedis, private_redis

_REST_MS = 3_600_000
_ROUNDS = 5
_FEW_WAITING = 1_000
# In a round; all rounds together must leave fresh hosts in the smallest crawl.
_CYCLES = 600


@dataclass(frozen=True, slots=True)
class Size:
    """How large a crawl is: URLs known and waiting, hosts contacted and resting."""

    urls: int
    hosts: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of Redis a URL, milliseconds of one call of `sizes`."""

    add_us: float
    cycle_us: float
    sizes_ms: float
    sizes_ms_at_1k: float


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Costs in a large crawl over those in a small one."""
    small, large = Size(100_000, 10_000), Size(10_000_000, 1_000_000)
    if quick:
        small, large = Size(20_000, 2_000), Size(200_000, 20_000)
    before, after = _costs(small, large)
    add, cycle = after.add_us / before.add_us, after.cycle_us / before.cycle_us
    yield Figure("frontier.add_growth_ratio", add, "×")
    yield Figure("frontier.cycle_growth_ratio", cycle, "×")
    yield Figure("frontier.growth_ratio", max(add, cycle), "×", target=at_most(1.5))
    yield Figure("sizes.ms_at_1k", after.sizes_ms_at_1k, "ms")
    yield Figure(f"sizes.ms_at_{_short(large.urls)}", after.sizes_ms, "ms")


def _short(urls: int) -> str:
    return f"{urls // 1_000_000}m" if urls >= 1_000_000 else f"{urls // 1000}k"


def _costs(*sizes: Size) -> list[Cost]:
    cores = Cores.found()
    with ExitStack() as stack:
        servers = [stack.enter_context(private_redis(cores=cores.servers)) for _ in sizes]
        stack.enter_context(running_on(cores.client))
        return asyncio.run(_measure([*zip(servers, sizes, strict=True)]))


async def _measure(crawls: list[tuple[PrivateRedis, Size]]) -> list[Cost]:
    sizes_ms = [await _prepare(server, size) for server, size in crawls]
    adds = [
        [await _add_us(server, size, number) for server, size in crawls]
        for number in range(_ROUNDS)
    ]
    cycles = [[await _cycle_us(server, _CYCLES) for server, _ in crawls] for _ in range(_ROUNDS)]
    # The best round of each: whatever else the machine does can only make one slower.
    return [
        Cost(add_us, cycle_us, many_ms, few_ms)
        for add_us, cycle_us, (few_ms, many_ms) in zip(
            map(min, zip(*adds, strict=True)),
            map(min, zip(*cycles, strict=True)),
            sizes_ms,
            strict=True,
        )
    ]


async def _prepare(server: PrivateRedis, size: Size) -> tuple[float, float]:
    """Fill a crawl and contact its hosts; what `sizes` takes with few and with all URLs waiting."""
    # Each host has one run of links, so that URLs of fresh hosts are left for the measurement.
    hosts = size.urls * 2
    async with open_frontier(server) as frontier:
        await fill(frontier, 0, _FEW_WAITING, hosts)
        few_ms = await _sizes_ms(server)
        await fill(frontier, _FEW_WAITING, size.urls, hosts)
    many_ms = await _sizes_ms(server)
    await cycle_all(server, size.hosts, delay_ms=_REST_MS)
    return few_ms, many_ms


async def _sizes_ms(server: PrivateRedis) -> float:
    async with open_frontier(server) as frontier:
        times = []
        for _ in range(200):
            start = time.perf_counter()
            await frontier.sizes()
            times.append(time.perf_counter() - start)
        return median(times) * 1000


async def _add_us(server: PrivateRedis, size: Size, number: int) -> float:
    pages = 300
    links = page_links(size.urls, pages, first=size.urls * (number + 2), seed=number)
    made = [entry(link, size.urls * 2) for link in chain.from_iterable(links)]
    async with open_frontier(server) as frontier:
        watch = Stopwatch(server)
        await add_all(frontier, batched(made, BATCH))
        return watch.stop(len(made)).redis_us


async def _cycle_us(server: PrivateRedis, urls: int) -> float:
    watch = Stopwatch(server)
    await cycle_all(server, urls, delay_ms=_REST_MS)
    return watch.stop(urls).redis_us
