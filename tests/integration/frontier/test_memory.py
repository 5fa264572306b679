"""At maxmemory what frees memory still runs, and what needs memory says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.exceptions import OutOfMemoryError

from crawler.frontier import Frontier, Tuning, Visit
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.tuning import bloom
from crawler.servers.redis.connection import connect
from crawler.servers.redis.errors import RedisAway
from tests.integration.frontier.fleet import T0, Place, beat, claim, entries, entry, hosts
from tests.support.cluster import RedisProcess


@pytest.fixture
async def place(redis_process: RedisProcess) -> AsyncIterator[Place]:
    client = await connect(redis_process.url)
    yield Place(client, 1)
    await client.aclose()


async def fill(place: Place) -> None:
    await place.redis.config_set("maxmemory", 1)


async def test_every_verb_that_drains_runs_in_a_full_server(place: Place) -> None:
    frontier = await place.instance()
    await frontier.add([*hosts(8), *entries(3)])
    dead = await place.instance()
    await frontier.add([entry("http://dead.test/")])
    [lost] = [x for x in await claim(dead) if x.entry.host == "dead.test"]
    await beat(dead, (), now_ms=T0)
    _, strays = await beat(dead, [lost], now_ms=T0)
    await dead.hand_back([(lease, 0) for lease in strays], now_ms=T0)
    await fill(place)

    leases = await claim(frontier)
    assert len(leases) == 9
    await frontier.release([(lease, 1000) for lease in leases], now_ms=T0)
    await frontier.done([(leases[0], True)])
    await frontier.retry([(leases[1], 1000, leases[1].entry)], now_ms=T0)
    await frontier.retry([(leases[2], 1000, leases[2].entry)], kind=PAGE_AGAIN, now_ms=T0)
    await frontier.bury([(leases[3], "gone")], now_ms=T0)
    await frontier.hand_back([(leases[4], 0)], now_ms=T0)
    assert await frontier.promote(now_ms=T0 + 2000) == 2
    await beat(frontier, leases, now_ms=T0 + 30_000)
    assert await frontier.reclaim(silence_ms=30_000, delay_ms=0, now_ms=T0 + 30_000) == 1
    await frontier.reassert(leases[5:6], {"a.test": 10}, now_ms=T0 + 30_000)
    visit = await frontier.visit("part.test", now_ms=T0 + 30_000)
    assert isinstance(visit, Visit)
    await frontier.visited([(visit, 1000)], now_ms=T0 + 30_000)
    control = await place.control()
    await control.pause()
    await control.resume()
    await control.host("a.test", exclude=True)
    await control.host("b.test", block=T0 + 50_000)
    assert await control.requeue() == 1
    assert await control.forget("http://h0.test/")
    assert await control.memory_share() > 1
    await frontier.register()
    await frontier.leave()
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.retried, sizes.reclaimed) == (2, 1, 1)


@pytest.mark.parametrize("mode", ["new", "all", "force"])
async def test_a_full_server_takes_no_urls_and_keeps_none_half(place: Place, mode: str) -> None:
    frontier = await place.instance()
    await fill(place)
    with pytest.raises(OutOfMemoryError):
        await frontier.add(entries(3), mode=mode)
    await place.redis.config_set("maxmemory", 0)
    assert (await frontier.add(entries(3))).answers == "111"
    assert (await frontier.sizes()).added == 3


async def test_a_full_server_takes_no_urls_into_a_bloom_filter_either(place: Place) -> None:
    frontier = await place.instance(tuning=Tuning(url_seen=bloom(1000)))
    await frontier.add(entries(1))
    await fill(place)
    with pytest.raises(OutOfMemoryError):
        await frontier.add(entries(3))
    assert (await (await place.control()).status("http://a.test/0")).state in ("known", "waiting")
    await place.redis.config_set("maxmemory", 0)
    assert (await frontier.add(entries(3))).answers == "011"


@pytest.mark.parametrize(
    ("setting", "value", "back"),
    [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")],
)
async def test_a_refusal_that_passes_is_one_to_wait_for(
    place: Place, setting: str, value: str, back: str
) -> None:
    frontier = await place.instance()
    await place.redis.config_set(setting, value)
    with pytest.raises(RedisAway):
        await frontier.add(entries(1))
    await place.redis.config_set(setting, back)
    assert (await frontier.add(entries(1))).answers == "1"


async def test_a_master_that_became_a_replica_is_one_to_wait_for(place: Place) -> None:
    frontier: Frontier = await place.instance()
    await place.redis.replicaof("127.0.0.1", 1)
    with pytest.raises(RedisAway):
        await beat(frontier)
    with pytest.raises(RedisAway):
        await frontier.claim(1, "r")
    await place.redis.replicaof("NO", "ONE")
    assert (await frontier.claim(1, "r")).state == "ok"
