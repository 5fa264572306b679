"""Content that was stored before, in a real Redis and on a real cluster."""

import hashlib
from itertools import combinations

import pytest

from crawler.dedup.buckets import BUCKET_MAX
from crawler.dedup.index import ContentIndex, NotCompared
from crawler.dedup.near import Content, Duplicate
from crawler.dedup.simhash_tables import MAX_DISTANCE, SMALL
from crawler.frontier.frontier import tags
from crawler.servers.redis.connection import Client, connect
from tests.support.cluster import RedisProcess
from tests.support.waiting import until

ONE, TWO, THREE = 1, 2, 2**64 - 1
DIGEST, OTHER_DIGEST = b"a" * 32, b"b" * 32
SIMHASH = 0x0123_4567_89AB_CDEF
TEXT = Content(DIGEST, SIMHASH)
LARGE = 10 * SMALL


async def seen_in(
    redis: Client, crawl: str = "crawl", *, shards: int = 1, pages: int = 1000
) -> ContentIndex:
    return await ContentIndex.open(
        redis, crawl, tags(crawl, shards), pages=pages, max_distance=MAX_DISTANCE
    )


async def keep(seen: ContentIndex, url_id: int, now: Content | None, **before: Content) -> None:
    seen.remember(url_id, now, **before)
    await seen.flush()


def digest(number: int) -> bytes:
    """The hash of some body."""
    return hashlib.sha256(b"%d" % number).digest()


def text(bits: int = 0, hashed: bytes = OTHER_DIGEST) -> Content:
    """A text of other bytes, so many bits away."""
    return Content(hashed, SIMHASH ^ bits)


def in_one_bucket(number: int) -> Content:
    """All share their lowest quarter and no other."""
    return Content(digest(number), number << 16 | number << 44)


async def test_new_content_is_no_duplicate(redis_client: Client) -> None:
    assert await (await seen_in(redis_client)).find(ONE, TEXT) is None


async def test_looking_for_content_does_not_record_it(redis_client: Client) -> None:
    await (await seen_in(redis_client)).find(ONE, TEXT)
    assert await (await seen_in(redis_client)).find(TWO, TEXT) is None


@pytest.mark.parametrize("simhash", [None, 0, SIMHASH])
async def test_the_same_bytes_are_an_exact_duplicate(
    redis_client: Client, simhash: int | None
) -> None:
    content = Content(DIGEST, simhash)
    await keep(await seen_in(redis_client), THREE, content)
    assert await (await seen_in(redis_client)).find(TWO, content) == Duplicate(
        original=THREE, distance=None
    )


async def test_the_bytes_are_looked_at_before_the_text(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, text(0, b"1" * 32))
    await keep(seen, TWO, Content(DIGEST, SIMHASH ^ 2**63))
    assert await seen.find(THREE, TEXT) == Duplicate(original=TWO, distance=None)


async def test_a_page_is_no_duplicate_of_itself(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, TEXT)
    assert await seen.find(ONE, TEXT) is None
    assert await seen.find(ONE, text(0b11)) is None


@pytest.mark.parametrize("pages", [1000, LARGE])
@pytest.mark.parametrize("bits", [0, 1, 0b101, 1 << 63 | 1 << 31 | 1, 0b111 << 14])
async def test_texts_that_differ_little_are_near_duplicates(
    redis_client: Client, bits: int, pages: int
) -> None:
    await keep(await seen_in(redis_client, pages=pages), ONE, TEXT)
    found = await (await seen_in(redis_client, pages=pages)).find(TWO, text(bits))
    assert found == Duplicate(original=ONE, distance=bits.bit_count())


@pytest.mark.parametrize("bits", [0b1111, 1 | 1 << 16 | 1 << 32 | 1 << 48, 2**64 - 1])
async def test_texts_beyond_the_distance_are_not(redis_client: Client, bits: int) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, TEXT)
    assert await seen.find(TWO, text(bits)) is None


@pytest.mark.parametrize("pages", [1_000_000, LARGE])
async def test_whichever_three_bits_differ_it_is_found(redis_client: Client, pages: int) -> None:
    seen = await seen_in(redis_client, pages=pages)
    await keep(seen, ONE, TEXT)
    for bits in combinations(range(0, 64, 5), 3):
        other = text(sum(1 << bit for bit in bits))
        assert await seen.find(TWO, other) == Duplicate(ONE, 3), bits


async def test_the_nearest_is_named_and_of_several_the_oldest(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, text(0b111, b"1" * 32))
    await keep(seen, TWO, text(0b1, b"2" * 32))
    await keep(seen, 4, text(0b1, b"4" * 32))
    assert await seen.find(THREE, TEXT) == Duplicate(original=TWO, distance=1)


async def test_short_texts_are_compared_by_their_bytes_only(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, Content(DIGEST, None))
    assert await seen.find(TWO, Content(OTHER_DIGEST, None)) is None


async def test_the_first_page_with_a_content_stays_the_original(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, TEXT)
    await keep(seen, TWO, TEXT)
    assert await seen.find(THREE, TEXT) == Duplicate(original=ONE, distance=None)


async def test_of_two_that_were_stored_at_the_same_time_none_becomes_a_duplicate(
    redis_client: Client,
) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, text(0b1, b"1" * 32))
    await keep(seen, TWO, text(0b10, b"2" * 32))
    assert await seen.find(ONE, text(0b1, b"1" * 32)) is None
    assert await seen.find(TWO, text(0b10, b"2" * 32)) is None


async def test_a_page_that_changed_is_no_original_of_its_past(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, TEXT)
    changed = Content(OTHER_DIGEST, SIMHASH ^ 0xFF << 8)
    await keep(seen, ONE, changed, before=TEXT)
    assert await seen.find(TWO, TEXT) is None
    assert await seen.find(TWO, text(0b1, b"c" * 32)) is None
    assert await seen.find(TWO, changed) == Duplicate(ONE, None)


async def test_a_page_that_became_a_duplicate_is_no_original_any_more(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, TEXT)
    await keep(seen, ONE, None, before=TEXT)
    assert await seen.find(TWO, TEXT) is None
    assert await redis_client.keys("*:c[0-9x]:*") == []


async def test_a_text_that_two_pages_have_stays_when_one_of_them_changes(
    redis_client: Client,
) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, text(0, b"1" * 32))
    await keep(seen, TWO, text(0, b"2" * 32))
    await keep(seen, ONE, None, before=text(0, b"1" * 32))
    for bit in range(0, 64, 7):
        assert await seen.find(THREE, text(1 << bit)) == Duplicate(original=TWO, distance=1)


@pytest.mark.parametrize("pages", [1000, LARGE])
async def test_a_page_can_be_forgotten_by_its_fingerprint_alone(
    redis_client: Client, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The larger index would have two million buckets to look through.
    monkeypatch.setattr("crawler.dedup.buckets._BUCKET_RECORDS", pages // 16)
    seen = await seen_in(redis_client, pages=pages)
    await keep(seen, ONE, TEXT)
    await keep(seen, TWO, Content(OTHER_DIGEST, ~SIMHASH & 2**64 - 1))
    assert await seen.forget(ONE)
    assert not await seen.forget(ONE)
    assert await seen.find(THREE, TEXT) is None
    assert await seen.find(THREE, text(0b1, b"c" * 32)) is None
    assert await seen.find(THREE, Content(OTHER_DIGEST, None)) == Duplicate(TWO, None)


async def test_crawls_know_nothing_of_each_other(redis_client: Client) -> None:
    await keep(await seen_in(redis_client, "one"), ONE, TEXT)
    assert await (await seen_in(redis_client, "two")).find(TWO, TEXT) is None


async def test_a_crawl_keeps_the_size_it_was_made_for(redis_client: Client) -> None:
    await keep(await seen_in(redis_client, pages=1000), ONE, TEXT)
    assert await (await seen_in(redis_client, pages=LARGE)).find(TWO, text(0b1)) == Duplicate(
        ONE, 1
    )


async def test_a_page_crawled_again_and_again_has_one_record(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for _ in range(5):
        await keep(seen, ONE, TEXT)
    sizes = sorted(
        [await redis_client.strlen(key) for key in await redis_client.keys("*:c[0-9x]:*")]
    )
    assert sizes == [8, 8, 8, 16, 16]


async def test_a_bucket_is_bounded_and_forgets_the_oldest(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(1, BUCKET_MAX + 2):
        seen.remember(number, in_one_bucket(number))
    await seen.flush()
    (bucket,) = [await redis_client.get(key) for key in await redis_client.keys("*:c0:*")]
    assert len(bucket) <= BUCKET_MAX * 16
    owners = [
        int.from_bytes(bucket[at + 8 : at + 16], "little") for at in range(0, len(bucket), 16)
    ]
    kept = BUCKET_MAX * 7 // 8 + 1
    assert [owner for owner in owners if owner] == list(range(BUCKET_MAX + 2))[-kept:]
    newest = in_one_bucket(BUCKET_MAX + 1)
    near = Content(DIGEST, newest.simhash ^ 1)
    assert await seen.find(THREE, near) == Duplicate(BUCKET_MAX + 1, 1)


async def test_most_records_are_written_into_their_bucket(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(1, 301):
        seen.remember(number, in_one_bucket(number))
    await redis_client.config_resetstat()
    for number in range(301, 401):
        seen.remember(number, in_one_bucket(number))
    await seen.flush()
    stats = await redis_client.info("commandstats")
    # Of a hundred, in the first table; those of the other tables have buckets of their own.
    (bucket,) = await redis_client.keys("*:c0:*")
    assert 400 * 16 <= await redis_client.strlen(bucket) <= 450 * 16
    assert stats["cmdstat_setrange"]["calls"] >= 90
    for number in (1, 300, 301, 400):
        content = in_one_bucket(number)
        near = Content(DIGEST, content.simhash ^ 1)
        assert await seen.find(THREE, near) == Duplicate(number, 1)


async def test_records_can_be_taken_out_of_a_bucket_with_room(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(1, 41):
        seen.remember(number, in_one_bucket(number))
    await seen.flush()
    for number in range(1, 41):
        await keep(seen, number, None, before=in_one_bucket(number))
        assert await seen.find(THREE, Content(digest(number), None)) is None
        left = await seen.find(THREE, Content(DIGEST, in_one_bucket(40).simhash))
        assert left == (Duplicate(40, 0) if number < 40 else None)
    assert await redis_client.keys("*:c[0-9x]:*") == []


async def test_room_in_a_bucket_is_nobodys_content(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(1, 17):
        seen.remember(number, in_one_bucket(number))
    await seen.flush()
    (bucket,) = [await redis_client.get(key) for key in await redis_client.keys("*:c0:*")]
    assert bucket.endswith(b"\0" * 16)
    assert await seen.find(THREE, Content(DIGEST, 0b111)) is None
    assert not await seen.forget(0)


@pytest.mark.parametrize("shards", [1, 4])
async def test_many_at_once_take_two_commands(redis_client: Client, shards: int) -> None:
    seen = await seen_in(redis_client, shards=shards)
    await keep(seen, ONE, TEXT)
    await redis_client.config_resetstat()
    for number in range(2, 60):
        seen.remember(number, Content(digest(number), number * 0x9E3779B97F4A7C15 % 2**64))
    # In the same batch: what is remembered comes first.
    assert await seen.find(THREE, Content(digest(2), None)) == Duplicate(2, None)
    calls = {
        name: stat["calls"] for name, stat in (await redis_client.info("commandstats")).items()
    }
    assert calls["cmdstat_mget"] == 1
    assert calls["cmdstat_evalsha"] == 1


async def test_all_is_flushed_however_much_it_is(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(203):
        seen.remember(number, Content(digest(number), None))
    await seen.flush()
    newest = Content(digest(202), None)
    assert await (await seen_in(redis_client)).find(THREE, newest) == Duplicate(202, None)


async def test_what_is_remembered_reaches_redis_without_being_asked_to(
    redis_client: Client,
) -> None:
    seen = await seen_in(redis_client)
    seen.remember(ONE, TEXT)
    assert await until(lambda: seen.find(TWO, TEXT)) == Duplicate(ONE, None)


async def test_without_redis_nothing_is_compared_and_nothing_hangs(
    redis_process: RedisProcess,
) -> None:
    client = await connect(redis_process.url)
    seen = await seen_in(client)
    redis_process.kill()
    with pytest.raises(NotCompared):
        await seen.find(ONE, TEXT)
    await keep(seen, ONE, TEXT)
    assert seen.lost == 1
    redis_process.start()
    assert await seen.find(TWO, TEXT) is None
    await keep(seen, ONE, TEXT)
    assert await seen.find(TWO, TEXT) == Duplicate(ONE, None)
    await client.aclose()


async def test_on_a_cluster_the_buckets_spread_and_all_is_found(redis_cluster_url: str) -> None:
    client = await connect(redis_cluster_url)
    seen = await seen_in(client, shards=12)
    for number in range(1, 41):
        seen.remember(number, Content(bytes([number]) * 32, number * 0x9E3779B97F4A7C15 % 2**64))
    await seen.flush()
    assert seen.lost == 0
    for number in range(1, 41):
        near = Content(DIGEST, number * 0x9E3779B97F4A7C15 % 2**64 ^ 0b11)
        assert await seen.find(THREE, near) == Duplicate(number, 2)
        assert await seen.find(THREE, Content(bytes([number]) * 32, None)) == Duplicate(
            number, None
        )
    assert await seen.forget(7)
    assert await seen.find(THREE, Content(bytes([7]) * 32, None)) is None
    assert len({name.partition(b"}")[0] for name in await client.keys("*:c0:*")}) > 3
    await client.aclose()
