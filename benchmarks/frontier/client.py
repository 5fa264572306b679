"""Drive a frontier as a crawl process does: batches, several calls in flight."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from benchmarks.frontier.links import LINKS_A_PAGE, entry
from benchmarks.servers import PrivateRedis
from crawler.frontier import Entry, Frontier, Tuning
from crawler.servers.redis.connection import connect

# Ten pages a call: what a process finds while the last call is on its way.
BATCH = 10 * LINKS_A_PAGE
IN_FLIGHT = 4


@dataclass(frozen=True, slots=True)
class Spent:
    """What a stretch of work took."""

    urls: int
    wall_s: float
    client_cpu_s: float
    redis_cpu_s: float

    @property
    def per_s(self) -> float:
        return self.urls / self.wall_s

    @property
    def redis_us(self) -> float:
        """Microseconds of Redis a URL."""
        return self.redis_cpu_s / self.urls * 1e6

    @property
    def client_us(self) -> float:
        """Microseconds of this process a URL."""
        return self.client_cpu_s / self.urls * 1e6


class Stopwatch:
    """Measures wall time and the CPU time of both sides from its creation."""

    def __init__(self, server: PrivateRedis) -> None:
        self._server = server
        self._redis_s = server.cpu_s()
        self._cpu_s = time.process_time()
        self._wall_s = time.perf_counter()

    def stop(self, urls: int) -> Spent:
        wall_s = time.perf_counter() - self._wall_s
        cpu_s = time.process_time() - self._cpu_s
        return Spent(urls, wall_s, cpu_s, self._server.cpu_s() - self._redis_s)


@asynccontextmanager
async def open_frontier(
    server: PrivateRedis, tuning: Tuning | None = None
) -> AsyncIterator[Frontier]:
    """A frontier on this server, with the defaults of a crawl."""
    client = await connect(server.url)
    try:
        frontier = Frontier(client, "bench", tuning=tuning)
        await frontier.open()
        yield frontier
    finally:
        await client.aclose()


async def add_all(frontier: Frontier, batches: Iterable[Sequence[Entry]]) -> int:
    """Add batches, several at a time; says how many URLs were new."""
    waiting = iter(batches)
    added = 0

    async def work() -> None:
        nonlocal added
        for batch in waiting:
            answer = await frontier.add(batch)
            added += answer.new

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())
    return added


async def fill(frontier: Frontier, first: int, last: int, hosts: int) -> None:
    """Add the URLs first … last - 1 of the made-up web."""
    entries = (entry(number, hosts) for number in range(first, last))
    await add_all(frontier, batched(entries, 1000))


def batched(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """The entries in lists of this size."""
    source = iter(entries)
    while batch := list(islice(source, size)):
        yield batch
