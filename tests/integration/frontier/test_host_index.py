"""Hosts that are contacted next, and counts of their URLs and links."""

from __future__ import annotations

from crawler.frontier import Frontier
from crawler.frontier.frontier import shard_of
from tests.integration.frontier.fleet import (
    CRAWL,
    T0,
    Place,
    claim,
    crawl,
    entries,
    entry,
    hosts,
    one,
    urls,
)


async def ahead(place: Place, *, now_ms: int = T0, most: int = 100) -> set[str]:
    frontier = Frontier(place.redis, CRAWL, shards=place.shards)
    found = [
        await frontier.upcoming_hosts(shard, within_ms=3000, most=most, now_ms=now_ms)
        for shard in range(place.shards)
    ]
    return {host for names in found for host in names}


async def test_hosts_of_waiting_urls_are_next(frontier: Frontier, place: Place) -> None:
    await frontier.add([*hosts(5), entry("https://other.test:8443/a", queue=5)])
    assert await ahead(place) == {f"h{i}.test" for i in range(5)} | {"other.test"}


async def test_a_host_that_is_due_soon_is_next_and_one_that_rests_longer_is_not(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(3))
    await crawl(frontier, await one(frontier), rest_ms=10_000)
    assert await ahead(place, now_ms=T0 + 6_999) == set()
    assert await ahead(place, now_ms=T0 + 7_000) == {"a.test"}


async def test_what_is_in_flight_is_not_next(frontier: Frontier, place: Place) -> None:
    await frontier.add(hosts(3))
    assert len(await claim(frontier)) == 3
    assert await ahead(place) == set()


async def test_looking_changes_nothing(frontier: Frontier, place: Place) -> None:
    await frontier.add(hosts(4))
    before = await frontier.sizes()
    await ahead(place)
    assert await frontier.sizes() == before
    assert len(urls(await claim(frontier))) == 4


async def test_names_are_those_of_urls_where_hosts_share_a_clock(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry("http://www.b.test/", group_skip=4)])
    assert await ahead(place) == {"www.b.test"}


async def test_no_more_than_asked_for_are_looked_at(frontier: Frontier, place: Place) -> None:
    names = [f"x{i}.test" for i in range(2000)]
    mine = [name for name in names if shard_of(name, place.shards) == 0]
    await frontier.add([entry(f"http://{name}/") for name in mine[:100]])
    assert len(await ahead(place, most=10)) == 2


async def test_counts_of_hosts_add_up_over_the_fleet(frontier: Frontier, place: Place) -> None:
    more = {f"h{i}.test": (i, 2 * i) for i in range(1200)}
    assert await frontier.count_hosts(more) == more
    other = await place.instance()
    assert await other.count_hosts({"h3.test": (1, 0)}) == {"h3.test": (4, 6)}
    assert await other.count_hosts({}) == {}
