"""Two processes on one server: who fetches what, by each strategy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, ClassVar

import pytest

from crawler.frontier import Claim, Frontier
from crawler.frontier.frontier import shard_of
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.servers.redis.connection import Client
from tests.integration.frontier.fleet import CRAWL, Process, crawl_all, hosts

SHARDS = 16
# Of these each shard has more than is fetched of it while it is counted.
HOSTS = 1200

Start = Callable[..., Awaitable[list[Process]]]


@pytest.fixture
async def start(redis_client: Client) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def start(
            strategy: str,
            number: int = 2,
            limits: CompletionLimits | None = None,
            urls: int = HOSTS,
        ) -> list[Process]:
            """Start processes that know of each other, and add a URL of each host."""
            found = [
                Process(Frontier(redis_client, CRAWL, shards=SHARDS), limits, strategy=strategy)
                for _ in range(number)
            ]
            for process in found:
                await process.heart.open()
                stack.push_async_callback(process.heart.close)
                stack.push_async_callback(process.pool.close)
            await found[0].pool.outbox.add(hosts(urls))
            for process in found:
                await process.heart._order_shards()
            return found

        yield start


async def fetch(pool: LeasePool, number: int) -> list[int]:
    """Fetch and settle so many URLs; return the shard of each."""
    shards = []
    async with asyncio.timeout(60):
        while len(shards) < number:
            lease = pool.take()
            if lease is None:
                await asyncio.sleep(0.001)
                continue
            shards.append(lease.shard)
            pool.release(lease, 0)
            pool.done(lease, page=True)
    return shards


async def fetched(processes: list[Process], number: int) -> list[set[int]]:
    """Return the shards from which each process fetched so many URLs, while all had enough."""
    for process in processes:
        process.pool.open()
    found = await asyncio.gather(*(fetch(each.pool, number) for each in processes))
    return [set(shards) for shards in found]


@pytest.mark.parametrize("strategy", ["sticky", "hash"])
async def test_each_process_fetches_from_its_own_shards(start: Start, strategy: str) -> None:
    processes = await start(strategy)
    own = [set(each.pool.shards.own) for each in processes]
    assert own[0] | own[1] == set(range(SHARDS))
    assert not own[0] & own[1]
    # Names differ from run to run, and so do the numbers of shards by sticky.
    found = await fetched(processes, 25 * min(map(len, own)))
    assert all(shards <= mine for shards, mine in zip(found, own, strict=True))
    if strategy == "hash":
        assert [len(mine) for mine in own] == [SHARDS // 2] * 2


async def test_in_turn_every_process_fetches_from_every_shard(start: Start) -> None:
    # A process takes 20 URLs of a shard, then those of the next.
    assert await fetched(await start("round_robin"), 20 * SHARDS) == [set(range(SHARDS))] * 2


async def test_a_balanced_process_begins_with_the_fullest_shard(start: Start) -> None:
    [process] = await start("balanced", 1)
    counts = [0] * SHARDS
    for entry in hosts(HOSTS):
        counts[shard_of(entry.host, SHARDS)] += 1
    process.pool.open()
    first = (await fetch(process.pool, 1))[0]
    assert counts[first] == max(counts)


@pytest.mark.parametrize("strategy", ["sticky", "hash", "balanced", "round_robin"])
async def test_no_url_waits_for_a_process_that_does_not_claim(start: Start, strategy: str) -> None:
    working, _ = await start(strategy, urls=100)
    working.pool.open()
    assert sorted(await crawl_all(working.pool)) == sorted(each.url for each in hosts(100))


async def test_the_limit_of_pages_is_exact_over_all_shards(start: Start) -> None:
    processes = await start("round_robin", 3, CompletionLimits(max_pages=133), urls=200)
    for process in processes:
        process.pool.open()
    found = await asyncio.gather(*(crawl_all(each.pool) for each in processes))
    assert sum(map(len, found)) == 133


class Asked(Frontier):
    """Frontier that notes which shards are asked."""

    shards_asked: ClassVar[list[int]] = []

    async def claim_from(self, wanted: Any, **limits: Any) -> dict[int, Claim]:
        self.shards_asked.extend(wanted)
        return await super().claim_from(wanted, **limits)


async def test_all_shards_are_asked_before_the_end_also_by_one_fetch_at_a_time(
    redis_client: Client,
) -> None:
    process = Process(Asked(redis_client, CRAWL, shards=4))
    await process.heart.open()
    await process.pool._claim_round(1)
    assert sorted(Asked.shards_asked) == [0, 1, 2, 3]
    await process.pool.close()
    await process.heart.close()
