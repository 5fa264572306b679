"""Near-duplicates by MinHash, in a real Redis and on a real cluster."""

import hashlib
import logging
import random
from collections.abc import Sequence

import pytest

from crawler.dedup.content import majorities, shingles_of
from crawler.dedup.index import MINHASH, SIMHASH, ContentIndex
from crawler.dedup.minhash import label_of, sketches
from crawler.dedup.near import Content, Duplicate
from crawler.frontier.frontier import tags
from crawler.servers.redis.connection import Client, connect
from crawler.urls import fingerprint

ONE, TWO, THREE = (fingerprint(f"http://h.test/{number}") for number in range(3))
WORDS = [f"word{number}" for number in range(3000)]
KEYS = "*:c[0-9mxs]*"


async def seen_in(
    redis: Client, *, shards: int = 1, pages: int = 1000, similarity: float = 0.9
) -> ContentIndex:
    return await ContentIndex.open(
        redis,
        "crawl",
        tags("crawl", shards),
        pages=pages,
        near_by=MINHASH,
        similarity=similarity,
    )


def words(seed: int, count: int = 400) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def edited(text: Sequence[str], changes: int) -> list[str]:
    """The text with so many words changed; each changes three shingles."""
    step = len(text) // (changes + 1)
    places = {step * number for number in range(1, changes + 1)}
    return ["changed" if at in places else word for at, word in enumerate(text)]


def content(text: Sequence[str], host: str = "h.test", title: str = "") -> Content:
    parts = [part for part in shingles_of([" ".join(text)], 3) if part is not None]
    digest = hashlib.sha256(" ".join(text).encode()).digest()
    sketch = sketches(parts)[0] + label_of(host, title)
    return Content(digest, majorities(parts)[0], sketch)


async def keep(
    seen: ContentIndex, url_id: int, now: Content | None, before: Content | None = None
) -> None:
    seen.remember(url_id, now, before)
    await seen.flush()


@pytest.mark.parametrize("changes", [1, 3, 6])
async def test_a_text_with_a_few_other_words_is_a_near_duplicate(
    redis_client: Client, changes: int
) -> None:
    await keep(await seen_in(redis_client), ONE, content(words(1)))
    found = await (await seen_in(redis_client)).find(TWO, content(edited(words(1), changes)))
    assert found is not None
    assert (found.original, found.distance) == (ONE, None)
    truth = (398 - 3 * changes) / (398 + 3 * changes)
    assert found.similarity == pytest.approx(truth, abs=0.06)


@pytest.mark.parametrize("changes", [25, 60, 200])
async def test_a_text_with_many_other_words_is_none(redis_client: Client, changes: int) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(words(1)))
    assert await seen.find(TWO, content(edited(words(1), changes))) is None
    assert await seen.find(TWO, content(words(2))) is None


async def test_pages_of_one_host_with_different_titles_are_two(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    text, near = words(1), edited(words(1), 1)
    await keep(seen, ONE, content(text, title="Chair"))
    assert await seen.find(TWO, content(near, title="Table")) is None
    assert await seen.find(TWO, content(near, title="Chair")) is not None
    assert await seen.find(TWO, content(near, host="other.test", title="Table")) is not None
    # The same bytes have the same title.
    assert await seen.find(TWO, content(text, title="Table")) == Duplicate(ONE)


async def test_with_a_similarity_of_one_texts_must_be_equal(redis_client: Client) -> None:
    seen = await seen_in(redis_client, similarity=1)
    await keep(seen, ONE, content(words(1)))
    same = content(words(1))._replace(digest=b"x" * 32)
    assert await seen.find(TWO, same) == Duplicate(ONE, similarity=1)
    assert await seen.find(TWO, content(edited(words(1), 3))) is None


async def test_the_same_bytes_come_first(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(words(1)))
    assert await seen.find(TWO, content(words(1))) == Duplicate(ONE)


async def test_the_most_similar_page_is_named(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(edited(words(1), 10)))
    await keep(seen, TWO, content(edited(words(1), 1)))
    found = await seen.find(THREE, content(words(1)))
    assert found is not None
    assert found.original == TWO


async def test_a_page_is_no_duplicate_of_itself(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(words(1)))
    assert await seen.find(ONE, content(edited(words(1), 2))) is None


async def test_a_short_text_is_compared_by_its_bytes_only(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, Content(b"1" * 32, None))
    assert await seen.find(TWO, Content(b"2" * 32, None)) is None
    assert await seen.find(TWO, Content(b"1" * 32, None)) == Duplicate(ONE)


async def test_a_page_that_changed_leaves_nothing_of_its_past(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    old, new = content(words(1)), content(words(2))
    await keep(seen, ONE, new)
    keys = {key: await redis_client.strlen(key) for key in await redis_client.keys(KEYS)}
    await redis_client.delete(*keys)
    await keep(seen, ONE, old)
    # As a recrawl knows its last visit: the beginning of the digest, and no sketch.
    await keep(seen, ONE, new, before=Content(old.digest[:12], old.simhash))
    assert await seen.find(TWO, content(edited(words(1), 1))) is None
    assert await seen.find(TWO, old) is None
    found = await seen.find(TWO, content(edited(words(2), 1)))
    assert found is not None
    assert found.original == ONE
    left = {key: await redis_client.strlen(key) for key in await redis_client.keys(KEYS)}
    assert left == keys


async def test_a_page_that_changed_a_little_has_one_sketch(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for changes in range(5):
        await keep(seen, ONE, content(edited(words(1), changes)))
    (sketches_key,) = await redis_client.keys("*:cs:*")
    assert await redis_client.strlen(sketches_key) == 100
    assert [await redis_client.strlen(key) for key in await redis_client.keys("*:cm*")] == [8] * 5


async def test_the_text_of_a_page_that_became_too_short_is_removed(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    old = content(words(1))
    await keep(seen, ONE, old)
    await keep(seen, ONE, Content(b"2" * 32, None), before=Content(old.digest[:12], old.simhash))
    assert await redis_client.keys("*:c[ms]*") == []


async def test_a_page_that_became_a_duplicate_is_no_original_any_more(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    old = content(words(1))
    await keep(seen, ONE, old)
    await keep(seen, ONE, None, before=Content(old.digest[:12], old.simhash))
    assert await redis_client.keys(KEYS) == []


async def test_a_duplicate_is_no_original_though_its_last_visit_is_not_known(
    redis_client: Client,
) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(words(1)))
    await keep(seen, ONE, None)
    assert await seen.find(TWO, content(edited(words(1), 1))) is None


async def test_pages_with_the_same_text_are_removed_one_by_one(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    text = content(words(1))
    for url_id in (ONE, TWO):
        await keep(seen, url_id, text._replace(digest=b"%d" % url_id * 3))
    assert await seen.forget(ONE)
    found = await seen.find(THREE, text)
    assert found == Duplicate(TWO, similarity=1)


async def test_a_page_can_be_forgotten_by_its_url_as_commands_do(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await keep(seen, ONE, content(words(1)))
    await keep(seen, TWO, content(words(2)))
    opened = await ContentIndex.open_existing(redis_client, "crawl", tags("crawl", 1))
    assert opened is not None
    assert await opened.forget(ONE)
    assert not await opened.forget(ONE)
    assert await seen.find(THREE, content(edited(words(1), 1))) is None
    assert await seen.find(THREE, content(edited(words(2), 1))) is not None


@pytest.mark.parametrize(("begun", "given"), [(MINHASH, SIMHASH), (SIMHASH, MINHASH)])
async def test_a_crawl_keeps_the_method_it_was_created_with(
    redis_client: Client, begun: str, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "crawler.dedup.index")
    for near_by in (begun, given):
        seen = await ContentIndex.open(
            redis_client, "crawl", tags("crawl", 1), pages=1000, near_by=near_by
        )
    assert seen.compares_sketches == (begun == MINHASH)
    assert f"NEAR_BY stays {begun}, as this crawl was created with; set it so" in caplog.messages


async def test_a_crawl_of_an_earlier_release_is_compared_by_simhash(redis_client: Client) -> None:
    await redis_client.hset("{crawl}:content", "pages", 5000)
    assert not (await seen_in(redis_client)).compares_sketches


async def test_room_in_a_bucket_is_nobodys_text(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    for number in range(40):
        await keep(seen, fingerprint(f"http://h.test/{number}"), content(words(number, 60)))
    empty = Content(b"e" * 32, 0, b"\0" * 92)
    assert await seen.find(0, empty) is None
    assert not await seen.forget(0)


async def test_pages_with_one_text_do_not_hold_up_the_lookup(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    text = content(words(1))
    for number in range(300):
        seen.remember(
            fingerprint(f"http://h.test/{number}"), text._replace(digest=b"%032d" % number)
        )
    await seen.flush()
    await redis_client.config_resetstat()
    assert await seen.find(THREE + 1, text) is not None
    stats = await redis_client.info("commandstats")
    assert stats["cmdstat_mget"]["calls"] == 2


async def test_new_pages_take_two_commands_a_batch(redis_client: Client) -> None:
    seen = await seen_in(redis_client)
    await redis_client.config_resetstat()
    for number in range(15):
        seen.remember(fingerprint(f"http://h.test/{number}"), content(words(number)))
    await seen.flush()
    assert await seen.find(THREE + 1, content(words(99))) is None
    stats = await redis_client.info("commandstats")
    calls = {name: stat["calls"] for name, stat in stats.items()}
    assert calls["cmdstat_mget"] == 2
    assert calls["cmdstat_evalsha"] == 1


async def test_on_a_cluster_the_buckets_spread_and_all_is_found(redis_cluster_url: str) -> None:
    client = await connect(redis_cluster_url)
    seen = await seen_in(client, shards=12, pages=100_000)
    ids = [fingerprint(f"http://h.test/{number}") for number in range(40)]
    for number, url_id in enumerate(ids):
        seen.remember(url_id, content(words(number)))
    await seen.flush()
    assert seen.lost == 0
    for number, url_id in enumerate(ids):
        found = await seen.find(THREE + 1, content(edited(words(number), 2)))
        assert found is not None
        assert found.original == url_id
    assert await seen.forget(ids[7])
    assert await seen.find(THREE + 1, content(edited(words(7), 2))) is None
    assert len({name.partition(b"}")[0] for name in await client.keys("*:cs:*")}) > 3
    await client.aclose()
