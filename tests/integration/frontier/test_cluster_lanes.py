"""Sites that link to each other, on masters of which one is away: the others go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawler.frontier import Entry, Frontier, Lease, Tuning
from crawler.frontier.frontier import shard_of
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.servers.redis.connection import Client, connect
from crawler.servers.redis.errors import RedisAway
from tests.integration.frontier.fleet import CRAWL, Process, entry, hosts_of_master
from tests.support.cluster import FAULTS, Fault, RedisProcess, running_cluster

SHARDS = 12
PAGES = 4
AWAY, *THERE = ([*hosts_of_master(number, 3, SHARDS)] for number in range(3))


@pytest.fixture
def masters(tmp_path: Path) -> Iterator[list[RedisProcess]]:
    """Three, of which two serve their slots while the third is away."""
    with running_cluster(tmp_path, timeout_ms=500, whole=False) as nodes:
        yield nodes


@pytest.fixture
async def client(masters: list[RedisProcess]) -> AsyncIterator[Client]:
    client = await connect(masters[1].url, {"socket_timeout": 1, "socket_connect_timeout": 1})
    yield client
    await client.aclose()


def url(host: str, page: int) -> str:
    return f"http://{host}/{page}"


def links_of(found: Entry) -> list[Entry]:
    """Those of a page: the next ones of its site and of others, and on odd pages of any master."""
    page = int(found.url.rpartition("/")[2])
    if page + 1 >= PAGES:
        return []
    hosts = [host for side in THERE for host in side] + (AWAY if page % 2 else [])
    return [entry(url(host, page + 1)) for host in hosts]


class Crawl:
    """Fetches at once, and is done with a page when its links are acknowledged."""

    def __init__(self, pool: LeasePool) -> None:
        self.fetched: list[str] = []
        self._pool = pool
        self._open: set[asyncio.Task[None]] = set()

    def go_on(self) -> None:
        while (lease := self._pool.take()) is not None:
            self.fetched.append(lease.entry.url)
            self._pool.release(lease, 0)
            task = asyncio.ensure_future(self._finish(lease))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _finish(self, lease: Lease) -> None:
        links = links_of(lease.entry)
        if links:
            await self._pool.outbox.add(links)
        self._pool.done(lease, page=True)

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + 40
        while True:
            self.go_on()
            answer = condition()
            if asyncio.iscoroutine(answer):
                answer = await answer
            if answer:
                return
            assert time.monotonic() < deadline, f"still not: {what}"
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_sites_that_link_to_a_master_that_is_away_give_all_their_pages(
    masters: list[RedisProcess], client: Client, fault: Fault
) -> None:
    frontier = Frontier(client, CRAWL, shards=SHARDS, tuning=Tuning(grace_ms=200))
    process = Process(frontier, CompletionLimits(close_when_done=False))
    await process.heart.open()
    pool, crawl = process.pool, Crawl(process.pool)
    hosts = [host for side in THERE for host in side]
    fault.begin(masters[0])
    first = pool.outbox.add([entry(url(host, 0)) for host in hosts])
    pool.open()
    everything = {url(host, page) for host in hosts for page in range(PAGES)}
    await crawl.until(lambda: everything <= set(crawl.fetched), "all that is there was fetched")
    await first

    async def all_done() -> bool:
        shards = {shard_of(host, SHARDS) for host in hosts}
        sizes = [await frontier.sizes(shard) for shard in shards]
        return sum(each.done for each in sizes) == len(hosts) * (PAGES - 1)

    # Page 1 of each links to the master that is away, and page 3 to nothing.
    await crawl.until(all_done, "those whose links are safe are done")
    assert pool.held == len(hosts)
    assert process.health.away

    fault.mend(masters[0])
    everything |= {url(host, 2) for host in AWAY}
    await crawl.until(lambda: everything == set(crawl.fetched), "the rest was fetched")

    async def finished() -> bool:
        try:
            return (await frontier.sizes()).unfinished == 0
        except RedisAway:
            return False

    await crawl.until(finished, "all is done")
    assert len(crawl.fetched) == len(everything)
    await pool.close()
    await process.heart.close()
