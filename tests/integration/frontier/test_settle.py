"""release, done, retry, bury, hand_back: each once, and only with the token of the lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from crawler.frontier import Frontier, Lease, Sizes
from crawler.frontier.records import PAGE_AGAIN, VISIT_AGAIN
from tests.integration.frontier.fleet import T0, Place, claim, crawl, entries, entry, one, urls

Settle = Callable[[Frontier, Lease], Awaitable[None]]

SETTLES: dict[str, Settle] = {
    "done": lambda frontier, lease: frontier.done([(lease, True)]),
    "retry": lambda frontier, lease: frontier.retry([(lease, 1000, lease.entry)], now_ms=T0),
    "recrawl": lambda frontier, lease: frontier.retry(
        [(lease, 1000, lease.entry)], kind=PAGE_AGAIN, now_ms=T0
    ),
    "bury": lambda frontier, lease: frontier.bury([(lease, "gone")], now_ms=T0),
    "hand_back": lambda frontier, lease: frontier.hand_back([(lease, 0)], now_ms=T0),
}


def states(sizes: Sizes) -> tuple[int, ...]:
    return (*sizes.front, sizes.back, sizes.leased, sizes.retries, sizes.recrawls, sizes.done,
            sizes.pages, sizes.dead)  # fmt: skip


@pytest.fixture
async def lease(frontier: Frontier) -> Lease:
    """A lease of one of two URLs of a host."""
    await frontier.add(entries(2))
    return await one(frontier)


@pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
async def test_a_settlement_may_be_repeated(
    frontier: Frontier, lease: Lease, settle: Settle
) -> None:
    await settle(frontier, lease)
    once = await frontier.sizes()
    assert once.leased == 0
    await settle(frontier, lease)
    assert await frontier.sizes() == once


@pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
async def test_a_stale_token_settles_nothing(
    frontier: Frontier, lease: Lease, settle: Settle
) -> None:
    before = await frontier.sizes()
    await settle(frontier, replace(lease, token=b"999"))
    assert await frontier.sizes() == before


@pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
async def test_another_owner_settles_nothing(
    frontier: Frontier, place: Place, lease: Lease, settle: Settle
) -> None:
    other = await place.instance()
    before = await frontier.sizes()
    await settle(other, lease)
    assert await frontier.sizes() == before


@pytest.mark.parametrize("settle", SETTLES.values(), ids=SETTLES)
@pytest.mark.parametrize("second", SETTLES.values(), ids=SETTLES)
async def test_the_first_settlement_holds(
    frontier: Frontier, lease: Lease, settle: Settle, second: Settle
) -> None:
    await settle(frontier, lease)
    once = states(await frontier.sizes())
    await second(frontier, lease)
    assert states(await frontier.sizes()) == once


async def test_many_leases_are_settled_in_one_call(frontier: Frontier) -> None:
    await frontier.add([entry(f"http://h{i}.test/") for i in range(60)])
    leases = await claim(frontier)
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    await frontier.done([(lease, i % 2 == 0) for i, lease in enumerate(leases)])
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.pages, sizes.leased) == (60, 30, 0)


# --- release -------------------------------------------------------------------------------------


async def test_a_repeated_release_does_not_move_the_clock(frontier: Frontier, lease: Lease) -> None:
    await frontier.release([(lease, 1000)], now_ms=T0)
    await frontier.release([(lease, 1000)], now_ms=T0 + 900)
    assert len(await claim(frontier, now_ms=T0 + 1000)) == 1


async def test_a_stale_release_frees_no_slot(frontier: Frontier, lease: Lease) -> None:
    await frontier.release([(replace(lease, token=b"999"), 0)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 1000) == []


async def test_a_token_that_contains_another_is_not_mistaken_for_it(
    frontier: Frontier, lease: Lease
) -> None:
    await frontier.release([(replace(lease, token=lease.token + b"1"), 0)], now_ms=T0)
    await frontier.release([(replace(lease, token=lease.token[:-1] or b"0"), 0)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 1000) == []


async def test_a_released_lease_stays_until_it_is_settled(frontier: Frontier, lease: Lease) -> None:
    await frontier.release([(lease, 0)], now_ms=T0)
    assert (await frontier.sizes()).leased == 1


async def test_a_clock_is_never_set_back(frontier: Frontier, place: Place, lease: Lease) -> None:
    await (await place.control()).host("a.test", block=T0 + 50_000)
    await frontier.release([(lease, 10)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 49_999) == []
    assert len(await claim(frontier, now_ms=T0 + 50_000)) == 1


# --- hand_back -----------------------------------------------------------------------------------


async def test_a_url_handed_back_is_next_in_line(frontier: Frontier, lease: Lease) -> None:
    await frontier.hand_back([(lease, 300)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 299) == []
    again = await one(frontier, now_ms=T0 + 300)
    assert again.entry == lease.entry
    assert again.token != lease.token


async def test_a_url_handed_back_after_its_release_is_not_stuck(
    frontier: Frontier, lease: Lease
) -> None:
    await frontier.release([(lease, 200)], now_ms=T0)
    await frontier.hand_back([(lease, 0)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 199) == []
    for i in range(2):
        await crawl(frontier, await one(frontier, now_ms=T0 + 200 + i), now_ms=T0 + 200 + i)
    assert (await frontier.sizes()).unfinished == 0


async def test_the_last_url_handed_back_after_its_release_is_not_stuck(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.release([(lease, 200)], now_ms=T0)
    await frontier.hand_back([(lease, 0)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 199) == []
    assert urls(await claim(frontier, now_ms=T0 + 200)) == ["http://a.test/"]


async def test_a_url_of_a_host_that_was_excluded_meanwhile_is_dropped(
    frontier: Frontier, place: Place, lease: Lease
) -> None:
    await (await place.control()).host("a.test", exclude=True)
    await frontier.hand_back([(lease, 0)], now_ms=T0)
    assert await claim(frontier, now_ms=T0 + 1000) == []
    sizes = await frontier.sizes()
    assert (sizes.unfinished, sizes.dropped_excluded) == (0, 2)


# --- done, retry, bury ---------------------------------------------------------------------------


async def test_done_counts_pages_of_the_host(frontier: Frontier, place: Place) -> None:
    await frontier.add(entries(3))
    for i in range(3):
        lease = await one(frontier, now_ms=T0 + i)
        await frontier.release([(lease, 0)], now_ms=T0 + i)
        await frontier.done([(lease, i < 2)])
    assert (await (await place.control()).host("a.test")).pages == 2
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.pages) == (3, 2)


async def test_a_retry_comes_back_as_the_entry_given(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.release([(lease, 0)], now_ms=T0)
    changed = replace(lease.entry.retried(), tail={"reason": "503"})
    await frontier.retry([(lease, 1000, changed)], now_ms=T0)
    assert await frontier.promote(now_ms=T0 + 1000) == 1
    assert (await one(frontier, now_ms=T0 + 1000)).entry == changed


async def test_a_recrawl_counts_as_done_and_not_as_unfinished(frontier: Frontier) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.retry([(lease, 1000, lease.entry)], kind=PAGE_AGAIN, now_ms=T0)
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.done, sizes.pages, sizes.unfinished) == (1, 1, 1, 0)
    await frontier.promote(now_ms=T0 + 1000)
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.unfinished) == (0, 1)


async def test_a_visit_that_gave_no_page_counts_as_none(frontier: Frontier, place: Place) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.retry([(lease, 1000, lease.entry)], kind=VISIT_AGAIN, now_ms=T0)
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.done, sizes.pages, sizes.unfinished) == (1, 1, 0, 0)
    assert (await (await place.control()).host("a.test")).pages == 0
    await frontier.promote(now_ms=T0 + 1000)
    assert (await frontier.sizes()).recrawls == 0


async def test_a_recrawl_counts_for_its_host_too(frontier: Frontier, place: Place) -> None:
    await frontier.add([entry("http://a.test/")])
    lease = await one(frontier)
    await frontier.retry([(lease, 1000, lease.entry)], kind=PAGE_AGAIN, now_ms=T0)
    assert (await (await place.control()).host("a.test")).pages == 1


async def test_a_buried_url_keeps_its_reason_time_and_record(
    frontier: Frontier, place: Place
) -> None:
    await frontier.add([entry("http://a.test/", attempts=4)])
    lease = await one(frontier)
    await frontier.bury([(lease, "http_410")], now_ms=T0 + 7)
    [letter] = await (await place.control()).dead()
    assert (letter.reason, letter.at_ms, letter.entry) == ("http_410", T0 + 7, lease.entry)


async def test_a_bury_frees_a_slot_that_nobody_released(frontier: Frontier, lease: Lease) -> None:
    await frontier.bury([(lease, "unreadable")], now_ms=T0)
    assert len(await claim(frontier, now_ms=T0)) == 1


async def test_two_leases_on_one_url_are_settled_apart(frontier: Frontier) -> None:
    page = entry("http://a.test/page")
    await frontier.add([page])
    first = await one(frontier, now_ms=T0)
    await frontier.release([(first, 0)], now_ms=T0)
    await frontier.add([page], mode="force")
    second = await one(frontier, now_ms=T0)
    assert (await frontier.sizes()).leased == 2
    await frontier.release([(second, 0)], now_ms=T0)
    await frontier.done([(second, True)])
    assert (await frontier.sizes()).leased == 1
    await frontier.done([(first, True)])
    assert (await frontier.sizes()).done == 2
