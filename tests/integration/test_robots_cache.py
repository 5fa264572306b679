"""Rules of robots.txt files, shared through a real Redis."""

import random
from collections.abc import AsyncIterator

import pytest
import redis.exceptions
from redis.asyncio import Redis

from crawler.policy.robots import MAX_BYTES, Rules, Unreachable
from crawler.robots_cache import RobotsCache

AUTHORITY = "http://h.test"
BODY = b"User-agent: *\nDisallow: /private\nCrawl-delay: 3\n"


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as redis:
        yield redis


def cache_in(redis: Redis, *, ttl_s: float = 1000.0, size: int = 10) -> RobotsCache:
    return RobotsCache(redis, "crawler", ttl_s=ttl_s, error_ttl_s=100.0, size=size)


def forbids_private(found: tuple[Rules | Unreachable, float] | None) -> bool:
    assert found is not None
    rules = found[0]
    assert isinstance(rules, Rules)
    return rules.allows(AUTHORITY + "/") and not rules.allows(AUTHORITY + "/private")


async def test_unknown_rules_are_unknown(client: Redis) -> None:
    assert await cache_in(client).get(AUTHORITY) is None


async def test_rules_are_kept_and_shared_with_other_processes(client: Redis) -> None:
    mine = cache_in(client)
    assert forbids_private(await mine.put(AUTHORITY, BODY))
    assert forbids_private(await mine.get(AUTHORITY))
    found = await cache_in(client).get(AUTHORITY)
    assert forbids_private(found)
    assert found is not None
    assert isinstance(found[0], Rules)
    assert found[0].crawl_delay_s == 3.0
    assert await mine.get("https://h.test") is None


async def test_no_rules_at_all_are_known_to_be_none(client: Redis) -> None:
    await cache_in(client).put(AUTHORITY, b"")
    found = await cache_in(client).get(AUTHORITY)
    assert found is not None
    assert isinstance(found[0], Rules)
    assert found[0].allows(AUTHORITY + "/private")


async def test_an_unreachable_host_is_so_for_others_too_and_not_as_long(client: Redis) -> None:
    mine = cache_in(client)
    put, put_s = await mine.put(AUTHORITY, Unreachable("status 503"))
    assert put == Unreachable("status 503")
    assert 90 <= put_s <= 110
    for cache in (mine, cache_in(client)):
        found = await cache.get(AUTHORITY)
        assert found is not None
        assert found[0] == Unreachable("status 503")
        assert 80 <= found[1] <= 110


async def test_a_host_that_asks_for_a_longer_wait_gets_it(client: Redis) -> None:
    mine = cache_in(client)
    _, wait_s = await mine.put(AUTHORITY, Unreachable("status 503"), at_least_s=5000.0)
    assert wait_s == 5000.0
    assert 4_990_000 < await client.pttl("robots:" + AUTHORITY) <= 5_000_000


async def test_rules_last_about_their_time_and_not_all_equally_long(client: Redis) -> None:
    random.seed(1)
    mine = cache_in(client)
    lasts = [(await mine.put(f"http://{number}.test", BODY))[1] for number in range(20)]
    assert all(900 <= seconds <= 1100 for seconds in lasts)
    assert len(set(lasts)) > 10


async def test_after_their_time_rules_are_forgotten_everywhere(client: Redis) -> None:
    mine = cache_in(client, ttl_s=0.02)
    await mine.put(AUTHORITY, BODY)
    # Redis expires the key by itself; waiting for that is the test.
    while await client.exists("robots:" + AUTHORITY):
        pass
    assert await cache_in(client).get(AUTHORITY) is None
    while (await mine.get(AUTHORITY)) is not None:
        pass


async def test_memory_is_bounded_and_keeps_what_was_used_last(client: Redis) -> None:
    mine = cache_in(client, size=2)
    await mine.put("http://1.test", BODY)
    await mine.put("http://2.test", BODY)
    await mine.get("http://1.test")
    await mine.put("http://3.test", BODY)
    await client.flushall()
    assert await mine.get("http://1.test") is not None
    assert await mine.get("http://2.test") is None
    assert await mine.get("http://3.test") is not None


async def test_a_big_file_counts_up_to_the_limit_and_is_kept_small(client: Redis) -> None:
    body = b"User-agent: *\nDisallow: /private\n" + b"# filler\n" * 200_000 + b"Disallow: /late\n"
    await cache_in(client).put(AUTHORITY, body)
    found = await cache_in(client).get(AUTHORITY)
    assert forbids_private(found)
    assert found is not None
    assert isinstance(found[0], Rules)
    assert found[0].allows(AUTHORITY + "/late")
    assert await client.strlen("robots:" + AUTHORITY) < MAX_BYTES // 10


async def test_a_big_file_that_does_not_compress_is_kept(client: Redis) -> None:
    noise = random.Random(1).randbytes(MAX_BYTES + 1)
    await cache_in(client).put(AUTHORITY, b"User-agent: *\nDisallow: /private\n#" + noise)
    assert await cache_in(client).get(AUTHORITY) is not None


async def test_this_process_knows_the_rules_even_if_redis_is_away() -> None:
    # Nothing listens on the discard port.
    async with Redis.from_url("redis://127.0.0.1:9") as away:
        mine = cache_in(away)
        with pytest.raises(redis.exceptions.ConnectionError):
            await mine.put(AUTHORITY, BODY)
        assert forbids_private(await mine.get(AUTHORITY))
