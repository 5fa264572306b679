"""URL-seen in both forms: what was added is known, whatever is full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawler.frontier import Frontier, Steering, Tuning, keys
from crawler.frontier.seen import Bloom
from crawler.urls import UrlRules, Urls
from tests.integration.frontier.fleet import CRAWL, Place, crawl, entries, entry, one

BUCKETS = 4096


@pytest.fixture
async def tiny(place: Place) -> Frontier:
    """A frontier whose generations are full with one URL a bucket."""
    await place.instance()
    await place.redis.hset(keys.crawl_meta(CRAWL), "seen_argument", 1)
    return await place.instance()


async def generation(place: Place) -> int:
    """The generation that takes new URLs of the host that the tests use."""
    return int(await place.redis.hget(place.key("a.test", "stats"), "seen_generation") or 0)


async def test_a_full_generation_is_followed_by_a_larger_one(tiny: Frontier, place: Place) -> None:
    many = [replace(e, id=e.id ^ 1) for e in entries(BUCKETS + 500)]
    assert (await tiny.add(many)).new == len(many)
    assert await generation(place) == 1
    assert (await tiny.add(many)).new == 0
    counts = [
        await place.redis.scard(place.key("a.test", f"url_seen:0:{bucket}"))
        for bucket in range(0, BUCKETS, 64)
    ]
    assert max(counts) < 16  # spread, not piled up


async def test_forgetting_works_in_every_generation(tiny: Frontier, place: Place) -> None:
    many = entries(BUCKETS + 10)
    await tiny.add(many)
    scripts, tag = tiny._scripts, place.tag("a.test")
    for page in (many[0], many[-1]):
        assert await scripts.run("forget", tag, page.id.to_bytes(8, "big"), 1) == b"forgotten"
        assert await scripts.run("forget", tag, page.id.to_bytes(8, "big"), 1) == b"unseen"
    assert (await tiny.add(many)).answers == "1" + "0" * (len(many) - 2) + "1"


async def test_a_forgotten_url_is_new_again(frontier: Frontier, place: Place) -> None:
    steering = await place.steering()
    page = entry("http://a.test/page")
    assert not await steering.forget(page.url)
    await frontier.add([page])
    await crawl(frontier, await one(frontier))
    assert await steering.forget(page.url)
    assert (await steering.status(page.url)).state == "unseen"
    assert (await frontier.add([page])).answers == "1"


async def test_fingerprints_with_the_highest_bits_are_kept_apart(frontier: Frontier) -> None:
    base = entry("http://a.test/")
    ids = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**64 - 1, 2**64 - 2]
    odd = [replace(base, id=id_) for id_ in ids]
    assert (await frontier.add(odd)).answers == "1" * len(ids)
    assert (await frontier.add(odd)).answers == "0" * len(ids)


# --- Bloom filters -------------------------------------------------------------------------------


@pytest.fixture
async def bloom(place: Place) -> Frontier:
    """Filters for 1,000 URLs each, wrong with one in a thousand."""
    return await place.instance(tuning=Tuning(url_seen=Bloom(1000, 0.001)))


async def test_a_bloom_filter_knows_what_was_added(bloom: Frontier, place: Place) -> None:
    many = entries(900)
    assert (await bloom.add(many)).new >= 895
    assert (await bloom.add(many)).new == 0
    steering = await place.steering()
    assert (await steering.status(many[0].url)).state == "waiting"
    assert (await steering.status("http://a.test/other")).state == "unseen"


async def test_a_url_twice_in_one_batch_is_added_once(bloom: Frontier) -> None:
    assert (await bloom.add([entry("http://a.test/")] * 2)).answers == "10"


async def test_a_full_filter_is_followed_by_another(bloom: Frontier, place: Place) -> None:
    many = entries(3500)
    assert (await bloom.add(many)).new >= 3450
    assert (await bloom.add(many)).new == 0
    filters = [
        await place.redis.exists(place.key("a.test", f"bloom:{number}")) for number in range(5)
    ]
    assert filters == [1, 1, 1, 1, 0]


async def test_the_expected_loss_is_counted(bloom: Frontier, place: Place) -> None:
    many = entries(10_000)
    lost = len(many) - (await bloom.add(many)).new
    stats = await place.redis.hgetall(place.key("a.test", "stats"))
    expected = float(stats[b"bloom_lost"])
    # A chain of ten filters, the first nine full: about 0.1 % each, so 45 to 55 of 10,000.
    assert 30 < expected < 80
    assert abs(lost - expected) < 40


async def test_a_bloom_filter_cannot_forget(bloom: Frontier, place: Place) -> None:
    await bloom.add([entry("http://a.test/")])
    assert not await (await place.steering()).forget("http://a.test/")
    assert (await bloom.add([entry("http://a.test/")])).answers == "0"


async def test_status_and_forget_tell_urls_apart_as_the_crawl_does(
    frontier: Frontier, place: Place
) -> None:
    urls = Urls(UrlRules(fold=frozenset({"slash"}), group_by="domain"))
    url = "http://www.example.com/news/"
    skip = urls.group_skip(url)
    await frontier.add([replace(entry(url), id=urls.fingerprint(url), group_skip=skip)])
    await crawl(frontier, await one(frontier))
    steering = await Steering.of(place.redis, CRAWL, urls)
    assert (await steering.status("http://www.example.com/news")).state == "known"
    assert await steering.forget("http://www.example.com/news")
    assert (await steering.status(url)).state == "unseen"
    assert (await steering.options())["forgotten"] == 1
