"""Seeds that others push to Redis: in whatever kind of key, none is lost."""

from __future__ import annotations

import pytest

from crawler.frontier.start_urls import StartUrls
from tests.integration.frontier.fleet import Place

KEY = "web:start_urls"
A, B, C, D = (f"http://{name}.test/".encode() for name in "abcd")


async def test_pushed_urls_stay_until_they_are_dropped(place: Place) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.rpush(KEY, A, B, C)
    assert await pushed.read(2) == [A, B]
    assert await pushed.read(2) == [A, B]
    # Another process pushes at the same time, on either side.
    await place.redis.lpush(KEY, D)
    await pushed.drop([A, B])
    assert await pushed.read() == [D, C]


async def test_of_a_url_pushed_twice_one_is_dropped(place: Place) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.rpush(KEY, A, A)
    await pushed.drop([A])
    assert await pushed.read() == [A]
    await pushed.drop([])


async def test_a_set_is_read_as_well(place: Place) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.sadd(KEY, A, B, C)
    assert sorted(await pushed.read()) == [A, B, C]
    assert len(await pushed.read(2)) == 2
    await pushed.drop([A, C])
    assert await pushed.read() == [B]


async def test_of_a_sorted_set_the_highest_come_first(place: Place) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.zadd(KEY, {A: 1, B: 3, C: 2})
    assert await pushed.read(2) == [B, C]
    await pushed.drop([B, C])
    assert await pushed.read() == [A]


async def test_a_key_may_become_another_kind_when_it_is_empty(place: Place) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.sadd(KEY, A)
    await pushed.drop(await pushed.read())
    assert await pushed.read() == []
    await place.redis.rpush(KEY, B)
    assert await pushed.read() == [B]
    await pushed.drop([B])
    assert not await place.redis.exists(KEY)


async def test_a_key_of_another_kind_is_told_once_and_left_alone(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    pushed = StartUrls(place.redis, KEY)
    await place.redis.set(KEY, A)
    assert await pushed.read() == []
    assert await pushed.read() == []
    [line] = [record.getMessage() for record in caplog.records]
    assert "'web:start_urls' in Redis is a string" in line
    assert "REDIS_START_URLS_KEY" in line
    assert await place.redis.get(KEY) == A


async def test_one_process_at_a_time_is_alone(place: Place) -> None:
    one, other = StartUrls(place.redis, KEY), StartUrls(place.redis, KEY)
    async with one.alone() as first, other.alone() as second:
        assert (first, second) == (True, False)
    # Who was not alone has not let the other out of the room.
    async with one.alone() as first:
        async with other.alone():
            pass
        async with other.alone() as second:
            assert not second
    async with other.alone() as second:
        assert second
    assert not await place.redis.exists(f"{KEY}:lock")


async def test_a_lock_that_ran_out_is_the_next_one_s(place: Place) -> None:
    one, other = StartUrls(place.redis, KEY), StartUrls(place.redis, KEY)
    async with one.alone() as first:
        assert first
        assert 0 < await place.redis.pttl(f"{KEY}:lock") <= 30_000
        await place.redis.delete(f"{KEY}:lock")
        second = other.alone()
        assert await second.__aenter__()
    assert await place.redis.exists(f"{KEY}:lock")
    await second.__aexit__(None, None, None)
