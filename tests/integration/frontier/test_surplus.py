"""add: a host with very many URLs does not fill the front queues, which all hosts share."""

from __future__ import annotations

from itertools import count, islice

import pytest

from crawler.frontier import CrawlControl, Entry, Frontier, Lease, Tuning
from crawler.frontier.frontier import shard_of
from tests.integration.frontier.fleet import (
    T0,
    Place,
    claim,
    crawl,
    entries,
    entry,
    host,
    one,
    request_id,
)

BIG = "big.test"
# As in add.lua: the length of a queue from which on a host may add no more than a few URLs to it.
LONG, FEW = 1000, 32


def others(place: Place, number: int, queue: int = 1) -> list[Entry]:
    """One URL each of so many hosts in the shard of the big one."""
    names = (f"h{i}.test" for i in count())
    shard = shard_of(BIG, place.shards)
    beside = (name for name in names if shard_of(name, place.shards) == shard)
    return [entry(f"http://{name}/", queue) for name in islice(beside, number)]


async def claim_once(frontier: Frontier, n: int, *, now_ms: int = T0) -> list[Lease]:
    shard = shard_of(BIG, frontier.shards)
    found = await frontier.claim(n, request_id(), shard=shard, now_ms=now_ms)
    return found.leases


async def fetch_all(frontier: Frontier, **limits: int) -> list[str]:
    """The URLs that are fetched until nothing is left."""
    fetched: list[str] = []
    now_ms = T0
    while (await frontier.sizes()).unfinished:
        now_ms += 1
        assert now_ms < T0 + 5000, "it does not end"
        for lease in await claim(frontier, now_ms=now_ms, **limits):
            fetched.append(lease.entry.url)
            await crawl(frontier, lease, now_ms=now_ms)
    return fetched


async def test_hosts_behind_a_big_one_in_the_same_queue_are_served_at_once(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(20_000, BIG))
    late = others(place, 20)
    await frontier.add(late)
    found = [lease for _ in range(2) for lease in await claim_once(frontier, 100)]
    assert sorted(lease.entry.url for lease in found if lease.entry.host != BIG) == sorted(
        each.url for each in late
    )
    sizes = await frontier.sizes()
    assert (sizes.added, sizes.waiting) == (20_020, 19_999)


async def test_a_big_host_that_comes_in_small_parts_is_kept_out_too(frontier: Frontier) -> None:
    urls = iter(entries(20_000, BIG))
    while part := list(islice(urls, 50)):
        await frontier.add(part)
    assert LONG <= (await frontier.sizes()).front[0] < 4 * LONG


@pytest.mark.parametrize("number", [4, 7])
async def test_big_hosts_that_come_in_turns_are_kept_out_too(
    frontier: Frontier, place: Place, number: int
) -> None:
    names, calls = [each.host for each in others(place, number)], 20
    for call in range(calls):
        await frontier.add([entry(f"http://{names[i % number]}/{call}/{i}") for i in range(LONG)])
    sizes = await frontier.sizes()
    assert sizes.front[0] <= LONG + calls * number * FEW
    assert sizes.waiting == calls * LONG


async def test_every_url_of_a_big_host_is_fetched_once(frontier: Frontier, place: Place) -> None:
    all_of_them = [*entries(1500, BIG, 2), *entries(900, "second.test", 2), *others(place, 50, 2)]
    await frontier.add(all_of_them)
    fetched = await fetch_all(frontier)
    assert sorted(fetched) == sorted(each.url for each in all_of_them)
    assert (await frontier.sizes()).done == len(all_of_them)


async def test_the_surplus_of_a_host_waits_for_the_hosts_turn(
    frontier: Frontier, place: Place
) -> None:
    first = others(place, LONG)
    await frontier.add(first)
    await frontier.add(entries(500, BIG))
    sizes = await frontier.sizes()
    # The few that stay stand behind the others; the host is not active.
    assert (sizes.front[0], sizes.back, sizes.hosts) == (LONG + FEW, 500 - FEW, 0)
    served = [lease.entry.host for lease in await claim_once(frontier, LONG)]
    assert sorted(served) == sorted(each.host for each in first)
    assert not await claim_once(frontier, 10)
    assert [lease.entry.host for lease in await claim_once(frontier, 10)] == [BIG]


async def test_a_few_urls_of_a_host_stay_in_the_front_queue(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(others(place, LONG))
    await frontier.add(entries(FEW, BIG))
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.back) == (LONG + FEW, 0)


async def test_in_a_short_queue_all_urls_stay(frontier: Frontier) -> None:
    await frontier.add(entries(LONG, BIG))
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.back) == (LONG, 0)


async def test_each_queue_counts_alone(frontier: Frontier, place: Place) -> None:
    await frontier.add(others(place, LONG))
    await frontier.add([*entries(500, BIG, 2), *entries(700, BIG, 1)[500:]])
    assert (await frontier.sizes()).front[:2] == (LONG + FEW, 500)


async def test_surplus_that_comes_while_its_host_is_in_flight_follows_the_fetch(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry(f"http://{BIG}/first")])
    flight = await one(frontier)
    await frontier.add(others(place, LONG))
    await frontier.add(entries(100, BIG))
    await crawl(frontier, flight, rest_ms=1000)
    assert not [found for found in await claim_once(frontier, 1) if found.entry.host == BIG]
    (found,) = await claim_once(frontier, 1, now_ms=T0 + 1000)
    assert found.entry.host == BIG


async def test_a_host_with_surplus_does_not_expire(frontier: Frontier, place: Place) -> None:
    await frontier.add([entry(f"http://{BIG}/first")])
    await crawl(frontier, await one(frontier))
    key = place.key(BIG, f"host:{BIG}")
    assert await place.redis.pttl(key) > 0
    await frontier.add(others(place, LONG))
    await frontier.add(entries(100, BIG))
    assert await place.redis.pttl(key) == -1


async def test_what_people_set_for_a_host_holds_for_all_its_urls(
    frontier: Frontier, place: Place, control: CrawlControl
) -> None:
    await control.host(BIG, queue=5)
    await frontier.add(others(place, LONG))
    await frontier.add(entries(500, BIG))
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.back) == (LONG + 500, 0)


@pytest.mark.parametrize("order", ["exclude", "purge"])
async def test_an_order_drops_surplus_of_a_host_that_is_not_active(
    frontier: Frontier, place: Place, control: CrawlControl, order: str
) -> None:
    await frontier.add(others(place, LONG))
    await frontier.add(entries(500, BIG))
    await control.host(BIG, **{order: True})
    assert BIG not in {host(url) for url in await fetch_all(frontier)}
    sizes = await frontier.sizes()
    assert sizes.dropped_excluded + sizes.dropped_purged == 500


async def test_surplus_of_a_host_that_has_reached_its_budget_is_dropped(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry(f"http://{BIG}/first")])
    await crawl(frontier, await one(frontier))
    await frontier.add(others(place, LONG))
    await frontier.add(entries(500, BIG))
    await fetch_all(frontier, host_pages=1)
    sizes = await frontier.sizes()
    assert (sizes.dropped_budget, sizes.unfinished, sizes.hosts) == (500, 0, 0)


async def test_an_important_url_gives_a_parked_host_its_turn(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(others(place, LONG, 5))
    await frontier.add(entries(2 * LONG, BIG, 5))
    await frontier.add(others(place, 2 * LONG)[LONG:])
    assert (await frontier.sizes()).front == (LONG, 0, 0, 0, LONG + 2 * FEW, 0, 0)
    await frontier.add(entries(3 * LONG, BIG)[2 * LONG :])
    assert (await frontier.sizes()).front == (LONG + FEW, 0, 0, 0, LONG + 2 * FEW, 0, 0)


async def test_surplus_of_a_host_with_free_slots_is_served_beside_its_fetches(
    place: Place,
) -> None:
    frontier = await place.instance(tuning=Tuning(parallelism=2))
    await frontier.add([entry(f"http://{BIG}/first")])
    await one(frontier)
    await frontier.add(others(place, LONG))
    await frontier.add(entries(100, BIG))
    # Their turn comes after the others'; then the host is active.
    await claim(frontier, LONG + 1, now_ms=T0 + 60_000)
    assert (await one(frontier, now_ms=T0 + 120_000)).entry.host == BIG
