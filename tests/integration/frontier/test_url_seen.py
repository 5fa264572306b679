"""URL-seen in both forms: what was added is known, whatever is full."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from crawler.frontier import ADD_MAX, CrawlControl, Entry, Frontier, Tuning, keys, tuning
from crawler.frontier.frontier import shard_of, tags
from crawler.servers.redis.connection import connect
from crawler.urls import UrlRules, Urls
from tests.integration.frontier.fleet import CRAWL, Place, crawl, entries, entry, one

BUCKETS = 4096


@pytest.fixture
async def tiny(place: Place) -> Frontier:
    """A frontier that divides a bucket for each URL beyond the first 4,096."""
    await place.instance()
    await place.redis.hset(keys.crawl_meta(CRAWL), "seen_argument", 1)
    return await place.instance()


async def growth(place: Place) -> tuple[int, int]:
    """Level and divided buckets of the shard that the tests use."""
    found = await place.redis.hmget(place.key("a.test", "stats"), "seen_level", "seen_divided")
    return int(found[0] or 0), int(found[1] or 0)


async def forget(frontier: Frontier, place: Place, id_: int) -> bool:
    args = (shard_of("a.test", place.shards), id_.to_bytes(8, "big"), 1)
    return bool(await frontier.scripts.run("forget", *args) == b"forgotten")


def many(number: int) -> list[Entry]:
    """URLs with fingerprints as good as those of real ones, and the same in each run."""
    chance = random.Random(number)
    return [replace(e, id=chance.getrandbits(64)) for e in entries(number)]


async def test_no_division_of_a_bucket_forgets_a_url(tiny: Frontier, place: Place) -> None:
    found = many(3 * BUCKETS)
    levels = set()
    for start in range(0, len(found), 700):
        part = found[start : start + 700]
        assert (await tiny.add(part)).new == len(part)
        levels.add((await growth(place))[0])
        # Whatever was divided meanwhile: all are known, and only they.
        assert (await tiny.add(found[: start + 700])).new == 0
    assert levels == {0, 1}
    assert sum(await growth(place)) > 1


async def test_buckets_are_divided_as_urls_come_and_stay_even(tiny: Frontier, place: Place) -> None:
    await tiny.add(many(3 * BUCKETS))
    level, divided = await growth(place)
    assert (level, abs(divided - BUCKETS) < 10) == (1, True)
    sizes = [
        await place.redis.scard(place.key("a.test", f"url_seen:{bucket}"))
        for bucket in range(0, 3 * BUCKETS, 97)
    ]
    assert 0.7 < sum(sizes) / len(sizes) < 1.3
    assert max(sizes) < 12
    assert not await place.redis.exists(place.key("a.test", f"url_seen:{3 * BUCKETS + 20}"))


async def test_a_call_divides_few_buckets(tiny: Frontier, place: Place) -> None:
    """After many forgotten divisions, as it were: no call has to make up for them all."""
    await tiny.add(many(10))
    await place.redis.hset(place.key("a.test", "stats"), "seen_filled", 100 * BUCKETS)
    await tiny.add([entry("http://a.test/one-more")])
    assert await growth(place) == (0, 3)


async def test_a_bucket_that_was_too_large_is_compact_after_its_division(
    frontier: Frontier, place: Place
) -> None:
    keys_ = [place.key("a.test", f"url_seen:{bucket}") for bucket in (0, BUCKETS)]
    await place.redis.sadd(keys_[0], *range(-400, 400))
    assert await place.redis.object("ENCODING", keys_[0]) != b"intset"
    await place.redis.hset(place.key("a.test", "stats"), "seen_filled", BUCKETS * 215)
    await frontier.add([entry("http://a.test/")])
    assert (await growth(place))[1] > 0
    for bit, key in enumerate(keys_):
        assert await place.redis.object("ENCODING", key) == b"intset"
        members = {int(member) for member in await place.redis.smembers(key)}
        assert {number for number in range(-400, 400) if number % 2 == bit} == members


async def test_forgetting_works_before_and_after_divisions(tiny: Frontier, place: Place) -> None:
    found = many(2 * BUCKETS)
    first, last = found[0], found[-1]
    await tiny.add(found[:100])
    assert await forget(tiny, place, first.id)
    assert not await forget(tiny, place, first.id)
    assert (await tiny.add(found)).answers == "1" + "0" * 99 + "1" * (len(found) - 100)
    for page in (first, last):
        assert await forget(tiny, place, page.id)
        assert not await forget(tiny, place, page.id)
    assert (await tiny.add(found)).answers == "1" + "0" * (len(found) - 2) + "1"
    filled = await place.redis.hget(place.key("a.test", "stats"), "seen_filled")
    assert int(filled) == len(found)


async def test_a_forgotten_url_is_new_again(frontier: Frontier, place: Place) -> None:
    control = await place.control()
    page = entry("http://a.test/page")
    assert not await control.forget(page.url)
    await frontier.add([page])
    await crawl(frontier, await one(frontier))
    assert await control.forget(page.url)
    assert (await control.status(page.url)).state == "unseen"
    assert (await frontier.add([page])).answers == "1"


async def test_fingerprints_with_the_highest_bits_are_kept_apart(frontier: Frontier) -> None:
    base = entry("http://a.test/")
    ids = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64 - 2]
    odd = [replace(base, id=id_) for id_ in ids]
    assert (await frontier.add(odd)).answers == "1" * len(ids)
    assert (await frontier.add(odd)).answers == "0" * len(ids)


async def test_a_seen_url_lies_where_earlier_versions_put_it(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([replace(entry("http://a.test/"), id=0x01234567_89ABCDEF)])
    members = await place.redis.smembers(place.key("a.test", f"url_seen:{0x567}"))
    assert members == {b"%d" % (0x89ABCDEF - 2**32)}


async def test_the_name_of_a_crawl_may_look_like_a_format(place: Place) -> None:
    named = Frontier(place.redis, "50%d%s", shards=place.shards)
    await named.open()
    page = replace(entry("http://a.test/"), id=7)
    assert (await named.add([page])).answers == "1"
    assert (await named.add([page])).answers == "0"
    tag = tags("50%d%s", place.shards)[shard_of("a.test", place.shards)]
    assert await place.redis.exists(f"{tag}:url_seen:0")


# --- Bloom filters -------------------------------------------------------------------------------


@pytest.fixture
async def bloom(place: Place) -> Frontier:
    """Filters for 1,000 URLs each, wrong with one in a thousand."""
    return await place.instance(tuning=Tuning(url_seen=tuning.bloom(1000, 0.001)))


async def test_a_bloom_filter_knows_what_was_added(bloom: Frontier, place: Place) -> None:
    found = entries(900)
    assert (await bloom.add(found)).new >= 895
    assert (await bloom.add(found)).new == 0
    control = await place.control()
    assert (await control.status(found[0].url)).state == "waiting"
    assert (await control.status("http://a.test/other")).state == "unseen"


async def test_a_url_twice_in_one_batch_is_added_once(bloom: Frontier) -> None:
    assert (await bloom.add([entry("http://a.test/")] * 2)).answers == "10"


async def test_a_full_filter_is_followed_by_another(bloom: Frontier, place: Place) -> None:
    found = entries(3500)
    assert (await bloom.add(found)).new >= 3450
    assert (await bloom.add(found)).new == 0
    filters = [
        await place.redis.exists(place.key("a.test", f"bloom:{number}")) for number in range(5)
    ]
    assert filters == [1, 1, 1, 1, 0]


async def test_the_expected_loss_is_counted(bloom: Frontier, place: Place) -> None:
    found = entries(10_000)
    lost = len(found) - (await bloom.add(found)).new
    stats = await place.redis.hgetall(place.key("a.test", "stats"))
    expected = float(stats[b"bloom_lost"])
    # A chain of ten filters, the first nine full: about 0.1 % each, so 45 to 55 of 10,000.
    assert 30 < expected < 80
    assert abs(lost - expected) < 40


async def test_a_bloom_filter_cannot_forget(bloom: Frontier, place: Place) -> None:
    await bloom.add([entry("http://a.test/")])
    assert not await (await place.control()).forget("http://a.test/")
    assert (await bloom.add([entry("http://a.test/")])).answers == "0"


async def test_status_and_forget_tell_urls_apart_as_the_crawl_does(
    frontier: Frontier, place: Place
) -> None:
    urls = Urls(UrlRules(fold=frozenset({"slash"}), group_by="domain"))
    url = "http://www.example.com/news/"
    skip = urls.group_skip(url)
    await frontier.add([replace(entry(url), id=urls.fingerprint(url), group_skip=skip)])
    await crawl(frontier, await one(frontier))
    control = await CrawlControl.open(place.redis, CRAWL, urls)
    assert (await control.status("http://www.example.com/news")).state == "known"
    assert await control.forget("http://www.example.com/news")
    assert (await control.status(url)).state == "unseen"
    assert (await control.options())["forgotten"] == 1


async def test_unseen_urls_are_found_without_being_marked(place: Place) -> None:
    frontier = await place.instance()
    known, new = [entry(f"http://h{n}.test/") for n in range(5)], entry("http://new.test/")
    await frontier.add(known)
    for _ in range(2):
        assert await frontier.unseen([*known, new]) == [False] * 5 + [True]
    assert (await frontier.add([new])).new == 1


async def test_unseen_urls_of_all_shards_are_found_in_one_round_trip(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(redis_url)
    frontier = await Place(client, 4).instance()
    known = [entry(f"http://h{n % 9}.test/{n}") for n in range(ADD_MAX + 100)]
    await frontier.add(known)
    # The server has the script after this.
    await frontier.unseen(known)

    async def run(verb: str, *_: object) -> None:
        raise AssertionError(f"{verb} had a round trip of its own")

    monkeypatch.setattr(frontier.scripts, "run", run)
    found = await frontier.unseen([*known, entry("http://new.test/")])
    assert found == [False] * len(known) + [True]
    await client.aclose()
