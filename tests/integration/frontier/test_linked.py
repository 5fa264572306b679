"""Links to URLs, counted for the fleet, and URLs that are lifted by them."""

from __future__ import annotations

import random

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.discovery.counts import CountSync, HostTally, Linked, LinkTally
from crawler.frontier import CrawlControl, Frontier, keys
from crawler.frontier.sweep import Sweeper
from tests.integration.frontier.fleet import Place, claim, entry

SKETCH = 4_000_000


def some(first: int, last: int, number: int = 1) -> dict[int, tuple[str, int]]:
    """URLs of many hosts with this number of new links each."""
    chance = random.Random(1)
    ids = [chance.getrandbits(64) for _ in range(last)]
    return {
        id_: (f"h{place % 999}.test", number) for place, id_ in enumerate(ids) if place >= first
    }


async def test_links_add_up_over_the_fleet(place: Place, frontier: Frontier) -> None:
    other = await place.instance()
    given = some(0, 700)
    assert set((await frontier.count_links(given, SKETCH)).values()) == {1}
    assert set((await other.count_links(some(0, 700, 3), SKETCH)).values()) == {4}
    id_, (host, _) = next(iter(given.items()))
    assert await frontier.links_to(id_, host) == 4
    assert await frontier.links_to(5, host) == 0


async def test_counts_end_at_a_byte(frontier: Frontier) -> None:
    for _ in range(3):
        found = await frontier.count_links({7: ("a.test", 200)}, SKETCH)
    assert found == {7: 255}


async def test_a_read_changes_nothing(place: Place, frontier: Frontier) -> None:
    before = {key async for key in place.redis.scan_iter(count=1000)}
    assert await frontier.links_to(7, "a.test") == 0
    assert {key async for key in place.redis.scan_iter(count=1000)} == before


async def test_counts_are_never_too_low_and_seldom_too_high_in_bounded_memory(
    place: Place, frontier: Frontier
) -> None:
    # In one shard: two thirds of what a generation takes.
    number, sketch = 4000, 2 * place.shards * 49_152

    async def count(first: int, links: int) -> list[int]:
        given = dict.fromkeys(some(first, first + number), ("a.test", links))
        return list((await frontier.count_links(given, sketch)).values())

    found = await count(0, 1)
    assert min(found) == 1
    assert sum(each > 1 for each in found) / number < 0.02
    assert min(await count(0, 1)) == 2
    # Ten times as many URLs: the first ones are forgotten, and the memory stays the same.
    for part in range(1, 10):
        await count(part * number, 1)
    assert sum(await count(0, 0)) / number < 0.2
    sizes = [await place.redis.strlen(key) async for key in place.redis.scan_iter("*:linked:*")]
    assert sizes == [49_152] * 2


def queue_of(_linked: Linked, number: int) -> int | None:
    return 1 if number >= 4 else None


async def test_a_waiting_url_with_links_of_several_processes_is_lifted(
    place: Place, frontier: Frontier
) -> None:
    waiting = entry("http://www.a.test/page", 5)
    popular = entry("http://www.b.test/", 5)
    await frontier.add([waiting, popular])
    for instance in (frontier, await place.instance()):
        links = LinkTally()
        for domain in ("c.test", "d.test"):
            links.add(popular.id, domain, popular.url, 0, 0)
        sync = CountSync(
            *(HostTally(1000), instance),
            links=links,
            sketch_bytes=SKETCH,
            queue_of_linked=queue_of,
        )
        await sync.sync()
    assert await Sweeper(place.redis, frontier, pause_s=0).sweep_all() == 1
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.waiting) == (1, 2)
    found = {lease.entry.url: lease.entry.queue for lease in await claim(frontier)}
    assert found == {waiting.url: 5, popular.url: 1}


async def test_links_wait_while_redis_is_away(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = LinkTally()
    for domain in ("b.test", "c.test"):
        links.add(7, domain, "http://a.test/", 0, 0)
    sync = CountSync(HostTally(1000), frontier, links=links, sketch_bytes=SKETCH)
    count_links = frontier.count_links

    async def away(*_args: object) -> dict[int, int]:
        raise RedisConnectionError

    monkeypatch.setattr(frontier, "count_links", away)
    await sync.sync()
    monkeypatch.setattr(frontier, "count_links", count_links)
    await sync.sync()
    assert await frontier.links_to(7, "a.test") == 2
    assert links.take_unsent(5) == {}


async def test_the_counts_of_a_url_are_shown_and_deleted_with_the_crawl(
    place: Place, frontier: Frontier, control: CrawlControl
) -> None:
    url = "http://www.a.test/page"
    assert await control.counts_of(url) == (0, 0, 0)
    await frontier.count_hosts({"www.a.test": (12, 3)})
    await frontier.count_links({entry(url).id: ("www.a.test", 2)}, SKETCH)
    assert await control.counts_of(url) == (12, 3, 2)
    await frontier.leave()
    async for _ in control.delete(silence_ms=0):
        pass
    # That people deleted it is known for some time.
    kept = keys.deleted(frontier.crawl).encode()
    assert [key async for key in place.redis.scan_iter(count=1000)] == [kept]
