"""The delay queue: buckets of time, promoted in order, in bounded batches and never early."""

from __future__ import annotations

import pytest

from crawler.frontier import Frontier
from crawler.frontier.entry import QUEUES, encode
from tests.integration.frontier.fleet import T0, Place, claim, entries, entry, hosts, one

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("wait_ms", "grain_ms"),
    [
        (0, 1000),
        (1, 1000),
        (1000, 1000),
        (HOUR - 1, 1000),
        (HOUR, 60_000),
        (DAY - 1, 60_000),
        (DAY, HOUR),
        (400 * DAY, HOUR),
    ],
)
async def test_buckets_are_coarser_the_further_away_and_round_up(
    frontier: Frontier, place: Place, wait_ms: int, grain_ms: int
) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier, now_ms=T0 + 123)
    await frontier.retry([(lease, wait_ms, lease.entry)], now_ms=T0 + 123)
    [due] = [int(x) for x in await place.redis.zrange(place.key("a.test", "delayed"), 0, -1)]
    assert due % grain_ms == 0
    assert 0 <= due - (T0 + 123 + wait_ms) < grain_ms
    assert await frontier.promote(now_ms=T0 + 123 + wait_ms - 1 if wait_ms else T0 + 123) == 0
    assert await frontier.promote(now_ms=due) == 1


async def put_off(frontier: Frontier, number: int, step_ms: int) -> list[str]:
    await frontier.add(hosts(number))
    leases = sorted(await claim(frontier), key=lambda lease: lease.entry.url)
    for i, lease in enumerate(leases):
        await frontier.release([(lease, 0)], now_ms=T0)
        await frontier.retry([(lease, (number - i) * step_ms, lease.entry)], now_ms=T0)
    return [lease.entry.url for lease in leases]


async def test_what_is_due_first_is_promoted_first(frontier: Frontier) -> None:
    urls = await put_off(frontier, 8, 2000)
    for i, url in enumerate(reversed(urls)):
        due = T0 + (i + 1) * 2000
        assert await frontier.promote(now_ms=due - 1) == 0
        assert await frontier.promote(now_ms=due) == 1
        assert (await one(frontier, now_ms=due)).entry.url == url


async def test_a_batch_is_bounded_and_nothing_is_left(frontier: Frontier, place: Place) -> None:
    await put_off(frontier, 100, 10)
    moved = []
    while (number := await frontier.promote(limit=7, now_ms=T0 + 10_000)) > 0:
        moved.append(number)
    assert sum(moved) == 100
    assert max(moved) <= 7 * frontier.shards
    sizes = await frontier.sizes()
    assert (sizes.retries, sizes.retried, sum(sizes.front)) == (0, 100, 100)
    assert not [key async for key in place.redis.scan_iter("*delayed*")]


async def test_promoted_urls_keep_their_priority(frontier: Frontier) -> None:
    await frontier.add([entry(f"http://h{q}.test/", q) for q in range(1, QUEUES + 1)])
    for lease in await claim(frontier):
        await frontier.retry([(lease, 10, lease.entry)], now_ms=T0)
    await frontier.promote(now_ms=T0 + 1000)
    assert (await frontier.sizes()).front[:QUEUES] == (1,) * QUEUES


async def test_a_damaged_record_is_buried_and_stops_nothing(
    frontier: Frontier, place: Place
) -> None:
    key, due = place.key("a.test", "delayed"), T0 + 1000
    good = entries(1)[0]
    await place.redis.rpush(f"{key}:{due}", b"r", b"rxyz", b"r" + encode(good))
    await place.redis.zadd(key, {str(due): due})
    assert await frontier.promote(now_ms=due) == 3
    assert (await one(frontier, now_ms=due)).entry == good
    assert await place.dead() == {"": "damaged", b"xyz".hex(): "damaged"}


async def test_an_empty_bucket_is_passed_over(frontier: Frontier, place: Place) -> None:
    await place.redis.zadd(place.key("a.test", "delayed"), {str(T0): T0})
    assert await frontier.promote(now_ms=T0) == 0
    assert await place.redis.zcard(place.key("a.test", "delayed")) == 0
