"""How many URLs a second can one Redis lease, release and settle?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, Skipped, at_least
from benchmarks.frontier.client import Spent, Stopwatch, fill, open_frontier
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier import Frontier, Lease
from crawler.settings import CONCURRENT_REQUESTS

_ROUNDS = 5
# Crawl processes that share the server; each claims as many URLs as it may fetch at a time.
_PROCESSES = 4


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Claim, release and done together, many hosts, no delay."""
    urls, hosts = (12_000, 3_000) if quick else (100_000, 20_000)
    cores = Cores.found()
    with private_redis(cores=cores.servers) as server, running_on(cores.client):
        spent = asyncio.run(_rounds(server, urls, hosts))
    # The best round: whatever else the machine does can only make one slower.
    rate = max(one.per_s for one in spent)
    yield Figure("frontier.cycle_per_s", rate, "1/s", target=at_least(20_000))
    yield Figure("frontier.cycle_redis_us_per_url", min(one.redis_us for one in spent), "µs")
    yield Figure("frontier.cycle_client_us_per_url", min(one.client_us for one in spent), "µs")


async def _rounds(server: PrivateRedis, urls: int, hosts: int) -> list[Spent]:
    async with open_frontier(server) as frontier:
        spent = []
        for number in range(_ROUNDS):
            await fill(frontier, number * urls, (number + 1) * urls, hosts)
            watch = Stopwatch(server)
            await cycle_all(server, urls)
            spent.append(watch.stop(urls))
        return spent


async def cycle_all(server: PrivateRedis, urls: int, *, delay_ms: int = 0) -> None:
    """Take so many URLs through claim, release and done, as several processes would."""
    left = urls

    async def work() -> None:
        nonlocal left
        async with open_frontier(server) as frontier:
            number = 0
            while left > 0:
                number += 1
                claim = await frontier.claim(min(left, CONCURRENT_REQUESTS), f"{number}")
                left -= len(claim.leases)
                await settle(frontier, claim.leases, delay_ms)
            await frontier.leave()

    async with asyncio.TaskGroup() as group:
        for _ in range(_PROCESSES):
            group.create_task(work())


async def settle(frontier: Frontier, leases: list[Lease], delay_ms: int) -> None:
    """The fetches ended and gave a page each."""
    if leases:
        await frontier.release([(lease, delay_ms) for lease in leases])
        await frontier.done([(lease, True) for lease in leases])
