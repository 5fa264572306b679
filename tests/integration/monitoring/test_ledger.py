"""Figures of processes add up in Redis, and survive its absence and their deaths."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawler.frontier import Frontier
from crawler.monitoring.ledger import MINUTES_MAX, SINGLE_MINUTES, Ledger, read
from crawler.servers.redis.connection import connect
from crawler.servers.redis.errors import RedisAway

NOW_S = 1_800_000_030.0


@pytest.fixture(params=["redis_url", "redis_cluster_url"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    client = await connect(request.getfixturevalue(request.param))
    yield client
    await client.aclose()


async def test_processes_add_what_they_counted_since_they_last_did(redis: Any) -> None:
    one, two = Ledger(redis, "crawl"), Ledger(redis, "crawl")
    await one.add({"pages": 3, "status/200": 3}, now_s=NOW_S)
    await two.add({"pages": 10}, now_s=NOW_S)
    await one.add({"pages": 5, "status/200": 3}, now_s=NOW_S + 60)
    fleet = await read(redis, "crawl", minutes=3, now_s=NOW_S + 60)
    assert fleet.totals == {"pages": 15, "status/200": 3}
    assert [minute.figures.get("pages") for minute in fleet.minutes] == [None, 13, 2]
    assert fleet.sum(2) == {"pages": 15, "status/200": 3}
    assert fleet.minutes[-1].at_s == 1_800_000_060


async def test_minutes_expire_and_totals_do_not(redis: Any) -> None:
    await Ledger(redis, "crawl").add({"pages": 1}, now_s=NOW_S)
    assert 0 < await redis.ttl("{crawl}:minute:30000000") <= SINGLE_MINUTES * 60
    assert 0 < await redis.ttl("{crawl}:ten_minutes:3000000") <= MINUTES_MAX * 60
    assert await redis.ttl("{crawl}:totals") == -1


async def test_a_day_comes_in_tens_of_minutes(redis: Any) -> None:
    ledger = Ledger(redis, "crawl")
    await ledger.add({"pages": 1}, now_s=NOW_S)
    await ledger.add({"pages": 3}, now_s=NOW_S + 540)
    await ledger.add({"pages": 7}, now_s=NOW_S + 600)
    day = await read(redis, "crawl", minutes=MINUTES_MAX, now_s=NOW_S + 600)
    assert len(day.minutes) == 144
    assert {minute.length_s for minute in day.minutes} == {600}
    assert [minute.figures.get("pages") for minute in day.minutes[-3:]] == [None, 3, 4]
    assert day.sum(60) == {"pages": 7}
    # Longer than that is not kept.
    assert len((await read(redis, "crawl", minutes=9999, now_s=NOW_S)).minutes) == 144


async def test_another_crawl_has_its_own_figures(redis: Any) -> None:
    await Ledger(redis, "crawl").add({"pages": 1}, now_s=NOW_S)
    fleet = await read(redis, "other", now_s=NOW_S)
    assert fleet.totals == {}
    assert fleet.sum(60) == {}


async def test_what_redis_did_not_take_is_sent_again(redis_url: str) -> None:
    redis = await connect(redis_url)
    ledger = Ledger(redis, "crawl")
    await ledger.add({"pages": 2}, now_s=NOW_S)
    await redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(RedisAway):
            await ledger.add({"pages": 7}, now_s=NOW_S)
    finally:
        await redis.config_set("maxmemory", 0)
    await ledger.add({"pages": 9}, now_s=NOW_S)
    assert (await read(redis, "crawl")).totals["pages"] == 9
    await redis.aclose()


async def test_the_fleet_is_read_with_what_its_instances_say(redis_url: str) -> None:
    redis = await connect(redis_url)
    frontier = Frontier(redis, "crawl")
    await frontier.open({"machine": "m", "pages_per_s": 4.5})
    fleet = await read(redis, "crawl")
    (about,) = fleet.instances.values()
    assert (about["machine"], about["pages_per_s"]) == ("m", 4.5)
    assert 0 <= about["silent_s"] < 60
    await redis.aclose()
