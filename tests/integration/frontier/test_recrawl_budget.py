"""Recrawls that take turns in a budget."""

from __future__ import annotations

import pytest

from crawler.frontier import Entry, Frontier, Kind
from crawler.frontier.frontier import EXPRESS_SHARE
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.sweep import Sweeper
from tests.integration.frontier.fleet import T0, Place, claim, entry, urls

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
# When a URL is due that is delayed for an hour: buckets are a minute wide.
DUE = -(-(T0 + HOUR) // MINUTE) * MINUTE
# One recrawl in the usual lane takes ten seconds.
PER_S = 0.1 / (1 - EXPRESS_SHARE)


async def delayed(frontier: Frontier, given: list[Entry], wait_ms: int = HOUR) -> None:
    """Let URLs of hosts of their own wait for their recrawls."""
    await frontier.add(given)
    leases = await claim(frontier, len(given))
    assert len(leases) == len(given)
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    again = [(lease, wait_ms, lease.entry) for lease in leases]
    await frontier.retry(again, kind=PAGE_AGAIN, now_ms=T0)


def pages(number: int) -> list[Entry]:
    return [entry(f"http://h{i}.test/", 2) for i in range(number)]


async def begun(frontier: Frontier, start_ms: int, end_ms: int, step_ms: int) -> list[int]:
    """How many recrawls begin in each step."""
    return [await frontier.promote(now_ms=at) for at in range(start_ms, end_ms, step_ms)]


async def test_no_more_recrawls_begin_than_the_budget_has(frontier: Frontier) -> None:
    await delayed(frontier, pages(50))
    frontier.set_recrawl_budget(PER_S)
    numbers = await begun(frontier, DUE, DUE + 120 * SECOND, 5 * SECOND)
    if frontier.has_one_server:
        assert sum(numbers) == 12
        assert max(numbers) == 1
    sizes = await frontier.sizes()
    assert sizes.recrawls + sizes.waiting == 50
    # All come in the end, and none twice.
    numbers += await begun(frontier, DUE + 120 * SECOND, DUE + 510 * SECOND, 10 * SECOND)
    if not frontier.has_one_server:
        numbers += await begun(frontier, DUE + 510 * SECOND, DUE + HOUR // 2, 10 * SECOND)
    assert sum(numbers) == 50
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.waiting) == (0, 50)
    assert len(set(urls(await claim(frontier, 60, now_ms=DUE + HOUR)))) == 50


async def test_shards_share_a_budget_by_their_pages(frontier: Frontier) -> None:
    await delayed(frontier, pages(60))
    counts = [sizes.recrawls for sizes in await frontier.sizes_by_shard()]
    frontier.set_recrawl_budget(PER_S, counts)
    numbers = await begun(frontier, DUE, DUE + 5 * MINUTE, 5 * SECOND)
    # On a cluster, each shard begins with a turn.
    assert 29 <= sum(numbers) <= 31 + (0 if frontier.has_one_server else frontier.shards)
    # A shard that seemed to have no pages does not wait for ever.
    frontier.set_recrawl_budget(PER_S, [*[0] * (frontier.shards - 1), 1])
    later = await begun(frontier, DUE + 5 * MINUTE, DUE + 3 * HOUR, 10 * MINUTE)
    assert sum(numbers) + sum(later) == 60


async def test_without_a_budget_all_begin_when_they_are_due(frontier: Frontier) -> None:
    await delayed(frontier, pages(50))
    assert await frontier.promote(now_ms=DUE) == 50


async def test_turns_of_a_fleet_that_stood_still_are_void(frontier: Frontier) -> None:
    await delayed(frontier, pages(50))
    frontier.set_recrawl_budget(PER_S)
    before = await frontier.promote(now_ms=DUE)
    numbers = await begun(frontier, T0 + DAY, T0 + DAY + 60 * SECOND, 5 * SECOND)
    if frontier.has_one_server:
        assert (before, sum(numbers)) == (1, 6)
    assert sum(numbers) <= 6 * frontier.shards


@pytest.mark.parametrize("times", [0.1, 10])
async def test_turns_are_void_when_the_budget_is_changed(frontier: Frontier, times: float) -> None:
    if not frontier.has_one_server:
        pytest.skip("each shard has its own turns")
    await delayed(frontier, pages(50))
    frontier.set_recrawl_budget(PER_S)
    # All get their turns, the last one after 490 seconds.
    assert await frontier.promote(now_ms=DUE) == 1
    frontier.set_recrawl_budget(PER_S * times)
    start = DUE + 10 * SECOND
    numbers = await begun(frontier, start, start + 300 * SECOND, 5 * SECOND)
    # They come up at the old turns, and wait for new ones if these are rarer.
    assert sum(numbers) in ((3, 4) if times < 1 else (30, 31))


@pytest.mark.parametrize("times", [0, 1000])
async def test_a_higher_budget_or_none_lets_nobody_wait_for_old_turns(
    frontier: Frontier, place: Place, times: float
) -> None:
    await delayed(frontier, pages(50))
    frontier.set_recrawl_budget(PER_S / 1000)
    # The last one has its turn after some days.
    begun_before = await frontier.promote(now_ms=DUE)
    frontier.set_recrawl_budget(PER_S / 1000 * times)
    time_ms = DUE + 10 * SECOND
    begun_now = await frontier.promote(now_ms=time_ms)
    await Sweeper(place.redis, frontier, pause_s=0).sweep_all(now_ms=time_ms)
    later = await begun(frontier, time_ms, time_ms + HOUR, 10 * SECOND)
    assert begun_before + begun_now + sum(later) == 50
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.waiting) == (0, 50)
    # Nobody looks for them any more.
    assert await Sweeper(place.redis, frontier).sweep_all(now_ms=time_ms) == 0


async def test_recrawls_that_are_too_late_in_a_new_budget_are_due(
    frontier: Frontier, place: Place
) -> None:
    late, soon, late_again = pages(3)
    await delayed(frontier, [late], wait_ms=900 * DAY)
    # The first intervals vary by half.
    await delayed(frontier, [soon], wait_ms=45 * DAY)
    frontier.set_recrawl_budget(PER_S, longest_s=30 * DAY / SECOND)
    sweeper = Sweeper(place.redis, frontier, pause_s=0)
    assert await frontier.promote(now_ms=DUE) == 0
    assert await sweeper.sweep_all(now_ms=DUE) == 1
    assert await frontier.promote(now_ms=DUE + SECOND) == 1
    assert urls(await claim(frontier, 3, now_ms=DUE + SECOND)) == [late.url]
    # Only when the budget is changed, and not for one that is so low that all have to wait.
    await delayed(frontier, [late_again], wait_ms=900 * DAY)
    assert await frontier.promote(now_ms=DUE + MINUTE) == 0
    assert await sweeper.sweep_all(now_ms=DUE + MINUTE) == 0
    frontier.set_recrawl_budget(PER_S / 1e9, longest_s=30 * DAY / SECOND)
    assert await frontier.promote(now_ms=DUE + MINUTE) == 0
    assert await sweeper.sweep_all(now_ms=DUE + MINUTE) == 0


async def test_recrawls_wait_as_they_are_while_they_are_switched_off(
    frontier: Frontier, place: Place
) -> None:
    await delayed(frontier, pages(50))
    frontier.set_recrawl_budget(PER_S / 1000)
    await frontier.promote(now_ms=DUE)
    frontier.set_recrawl_budget(None)
    await frontier.promote(now_ms=DUE + MINUTE)
    assert await Sweeper(place.redis, frontier).sweep_all(now_ms=DUE + MINUTE) == 0


async def test_retries_take_no_turns(frontier: Frontier) -> None:
    given = pages(20)
    await frontier.add(given)
    leases = await claim(frontier, 20)
    await frontier.release([(lease, 0) for lease in leases], now_ms=T0)
    await frontier.retry([(lease, HOUR, lease.entry.retried()) for lease in leases], now_ms=T0)
    frontier.set_recrawl_budget(PER_S)
    assert await frontier.promote(now_ms=DUE) == 20


async def test_what_is_brought_forward_passes_the_others(frontier: Frontier, place: Place) -> None:
    if not frontier.has_one_server:
        pytest.skip("each shard has its own turns")
    wanted = entry("http://wanted.test/", 2)
    await delayed(frontier, [wanted], wait_ms=9 * DAY)
    await delayed(frontier, pages(30))
    frontier.set_recrawl_budget(PER_S)
    assert await frontier.promote(now_ms=DUE) == 1
    await frontier.bring_forward([(wanted.id, wanted.host, 0)])
    assert await Sweeper(place.redis, frontier, pause_s=0).sweep_all(now_ms=DUE) == 1
    assert await frontier.promote(now_ms=DUE + 2 * SECOND) == 1
    assert wanted.url in urls(await claim(frontier, 5, now_ms=DUE + 2 * SECOND))


async def test_news_of_a_page_that_waits_for_its_turn_take_no_other(
    frontier: Frontier, place: Place
) -> None:
    if not frontier.has_one_server:
        pytest.skip("each shard has its own turns")
    given = pages(20)
    await delayed(frontier, given)
    frontier.set_recrawl_budget(PER_S)
    numbers = []
    for time_ms in range(DUE, DUE + 200 * SECOND, 10 * SECOND):
        # A sitemap tells again and again that all of its pages changed.
        await frontier.bring_forward([(found.id, found.host, 0) for found in given])
        await Sweeper(place.redis, frontier, pause_s=0).sweep_all(now_ms=time_ms)
        numbers.append(await frontier.promote(now_ms=time_ms))
    # All come by the turns that they took at first, and by one more.
    numbers += await begun(frontier, DUE + 200 * SECOND, DUE + 400 * SECOND, 10 * SECOND)
    assert sum(numbers) == 20


async def test_a_sitemap_passes_the_pages(frontier: Frontier) -> None:
    if not frontier.has_one_server:
        pytest.skip("each shard has its own turns")
    sitemap = entry("http://sitemap.test/", 2, kind=Kind.SITEMAP)
    await delayed(frontier, [*pages(30), sitemap])
    frontier.set_recrawl_budget(PER_S)
    assert await frontier.promote(now_ms=DUE) == 2
    assert sitemap.url in urls(await claim(frontier, 5, now_ms=DUE))
