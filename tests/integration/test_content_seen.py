"""Content that was stored before, in a real Redis."""

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from crawler.content_seen import MAX_DISTANCE, ContentSeen, Duplicate

ONE, TWO, THREE = 1, 2, 2**64 - 1
DIGEST, OTHER_DIGEST = b"a" * 32, b"b" * 32
SIMHASH = 0x0123_4567_89AB_CDEF


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as client:
        yield client


def seen_in(redis: Redis, crawl: str = "crawl") -> ContentSeen:
    return ContentSeen(redis, crawl, MAX_DISTANCE)


async def test_new_content_is_no_duplicate(redis: Redis) -> None:
    assert await seen_in(redis).find(ONE, DIGEST, SIMHASH) is None


async def test_looking_for_content_does_not_record_it(redis: Redis) -> None:
    await seen_in(redis).find(ONE, DIGEST, SIMHASH)
    assert await seen_in(redis).find(TWO, DIGEST, SIMHASH) is None


@pytest.mark.parametrize("simhash", [None, 0, SIMHASH])
async def test_the_same_bytes_are_an_exact_duplicate(redis: Redis, simhash: int | None) -> None:
    await seen_in(redis).record(THREE, DIGEST, simhash)
    assert await seen_in(redis).find(TWO, DIGEST, simhash) == Duplicate(of=THREE, distance=None)


async def test_a_page_is_no_duplicate_of_itself(redis: Redis) -> None:
    await seen_in(redis).record(ONE, DIGEST, SIMHASH)
    assert await seen_in(redis).find(ONE, DIGEST, SIMHASH) is None
    # Not of its former content either.
    assert await seen_in(redis).find(ONE, OTHER_DIGEST, SIMHASH ^ 1) is None


@pytest.mark.parametrize("bits", [0, 1, 0b11, 1 << 63 | 1, 1 | 1 << 20 | 1 << 40, 0b111 << 30])
async def test_texts_within_the_distance_are_near(redis: Redis, bits: int) -> None:
    await seen_in(redis).record(ONE, DIGEST, SIMHASH)
    found = await seen_in(redis).find(TWO, OTHER_DIGEST, SIMHASH ^ bits)
    assert found == Duplicate(of=ONE, distance=bits.bit_count())


@pytest.mark.parametrize("bits", [0b1111, 1 | 1 << 16 | 1 << 32 | 1 << 48, 2**64 - 1])
async def test_texts_beyond_the_distance_are_not(redis: Redis, bits: int) -> None:
    await seen_in(redis).record(ONE, DIGEST, SIMHASH)
    assert await seen_in(redis).find(TWO, OTHER_DIGEST, SIMHASH ^ bits) is None


async def test_every_pair_of_flipped_bits_is_found(redis: Redis) -> None:
    seen = seen_in(redis)
    await seen.record(ONE, DIGEST, SIMHASH)
    for bit in range(64):
        other = SIMHASH ^ (1 << bit) ^ (1 << (bit + 17) % 64)
        assert await seen.find(TWO, OTHER_DIGEST, other) == Duplicate(ONE, 2), bit


async def test_the_nearest_is_named(redis: Redis) -> None:
    seen = seen_in(redis)
    await seen.record(ONE, b"1" * 32, SIMHASH ^ 0b111)
    await seen.record(TWO, b"2" * 32, SIMHASH ^ 0b1)
    await seen.record(4, b"4" * 32, SIMHASH ^ 0b11)
    assert await seen.find(THREE, DIGEST, SIMHASH) == Duplicate(of=TWO, distance=1)


async def test_short_texts_are_compared_by_their_bytes_only(redis: Redis) -> None:
    await seen_in(redis).record(ONE, DIGEST, None)
    assert await seen_in(redis).find(TWO, OTHER_DIGEST, None) is None


async def test_the_first_page_with_a_content_stays_the_original(redis: Redis) -> None:
    await seen_in(redis).record(ONE, DIGEST, None)
    await seen_in(redis).record(TWO, DIGEST, None)
    assert await seen_in(redis).find(THREE, DIGEST, None) == Duplicate(of=ONE, distance=None)


async def test_crawls_know_nothing_of_each_other(redis: Redis) -> None:
    await seen_in(redis, "one").record(ONE, DIGEST, SIMHASH)
    assert await seen_in(redis, "two").find(TWO, DIGEST, SIMHASH) is None


async def test_a_page_crawled_again_and_again_pushes_no_other_out(redis: Redis) -> None:
    seen = seen_in(redis)
    await seen.record(ONE, DIGEST, SIMHASH)
    for _ in range(300):
        await seen.record(TWO, OTHER_DIGEST, SIMHASH)
    # Asked for by the second itself, so that only the first can be the answer.
    assert await seen.find(TWO, b"c" * 32, SIMHASH) == Duplicate(of=ONE, distance=0)


async def test_a_bucket_is_bounded_and_forgets_the_oldest(redis: Redis) -> None:
    seen = seen_in(redis)
    for number in range(300):
        # All share their lowest band and nothing else.
        simhash = number * 0x9E3779B97F4A7C15 << 16 & 2**64 - 1
        await seen.record(number, number.to_bytes(32, "big"), simhash)
    lengths = [await redis.llen(key) for key in await redis.keys("*near:0:0")]
    assert lengths == [200]
