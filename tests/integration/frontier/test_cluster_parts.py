"""One master of a cluster is away: what the others have goes on, and the log says it once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from operator import lt
from typing import Any

import pytest

from crawler.frontier import CrawlControl, Frontier, Tuning
from crawler.frontier.frontier import tags
from crawler.scheduling.lease_pool import CompletionLimits
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.connection import Client, connect
from crawler.servers.redis.errors import RedisAway
from tests.integration.frontier.fleet import CRAWL, Process, entry, hosts_of_master
from tests.support.cluster import RedisProcess, running_cluster
from tests.support.waiting import until

SHARDS = 12


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisProcess]]:
    """Three, of which two serve their slots while the third is away."""
    with running_cluster(tmp_path_factory.mktemp("parts"), timeout_ms=500, whole=False) as nodes:
        yield nodes


@pytest.fixture
async def client(masters: list[RedisProcess]) -> AsyncIterator[Client]:
    client = await connect(masters[1].url)
    await client.flushall(target_nodes=client.PRIMARIES)
    yield client
    await client.aclose()


async def all_answer(client: Client) -> bool:
    """Do all masters take commands? A client that has met no error since closes all it opened."""
    try:
        for tag in tags(CRAWL, SHARDS):
            await client.exists(tag)
    except RedisAway:
        return False
    return True


async def test_each_command_has_an_outcome_of_its_own(
    masters: list[RedisProcess], client: Client
) -> None:
    trips = CommandBatcher.for_client(client)
    keys = [f"k{n}" for n in range(30)]
    gone = {key for key in keys if client.get_node_from_key(key).port == masters[0].port}
    assert 0 < len(gone) < len(keys)
    masters[0].kill()
    # With the connection that broke, and with none.
    for _ in range(2):
        asked = [trips.ask(("SET", key, key), ("GET", key)) for key in keys]
        found = dict(zip(keys, await asyncio.gather(*asked, return_exceptions=True), strict=True))
        assert {key for key in keys if isinstance(found[key], RedisAway)} == gone
        assert all(found[key] == [True, key.encode()] for key in keys if key not in gone)

    masters[0].start()

    async def all_answer() -> bool:
        asked = [trips.ask(("SET", key, key)) for key in keys]
        return await asyncio.gather(*asked, return_exceptions=True) == [[True]] * len(keys)

    await until(all_answer, "all are there again")
    assert not trips._asked
    assert not trips._tasks


async def test_hosts_of_the_other_masters_are_crawled_on(
    masters: list[RedisProcess], client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    frontier = Frontier(client, CRAWL, shards=SHARDS, tuning=Tuning(grace_ms=200))
    process = Process(frontier, CompletionLimits(close_when_done=False))
    await process.heart.open()
    pool = process.pool
    away = [entry(f"http://{host}/") for host in hosts_of_master(0, 4, SHARDS)]
    there = [entry(f"http://{host}/") for n in (1, 2) for host in hosts_of_master(n, 4, SHARDS)]
    await pool.outbox.add([*away, *there])
    masters[0].kill()
    pool.open()
    fetched: list[str] = []

    async def crawled(what: list[Any]) -> bool:
        while (lease := pool.take()) is not None:
            fetched.append(lease.entry.url)
            pool.release(lease, 0)
            pool.done(lease, page=True)
        return {each.url for each in what} <= set(fetched)

    await until(lambda: crawled(there), "the others are crawled")
    # A link to a host that is away is kept, and the ones beside it are taken at once.
    more = entry("http://" + hosts_of_master(1, 5, SHARDS)[-1] + "/")
    late = entry("http://" + hosts_of_master(0, 5, SHARDS)[-1] + "/")
    added = pool.outbox.add([late, more])
    await until(lambda: crawled([more]), "a new one is crawled")
    assert not added.done()
    assert process.health.away

    masters[0].start()
    await until(lambda: crawled([*away, late]), "all are crawled")
    assert sorted(fetched) == sorted(each.url for each in [*away, *there, late, more])
    await pool.close()
    await process.heart.close()
    sizes = await frontier.sizes()
    assert (sizes.unfinished, sizes.done) == (0, len(fetched))
    said = [r.getMessage() for r in caplog.records if r.name == "crawler.servers.health"]
    assert [text.split(" (")[0].split(" after")[0] for text in said] == [
        "Redis is away",
        "Redis is back",
    ]


async def test_a_cluster_is_as_full_as_its_fullest_master_that_is_there(
    masters: list[RedisProcess], client: Client
) -> None:
    await Frontier(client, CRAWL, shards=SHARDS).open()
    control = await CrawlControl.open(client, CRAWL)
    assert await control.memory_share() == 0.0
    with masters[2].client as admin:
        admin.config_set("maxmemory", 2 * admin.info("memory")["used_memory"])
        assert 0.2 < await control.memory_share() < 0.8
        masters[0].kill()
        assert 0.2 < await control.memory_share() < 0.8
        admin.config_set("maxmemory", 0)
        assert await control.memory_share() == 0.0
    masters[0].start()
    await until(partial(all_answer, client), "all are there again")


async def test_the_other_masters_hear_the_beats_of_a_process_while_one_hangs(
    masters: list[RedisProcess], client: Client
) -> None:
    process = Process(
        Frontier(client, CRAWL, shards=SHARDS), CompletionLimits(close_when_done=False)
    )
    await process.heart.open()
    process.pool.open()
    last = {
        shard: f"{tag}:owners" for shard, tag in enumerate(tags(CRAWL, SHARDS)) if shard // 4 != 0
    }

    async def beats() -> list[float]:
        owner = process.pool._frontier.owner
        return [await client.zscore(key, owner) for key in last.values()]

    masters[0].freeze()
    try:
        for _ in range(3):
            before = await beats()

            async def all_later(before: list[float] = before) -> bool:
                return all(map(lt, before, await beats()))

            # Long before they would take it for dead.
            await until(all_later, "the others heard of it again", deadline_s=15)
    finally:
        masters[0].thaw()
    await until(partial(all_answer, client), "all are there again")
    await process.pool.close()
    await process.heart.close()
