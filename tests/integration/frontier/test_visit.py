"""visit, visited: the slot of a host without a URL of it, under the clock that leases obey."""

from __future__ import annotations

import pytest

from crawler.frontier import Frontier, NoVisit, OwnerDead, Tuning, Visit
from tests.integration.frontier.fleet import (
    T0,
    Place,
    beat,
    claim,
    crawl,
    entries,
    one,
)

HOST = "a.test"
SILENCE = 30_000
LATER = T0 + SILENCE
DELAY_MS = 1000


async def visit(frontier: Frontier, host: str = HOST, *, now_ms: int = T0) -> Visit:
    """The visit of a host that may be visited now."""
    found = await frontier.visit(host, now_ms=now_ms)
    assert isinstance(found, Visit), found
    return found


async def refusal(frontier: Frontier, host: str = HOST, *, now_ms: int = T0) -> NoVisit:
    found = await frontier.visit(host, now_ms=now_ms)
    assert isinstance(found, NoVisit), found
    return found


@pytest.fixture
async def other(frontier: Frontier, place: Place) -> Frontier:
    """Another instance of the same crawl."""
    return await place.instance()


# --- slot and clock ------------------------------------------------------------------------------


async def test_a_host_that_is_visited_is_not_claimed_from_until_its_clock_is_due(
    frontier: Frontier, other: Frontier
) -> None:
    await frontier.add(entries(2))
    mine = await visit(frontier)
    assert await claim(other, now_ms=T0 + 60_000) == []
    await frontier.visited([(mine, 5000)], now_ms=T0 + 60_000)
    assert await claim(other, now_ms=T0 + 64_999) == []
    assert len(await claim(other, now_ms=T0 + 65_000)) == 1


async def test_a_host_with_waiting_urls_is_taken_off_the_heap_and_put_back(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add(entries(2))
    await crawl(frontier, await one(frontier))
    heap = place.key(HOST, "host_heap")
    assert await place.redis.zscore(heap, HOST) == T0
    mine = await visit(frontier)
    assert await place.redis.zscore(heap, HOST) is None
    await frontier.visited([(mine, 500)], now_ms=T0)
    assert await place.redis.zscore(heap, HOST) == T0 + 500


async def test_a_host_that_is_fetched_from_is_not_visited_until_its_clock_is_due(
    frontier: Frontier, other: Frontier
) -> None:
    await frontier.add(entries(1))
    lease = await one(frontier)
    assert await refusal(other) == NoVisit("busy")
    await frontier.release([(lease, 5000)], now_ms=T0 + 100)
    assert await refusal(other, now_ms=T0 + 100) == NoVisit("early", 5000)
    assert await refusal(other, now_ms=T0 + 5099) == NoVisit("early", 1)
    assert await visit(other, now_ms=T0 + 5100)


async def test_two_instances_visit_a_host_one_after_the_other(
    frontier: Frontier, other: Frontier
) -> None:
    mine = await visit(frontier)
    assert await refusal(other) == NoVisit("busy")
    await frontier.visited([(mine, 300)], now_ms=T0)
    assert await refusal(other) == NoVisit("early", 300)
    theirs = await visit(other, now_ms=T0 + 300)
    assert theirs.token != mine.token


async def test_only_a_usual_delay_is_the_hosts_own(frontier: Frontier, place: Place) -> None:
    control = await place.control()
    for delay_ms, usual, own_ms in ((400, True, 400), (9000, False, 400), (0, True, 400)):
        mine = await visit(frontier, now_ms=(await control.host(HOST)).clock_ms or T0)
        await frontier.visited([(mine, delay_ms)], usual=usual, now_ms=T0)
        assert (await control.host(HOST)).delay_ms == own_ms


async def wide(place: Place) -> Frontier:
    """An instance that may have two fetches from a host, whose starts are a while apart."""
    return await place.instance(tuning=Tuning(parallelism=2, spacing_ms=DELAY_MS))


async def test_beside_a_lease_a_host_with_two_slots_is_visited_a_delay_later(place: Place) -> None:
    frontier, other = await wide(place), await wide(place)
    await frontier.add(entries(3))
    await one(frontier)
    assert await refusal(frontier) == NoVisit("early", DELAY_MS)
    await visit(frontier, now_ms=T0 + DELAY_MS)
    assert await refusal(other, now_ms=T0 + 60_000) == NoVisit("busy")
    assert await claim(other, now_ms=T0 + 60_000) == []


async def test_beside_a_visit_a_host_with_two_slots_is_claimed_from_a_delay_later(
    place: Place,
) -> None:
    frontier, other = await wide(place), await wide(place)
    await frontier.add(entries(3))
    await crawl(frontier, await one(frontier), rest_ms=400)
    mine = await visit(frontier, now_ms=T0 + 1000)
    # Its own delay is known now.
    assert await claim(frontier, now_ms=T0 + 1399) == []
    await one(frontier, now_ms=T0 + 1400)
    assert await refusal(other, now_ms=T0 + 60_000) == NoVisit("busy")
    await frontier.visited([(mine, 0)], now_ms=T0 + 60_000)
    assert len(await claim(frontier, now_ms=T0 + 60_000)) == 1


async def test_a_host_with_a_parallelism_of_its_own_has_so_many_slots(
    frontier: Frontier, other: Frontier, place: Place
) -> None:
    await (await place.control()).host(HOST, parallelism=2)
    await visit(frontier)
    await visit(other)
    third = await place.instance()
    assert await refusal(third, now_ms=T0 + 60_000) == NoVisit("busy")


async def test_the_end_of_one_of_two_visits_frees_one_slot(place: Place) -> None:
    first, second = await wide(place), await wide(place)
    await first.add(entries(3))
    await crawl(first, await one(first))
    mine = await visit(first, now_ms=T0 + 1000)
    theirs = await visit(second, now_ms=T0 + 2000)
    now_ms = T0 + 10_000
    await first.visited([(mine, 0)], now_ms=now_ms)
    assert (await (await place.control()).host(HOST)).in_flight == 1
    assert len(await claim(first, now_ms=now_ms)) == 1
    assert await claim(first, now_ms=now_ms + 60_000) == []
    await second.visited([(theirs, 0)], now_ms=now_ms)
    assert len(await claim(first, now_ms=now_ms + 60_000)) == 1


# --- hosts that are not known --------------------------------------------------------------------


async def test_a_host_that_the_crawl_never_met_is_kept_while_it_is_visited_and_then_expires(
    frontier: Frontier, place: Place
) -> None:
    mine = await visit(frontier, "new.test:8080")
    key = place.key("new.test:8080", "host:new.test:8080")
    assert await place.redis.pttl(key) == -1
    await frontier.visited([(mine, 2000)], now_ms=T0)
    before_s, left_ms, after_s = (
        (await place.redis.time())[0],
        await place.redis.pttl(key),
        (await place.redis.time())[0],
    )
    expires_ms = T0 + 2000 + 3_600_000
    assert expires_ms - (after_s + 1) * 1000 <= left_ms <= expires_ms - before_s * 1000
    # It expires no more when it is visited again.
    await visit(frontier, "new.test:8080", now_ms=T0 + 2000)
    assert await place.redis.pttl(key) == -1


async def test_a_visit_leaves_no_key_but_the_hosts_clock(frontier: Frontier, place: Place) -> None:
    mine = await visit(frontier)
    await frontier.visited([(mine, 2000)], now_ms=T0)
    assert not [key async for key in place.redis.scan_iter("*visits:*")]
    assert (await frontier.sizes()).hosts == 0


# --- repeated calls ------------------------------------------------------------------------------


async def test_asked_again_after_a_lost_reply_it_is_the_same_visit(
    frontier: Frontier, place: Place
) -> None:
    mine = await visit(frontier)
    assert await visit(frontier, now_ms=T0 + 10) == mine
    assert (await (await place.control()).host(HOST)).in_flight == 1


async def test_an_end_that_is_repeated_ends_no_other_visit(
    frontier: Frontier, other: Frontier
) -> None:
    first = await visit(frontier)
    for _ in range(2):
        await frontier.visited([(first, 100)], now_ms=T0)
    second = await visit(frontier, now_ms=T0 + 100)
    await frontier.visited([(first, 100)], now_ms=T0 + 200)
    assert await visit(frontier, now_ms=T0 + 300) == second
    assert await refusal(other, now_ms=T0 + 300) == NoVisit("busy")


async def test_several_visits_end_in_one_call(frontier: Frontier, place: Place) -> None:
    hosts = [f"h{number}.test" for number in range(9)]
    visits = [await visit(frontier, host) for host in hosts]
    await frontier.visited([(each, 100) for each in visits], now_ms=T0)
    control = await place.control()
    found = [await control.host(host) for host in hosts]
    assert {(each.in_flight, each.clock_ms) for each in found} == {(0, T0 + 100)}


async def test_a_visit_whose_reply_was_lost_ends_with_the_next_beat(
    frontier: Frontier, other: Frontier
) -> None:
    mine = await visit(frontier, "held.test")
    await visit(frontier)
    await beat(frontier, [mine], now_ms=T0 + 10)
    # Nobody knows for sure that the host was not contacted.
    assert await refusal(other, now_ms=T0 + 10) == NoVisit("early", DELAY_MS)
    assert await visit(other, now_ms=T0 + 10 + DELAY_MS)
    assert await refusal(other, "held.test", now_ms=T0 + 60_000) == NoVisit("busy")


async def test_a_visit_that_is_named_goes_on_beside_leases(frontier: Frontier) -> None:
    await frontier.add(entries(1, "b.test"))
    lease, mine = await one(frontier), await visit(frontier)
    _, strays = await beat(frontier, [lease, mine], now_ms=T0)
    assert strays == []
    assert await visit(frontier, now_ms=T0) == mine


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"exclude": True}, {"block": T0 + 5000}])
async def test_a_host_that_people_closed_is_not_visited(
    frontier: Frontier, place: Place, change: dict[str, int]
) -> None:
    await (await place.control()).host(HOST, **change)
    assert await refusal(frontier) == NoVisit("closed")


async def test_a_block_that_is_over_closes_no_host(frontier: Frontier, place: Place) -> None:
    await (await place.control()).host(HOST, block=T0 + 5000)
    assert await visit(frontier, now_ms=T0 + 5000)


async def test_a_crawl_that_is_paused_visits_no_host_and_ends_its_visits(
    frontier: Frontier, other: Frontier, place: Place
) -> None:
    control = await place.control()
    mine = await visit(frontier)
    await control.pause()
    assert await refusal(other, "b.test") == NoVisit("paused")
    assert await visit(frontier) == mine
    await frontier.visited([(mine, 0)], now_ms=T0)
    await control.resume()
    assert await visit(other)


# --- dead owners ---------------------------------------------------------------------------------


async def test_the_visits_of_a_dead_owner_end_with_the_delays_of_their_hosts(
    frontier: Frontier, other: Frontier
) -> None:
    first = await visit(frontier, "slow.test")
    await frontier.visited([(first, 7000)], now_ms=T0)
    await visit(frontier, "slow.test", now_ms=T0 + 7000)
    await visit(frontier)
    await beat(other, now_ms=LATER)
    await other.reclaim(silence_ms=SILENCE, delay_ms=DELAY_MS, now_ms=LATER)
    assert await refusal(other, now_ms=LATER) == NoVisit("early", DELAY_MS)
    assert await refusal(other, "slow.test", now_ms=LATER) == NoVisit("early", 7000)
    with pytest.raises(OwnerDead):
        await frontier.visit("b.test", now_ms=LATER)


async def test_a_dead_owner_that_ends_its_visit_late_ends_no_other(
    frontier: Frontier, other: Frontier, place: Place
) -> None:
    mine = await visit(frontier)
    await beat(other, now_ms=LATER)
    await other.reclaim(silence_ms=SILENCE, delay_ms=0, now_ms=LATER)
    theirs = await visit(other, now_ms=LATER)
    await frontier.visited([(mine, 0)], now_ms=LATER)
    assert await visit(other, now_ms=LATER) == theirs
    assert (await (await place.control()).host(HOST)).in_flight == 1


async def test_who_leaves_ends_its_visits(frontier: Frontier, place: Place) -> None:
    await visit(frontier)
    await frontier.leave()
    assert (await (await place.control()).host(HOST)).in_flight == 0
    assert not [key async for key in place.redis.scan_iter("*visits:*")]


# --- what a restart loses ------------------------------------------------------------------------


async def lose(place: Place, frontier: Frontier) -> None:
    """What a restart without the last second may do: the visit never began."""
    await place.redis.delete(
        place.key(HOST, f"host:{HOST}"), place.key(HOST, f"visits:{frontier.owner}")
    )


async def test_a_visit_that_was_lost_and_reported_again_holds_its_host(
    frontier: Frontier, other: Frontier, place: Place
) -> None:
    await frontier.add(entries(1))
    mine = await visit(frontier)
    await lose(place, frontier)
    await frontier.reassert([mine], {}, now_ms=T0)
    await beat(frontier, [mine], now_ms=T0)
    assert await claim(other, now_ms=T0 + 60_000) == []
    assert await refusal(other, now_ms=T0 + 60_000) == NoVisit("busy")
    await frontier.visited([(mine, 300)], now_ms=T0)
    assert await refusal(other) == NoVisit("early", 300)
    assert not [key async for key in place.redis.scan_iter("*flights:*")]


async def test_a_visit_that_was_reported_again_ends_with_its_owner(
    frontier: Frontier, other: Frontier, place: Place
) -> None:
    mine = await visit(frontier)
    await lose(place, frontier)
    await frontier.reassert([mine], {}, now_ms=T0)
    await beat(other, now_ms=LATER)
    await other.reclaim(silence_ms=SILENCE, delay_ms=DELAY_MS, now_ms=LATER)
    assert await refusal(other, now_ms=LATER) == NoVisit("early", DELAY_MS)


async def test_an_end_that_was_lost_is_repeated_as_those_of_fetches_are(
    frontier: Frontier, other: Frontier
) -> None:
    """The server has the visit again. Its end is released, and a new visit is another one."""
    mine = await visit(frontier)
    await frontier.release([(mine, 4000)], usual=False, now_ms=T0)
    assert await refusal(other) == NoVisit("early", 4000)
    again = await visit(frontier, now_ms=T0 + 4000)
    assert again.token != mine.token
    await beat(frontier, [again], now_ms=T0 + 4000)
    assert await visit(frontier, now_ms=T0 + 4000) == again
