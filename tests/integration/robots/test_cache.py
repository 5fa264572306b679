"""Rules of robots.txt files, shared through a real Redis."""

import random
from time import monotonic

import msgpack
import pytest
import redis.exceptions
from redis.asyncio import Redis

from crawler.robots.gate import CachedRules, RobotsCache
from crawler.robots.records import forget
from crawler.robots.rules import (
    MAX_BYTES,
    ForbiddenFile,
    RobotsRules,
    Unreachable,
)
from crawler.servers.redis.connection import connect
from crawler.servers.redis.invalidation import InvalidationReader

AUTHORITY = "http://h.test"
USAGE = "Content-Signal: ai-train=no"
BODY = b"User-agent: *\nDisallow: /private\nCrawl-delay: 3\n" + USAGE.encode()


def cache_in(redis: Redis, *, ttl_s: float = 1000.0, size: int = 10) -> RobotsCache:
    return RobotsCache(redis, "crawler", ttl_s=ttl_s, error_ttl_s=100.0, size=size)


def cache_that(redis: Redis, forbidden_is: str) -> RobotsCache:
    return RobotsCache(
        redis,
        "crawler",
        ttl_s=1000.0,
        error_ttl_s=100.0,
        size=10,
        forbidden_is=forbidden_is,
    )


async def get(cache: RobotsCache, authority: str) -> CachedRules | None:
    """What a process knows when it wants to fetch the file."""
    if (found := cache.recent(authority)) is not None:
        return found
    async with cache.locked(authority) as lock:
        return lock.found


def allows_root(found: CachedRules | None) -> bool:
    assert found is not None
    assert isinstance(found.rules, RobotsRules)
    return found.rules.allows(AUTHORITY + "/")


def forbids_private(found: CachedRules | None) -> bool:
    assert found is not None
    rules = found.rules
    assert isinstance(rules, RobotsRules)
    return rules.allows(AUTHORITY + "/") and not rules.allows(AUTHORITY + "/private")


async def test_unknown_rules_are_unknown(redis_client: Redis) -> None:
    assert await get(cache_in(redis_client), AUTHORITY) is None


async def test_rules_are_kept_and_shared_with_other_processes(redis_client: Redis) -> None:
    mine = cache_in(redis_client)
    assert forbids_private(await mine.put(AUTHORITY, BODY))
    assert forbids_private(await get(mine, AUTHORITY))
    found = await get(cache_in(redis_client), AUTHORITY)
    assert forbids_private(found)
    assert found is not None
    assert isinstance(found.rules, RobotsRules)
    assert found.rules.crawl_delay_s == 3.0
    assert found.rules.usage(AUTHORITY + "/page") == [USAGE]
    assert await get(mine, "https://h.test") is None


async def test_no_rules_at_all_are_known_to_be_none(redis_client: Redis) -> None:
    await cache_in(redis_client).put(AUTHORITY, b"")
    found = await get(cache_in(redis_client), AUTHORITY)
    assert found is not None
    assert isinstance(found.rules, RobotsRules)
    assert found.rules.allows(AUTHORITY + "/private")


@pytest.mark.parametrize("finder", ["allow", "deny"])
async def test_a_forbidden_file_is_for_each_crawl_what_it_takes_it_for(
    redis_client: Redis, finder: str
) -> None:
    known = await cache_that(redis_client, finder).put(AUTHORITY, ForbiddenFile())
    assert allows_root(known) is (finder == "allow")
    assert allows_root(await get(cache_that(redis_client, "allow"), AUTHORITY))
    assert not allows_root(await get(cache_that(redis_client, "deny"), AUTHORITY))


async def test_a_record_without_the_mark_of_forbidden_files_is_valid(
    redis_client: Redis,
) -> None:
    await cache_in(redis_client).put(AUTHORITY, BODY)
    record = msgpack.unpackb(await redis_client.get("robots:" + AUTHORITY))
    del record["withheld"]
    await redis_client.set("robots:" + AUTHORITY, msgpack.packb(record), px=10_000)
    assert forbids_private(await get(cache_in(redis_client), AUTHORITY))


async def test_an_unreachable_host_is_so_for_others_too_and_not_as_long(
    redis_client: Redis,
) -> None:
    mine = cache_in(redis_client)
    put = await mine.put(AUTHORITY, Unreachable("status 503"))
    assert put.rules == Unreachable("status 503")
    assert 89 <= put.left_s <= 110
    for cache in (mine, cache_in(redis_client)):
        found = await get(cache, AUTHORITY)
        assert found is not None
        assert found.rules == Unreachable("status 503")
        assert 80 <= found.left_s <= 110


async def test_a_host_that_asks_for_a_longer_wait_gets_it(redis_client: Redis) -> None:
    mine = cache_in(redis_client)
    known = await mine.put(AUTHORITY, Unreachable("status 503"), at_least_s=5000.0)
    assert 4_990 < known.left_s <= 5000.0
    other = await get(cache_in(redis_client), AUTHORITY)
    assert other is not None
    assert 4_990 < other.left_s <= 5000.0


async def test_rules_last_about_their_time_and_not_all_equally_long(redis_client: Redis) -> None:
    random.seed(1)
    mine = cache_in(redis_client)
    lasts = [(await mine.put(f"http://{number}.test", BODY)).left_s for number in range(20)]
    assert all(899 <= seconds <= 1100 for seconds in lasts)
    assert len(set(lasts)) > 10


async def test_after_their_time_rules_are_forgotten_everywhere(redis_client: Redis) -> None:
    mine = cache_in(redis_client, ttl_s=0.02)
    await mine.put(AUTHORITY, BODY)
    # Redis expires the key by itself; waiting for that is the test.
    while await redis_client.exists("robots:" + AUTHORITY):
        pass
    assert await get(cache_in(redis_client), AUTHORITY) is None
    while (await get(mine, AUTHORITY)) is not None:
        pass


async def test_memory_is_bounded_and_keeps_what_was_used_last(redis_client: Redis) -> None:
    mine = cache_in(redis_client, size=2)
    await mine.put("http://1.test", BODY)
    await mine.put("http://2.test", BODY)
    await get(mine, "http://1.test")
    await mine.put("http://3.test", BODY)
    await redis_client.flushall()
    assert await get(mine, "http://1.test") is not None
    assert await get(mine, "http://2.test") is None
    assert await get(mine, "http://3.test") is not None


async def test_a_big_file_counts_up_to_the_limit_and_is_kept_small(redis_client: Redis) -> None:
    body = b"User-agent: *\nDisallow: /private\n" + b"# filler\n" * 200_000 + b"Disallow: /late\n"
    await cache_in(redis_client).put(AUTHORITY, body)
    found = await get(cache_in(redis_client), AUTHORITY)
    assert forbids_private(found)
    assert found is not None
    assert isinstance(found.rules, RobotsRules)
    assert found.rules.allows(AUTHORITY + "/late")
    assert await redis_client.strlen("robots:" + AUTHORITY) < MAX_BYTES // 10


async def test_a_big_file_that_does_not_compress_is_kept(redis_client: Redis) -> None:
    noise = random.Random(1).randbytes(MAX_BYTES + 1)
    await cache_in(redis_client).put(AUTHORITY, b"User-agent: *\nDisallow: /private\n#" + noise)
    assert await get(cache_in(redis_client), AUTHORITY) is not None


async def test_hosts_with_the_same_short_file_share_its_rules(redis_client: Redis) -> None:
    mine, other = (
        cache_in(redis_client),
        RobotsCache(redis_client, "bot", ttl_s=9.0, error_ttl_s=9.0, size=9),
    )
    first = (await mine.put("http://1.test", BODY)).rules
    assert (await mine.put("http://2.test", BODY)).rules is first
    assert (await other.put("http://1.test", BODY)).rules is not first
    long = BODY + b"#" * 2000
    assert (await mine.put("http://1.test", long)).rules is not (
        await mine.put("http://2.test", long)
    ).rules


async def test_this_process_knows_the_rules_even_if_redis_is_away() -> None:
    # Nothing listens on the discard port.
    async with Redis.from_url("redis://127.0.0.1:9") as away:
        mine = cache_in(away)
        with pytest.raises(redis.exceptions.ConnectionError):
            await mine.put(AUTHORITY, BODY)
        assert forbids_private(await get(mine, AUTHORITY))


async def test_a_host_that_fails_again_and_again_is_left_alone_for_longer_by_all(
    redis_client: Redis,
) -> None:
    waits = []
    for _ in range(4):
        cache = cache_in(redis_client)
        waits.append((await cache.put(AUTHORITY, Unreachable("status 503"))).left_s)
    for wait_s, expected_s in zip(waits, (100, 200, 400, 800), strict=True):
        assert 0.89 * expected_s <= wait_s <= 1.1 * expected_s
    await cache_in(redis_client).put(AUTHORITY, BODY)
    again = await cache_in(redis_client).put(AUTHORITY, Unreachable("status 503"))
    assert again.left_s <= 110


async def test_failures_are_remembered_when_the_wait_is_over(redis_client: Redis) -> None:
    def impatient() -> RobotsCache:
        return RobotsCache(redis_client, "crawler", ttl_s=1000.0, error_ttl_s=0.01, size=10)

    await impatient().put(AUTHORITY, Unreachable("status 503"))
    while await get(impatient(), AUTHORITY) is not None:
        pass
    assert await redis_client.pttl("robots:" + AUTHORITY) > 3_500_000
    known = await impatient().put(AUTHORITY, Unreachable("status 503"))
    assert known.left_s > 0.0125


async def test_cache_control_may_shorten_the_time_of_rules(redis_client: Redis) -> None:
    cache = RobotsCache(redis_client, "crawler", ttl_s=86_400.0, error_ttl_s=100.0, size=10)
    known = await cache.put(AUTHORITY, BODY, cache_control=b"public, max-age=7200")
    assert 0.89 * 7200 <= known.left_s <= 1.1 * 7200
    assert monotonic() < known.refresh_from


async def test_one_process_at_a_time_fetches_a_file(redis_client: Redis) -> None:
    mine, other = cache_in(redis_client), cache_in(redis_client)
    key = "robots:lock:" + AUTHORITY
    async with mine.locked(AUTHORITY) as lock:
        assert lock.is_held
        assert lock.found is None
        async with other.locked(AUTHORITY) as locked_out:
            assert not locked_out.is_held
            assert locked_out.found is None
        async with other.locked("https://h.test") as of_another_file:
            assert of_another_file.is_held
        assert await redis_client.exists(key)
        await redis_client.pexpire(key, 1000)
        await other.extend(locked_out)
        assert await redis_client.pttl(key) <= 1000
        await mine.extend(lock)
        assert 19_000 < await redis_client.pttl(key) <= 20_000
    assert not await redis_client.exists(key)


async def test_a_lock_that_expired_does_not_free_that_of_another(redis_client: Redis) -> None:
    mine, other = cache_in(redis_client), cache_in(redis_client)
    key = "robots:lock:" + AUTHORITY
    async with mine.locked(AUTHORITY):
        # As if this process had stood still.
        await redis_client.delete(key)
        async with other.locked(AUTHORITY) as lock:
            assert lock.is_held
            before = await redis_client.get(key)
            async with mine.locked(AUTHORITY) as again:
                assert not again.is_held
            assert await redis_client.get(key) == before


async def test_a_lock_comes_with_what_others_fetched_and_storing_rules_releases_it(
    redis_client: Redis,
) -> None:
    mine, other = cache_in(redis_client), cache_in(redis_client)
    async with mine.locked(AUTHORITY) as lock:
        await mine.put(AUTHORITY, BODY, lock=lock)
        assert not await redis_client.exists("robots:lock:" + AUTHORITY)
        async with other.locked(AUTHORITY) as late:
            assert late.is_held
            assert late.found is not None
            assert isinstance(late.found.rules, RobotsRules)
            # The lock is another's by now.
            await mine.put(AUTHORITY, BODY, lock=lock)
            assert await redis_client.exists("robots:lock:" + AUTHORITY)


async def test_a_record_of_another_version_is_unknown(redis_client: Redis) -> None:
    await redis_client.set("robots:" + AUTHORITY, b"\x92\xc4\x00\xa0", px=10_000)
    assert await get(cache_in(redis_client), AUTHORITY) is None


async def test_a_forgotten_file_is_unknown_to_all(redis_client: Redis) -> None:
    mine, other = cache_in(redis_client), cache_in(redis_client)
    await mine.put(AUTHORITY, BODY)
    assert forbids_private(await get(other, AUTHORITY))
    await forget(redis_client, [AUTHORITY])
    for cache in (mine, other):
        # As the note lets it do.
        cache.forget(AUTHORITY)
        assert await get(cache, AUTHORITY) is None
    async with mine.locked(AUTHORITY) as lock:
        assert allows_root(await mine.put(AUTHORITY, b"", lock=lock))
    assert allows_root(await get(other, AUTHORITY))


async def test_a_process_that_asks_redis_need_not_read_the_note(redis_client: Redis) -> None:
    cache = cache_in(redis_client)
    known = await cache.put(AUTHORITY, Unreachable("status 503"))
    assert known is not None
    await forget(redis_client, [AUTHORITY])
    async with cache.locked(AUTHORITY) as lock:
        assert lock.is_held
        assert lock.found is None
    assert cache.recent(AUTHORITY) is None
    assert known.left_s <= 0


async def test_a_fetch_that_began_before_the_file_was_forgotten_stores_nothing(
    redis_client: Redis,
) -> None:
    mine, other = cache_in(redis_client), cache_in(redis_client)
    async with mine.locked(AUTHORITY) as lock:
        await forget(redis_client, [AUTHORITY])
        assert await mine.put(AUTHORITY, BODY, lock=lock) is None
    assert mine.recent(AUTHORITY) is None
    assert await get(other, AUTHORITY) is None
    # The next fetch began after that; but the file may be forgotten once more.
    async with mine.locked(AUTHORITY) as lock:
        assert lock.is_held
        await forget(redis_client, [AUTHORITY])
        assert await mine.put(AUTHORITY, BODY, lock=lock) is None
    async with mine.locked(AUTHORITY) as lock:
        assert forbids_private(await mine.put(AUTHORITY, BODY, lock=lock))


async def test_rules_that_are_forgotten_while_they_are_parsed_are_not_remembered(
    redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cache_in(redis_client).put(AUTHORITY, BODY)
    cache = cache_in(redis_client)

    async def parse(body: bytes) -> RobotsRules:
        cache.forget(AUTHORITY)
        return RobotsRules(body, "crawler")

    monkeypatch.setattr(RobotsCache, "_parse", lambda _self, body: parse(body))
    assert forbids_private(await get(cache, AUTHORITY))
    assert cache.recent(AUTHORITY) is None


async def test_all_files_may_be_forgotten(redis_client: Redis) -> None:
    cache = cache_in(redis_client)
    for number in range(3):
        await cache.put(f"http://h{number}.test", BODY)
    cache.forget(None)
    assert not any(cache.recent(f"http://h{number}.test") for number in range(3))
    assert cache._recent_bytes == 0


@pytest.mark.parametrize("server", ["oldest_redis_url", "redis_cluster_url"])
async def test_every_kind_of_server_stores_and_forgets_files(
    server: str, request: pytest.FixtureRequest
) -> None:
    client = await connect(request.getfixturevalue(server))
    reader, dropped = InvalidationReader(), []
    reader._drops["robots"] = dropped.append
    # Of several masters.
    for number in range(6):
        authority, cache = f"http://h{number}.test", cache_in(client)
        async with cache.locked(authority) as lock:
            assert await cache.put(authority, BODY, lock=lock) is not None
        async with cache.locked(authority) as lock:
            assert forbids_private(lock.found)
            await forget(client, [authority])
            assert await cache.put(authority, BODY, lock=lock) is None
        await reader.read(client)
        assert dropped.pop() == authority
    await client.aclose()
