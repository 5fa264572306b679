"""URLs that are wanted sooner: lifted to better queues, and recrawls that are due now."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from crawler.frontier import CrawlControl, Entry, Frontier
from crawler.frontier.frontier import ADD_MAX, shard_of
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.sweep import Sweeper
from tests.integration.frontier.fleet import (
    T0,
    Place,
    claim,
    crawl,
    entries,
    entry,
    one,
    urls,
)

DAY = 86_400_000


@pytest.fixture
def sweeper(place: Place, frontier: Frontier) -> Sweeper:
    return Sweeper(place.redis, frontier, pause_s=0)


async def lift(frontier: Frontier, found: Entry, queue: int) -> int:
    return await frontier.lift([(found.id, found.host, queue)])


async def recrawled(
    frontier: Frontier, number: int, wait_ms: int = DAY, tail: dict[str, Any] | None = None
) -> list[Entry]:
    """URLs that wait for their recrawls."""
    given = [replace(each, tail=tail or {}) for each in entries(number)]
    await frontier.add(given)
    for _ in given:
        lease = await one(frontier)
        await frontier.release([(lease, 0)], now_ms=T0)
        again = [(lease, wait_ms, lease.entry)]
        await frontier.retry(again, kind=PAGE_AGAIN, now_ms=T0)
    return given


async def test_a_waiting_url_is_lifted_to_the_end_of_a_better_queue(
    frontier: Frontier, sweeper: Sweeper
) -> None:
    waiting = entries(5, queue=4)
    await frontier.add([*entries(1, host="b.test", queue=2), *waiting])
    assert await lift(frontier, waiting[3], 2) == 1
    assert await sweeper.sweep_all() == 1
    sizes = await frontier.sizes()
    assert (sizes.front[:5], sizes.waiting) == ((0, 2, 0, 4, 0), 6)
    found = {lease.entry.url: lease.entry for lease in await claim(frontier)}
    assert found[waiting[3].url].queue == 2


async def test_each_url_is_fetched_once_after_lifts(frontier: Frontier, sweeper: Sweeper) -> None:
    waiting = [entry(f"http://h{i}.test/", 2 + i % 4) for i in range(200)]
    await frontier.add(waiting)
    chance = random.Random(1)
    for _ in range(3):
        for each in chance.sample(waiting, 60):
            await lift(frontier, each, chance.randint(1, 4))
        await sweeper.sweep_all()
        assert (await frontier.sizes()).waiting == 200
    found = urls(await claim(frontier))
    assert sorted(found) == sorted(each.url for each in waiting)
    assert (await frontier.sizes()).unfinished == 200


async def test_a_lift_never_lowers_a_url(frontier: Frontier, sweeper: Sweeper) -> None:
    [waiting] = entries(1, queue=2)
    await frontier.add([waiting])
    await lift(frontier, waiting, 4)
    await lift(frontier, waiting, 2)
    assert await sweeper.sweep_all() == 0
    assert (await one(frontier)).entry.queue == 2


async def test_the_best_of_several_lifts_counts(frontier: Frontier, sweeper: Sweeper) -> None:
    [waiting] = entries(1, queue=5)
    await frontier.add([waiting])
    for queue in (3, 2, 4):
        assert await lift(frontier, waiting, queue) == 1
    assert await sweeper.sweep_all() == 1
    assert (await one(frontier)).entry.queue == 2


async def test_what_does_not_wait_is_left_alone(frontier: Frontier, sweeper: Sweeper) -> None:
    leased, done, unknown = entries(3, queue=3)
    await frontier.add([done])
    await crawl(frontier, await one(frontier))
    await frontier.add([leased])
    lease = await one(frontier)
    for each in (leased, done, unknown):
        await lift(frontier, each, 1)
    await frontier.bring_forward((each.id, each.host, 0) for each in (leased, done, unknown))
    assert await sweeper.sweep_all() == 0
    assert (await frontier.sizes()).unfinished == 1
    await crawl(frontier, lease)
    # They are forgotten.
    await frontier.add([unknown])
    assert await sweeper.sweep_all() == 0
    assert (await one(frontier)).entry.queue == 3


async def test_gaps_neither_count_as_urls_nor_keep_a_crawl_from_ending(
    frontier: Frontier, sweeper: Sweeper
) -> None:
    waiting = entries(3, queue=5)
    await frontier.add(waiting)
    for each in waiting:
        await lift(frontier, each, 1)
    await sweeper.sweep_all()
    assert (await frontier.sizes()).front[:5] == (3, 0, 0, 0, 0)
    for _ in waiting:
        await crawl(frontier, await one(frontier))
    assert (await frontier.sizes()).unfinished == 0
    assert not await claim(frontier)
    sizes = await frontier.sizes()
    assert (sizes.front[:5], sizes.dead, sizes.done) == ((0, 0, 0, 0, 0), 0, 3)


async def test_urls_in_back_queues_are_lifted(frontier: Frontier, sweeper: Sweeper) -> None:
    waiting = entries(50, queue=5)
    await frontier.add(waiting)
    first = await one(frontier)
    last = waiting[-1]
    await lift(frontier, last, 1)
    assert await sweeper.sweep_all() == 1
    await crawl(frontier, first)
    # The five queues of a host take turns, too; the first turn is that of the best.
    found = []
    for _ in range(3):
        lease = await one(frontier)
        found.append(lease.entry.url)
        await crawl(frontier, lease)
    assert last.url in found
    sizes = await frontier.sizes()
    assert (sizes.back, sizes.done, sizes.unfinished) == (46, 4, 46)


async def test_the_surplus_of_a_parked_host_gives_it_its_turn_sooner(
    frontier: Frontier, sweeper: Sweeper, place: Place, control: CrawlControl
) -> None:
    shard = shard_of("big.test", place.shards)
    others = [f"h{i}.test" for i in range(20_000) if shard_of(f"h{i}.test", place.shards) == shard]
    assert len(others) > ADD_MAX
    await frontier.add([entry(f"http://{name}/", 4) for name in others[:ADD_MAX]])
    surplus = entries(500, host="big.test", queue=4)
    await frontier.add(surplus)
    state = await control.host("big.test")
    assert state.waiting > 400
    await lift(frontier, surplus[450], 1)
    assert await sweeper.sweep_all() == 1
    lifted = await control.host("big.test")
    assert lifted.waiting == state.waiting - 1
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.waiting) == (1, ADD_MAX + 500)
    # The first claim makes the host active.
    found = await claim(frontier, 50) + await claim(frontier, 50)
    assert surplus[450].url in urls(found)


async def test_a_purge_also_takes_what_was_to_be_lifted(
    frontier: Frontier, sweeper: Sweeper, control: CrawlControl
) -> None:
    before, other, after = entries(3, queue=4)
    await frontier.add([before, other])
    await control.host("a.test", purge=True)
    await frontier.add([after])
    for each in (before, after):
        await lift(frontier, each, 1)
    assert await sweeper.sweep_all() == 1
    assert urls(await claim(frontier)) == [after.url]
    assert (await frontier.sizes()).dropped_purged == 2


async def test_what_people_set_for_a_host_comes_first(
    frontier: Frontier, sweeper: Sweeper, control: CrawlControl
) -> None:
    [waiting] = entries(1, queue=4)
    [excluded] = entries(1, host="b.test", queue=4)
    await frontier.add([waiting, excluded])
    await control.host("a.test", queue=5)
    await control.host("b.test", exclude=True)
    await lift(frontier, waiting, 1)
    await lift(frontier, excluded, 1)
    assert await sweeper.sweep_all() == 0
    assert urls(await claim(frontier)) == [waiting.url]


async def test_a_recrawl_is_brought_forward(frontier: Frontier, sweeper: Sweeper) -> None:
    first, second, third = await recrawled(frontier, 3)
    assert await frontier.bring_forward([(second.id, second.host, 0)]) == 1
    assert await sweeper.sweep_all(now_ms=T0) == 1
    assert (await frontier.sizes()).recrawls == 3
    assert await frontier.promote(now_ms=T0 + 1000) == 1
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.waiting) == (2, 1)
    assert (await one(frontier)).entry == second
    assert await frontier.promote(now_ms=T0 + 2 * DAY) == 2
    assert (await frontier.sizes()).recrawls == 0
    found = urls(await claim(frontier, now_ms=T0 + 2 * DAY))
    assert found == [] or first.url in found or third.url in found
    assert (await frontier.sizes()).dead == 0


async def test_all_recrawls_of_a_bucket_are_brought_forward(
    frontier: Frontier, sweeper: Sweeper
) -> None:
    given = await recrawled(frontier, 60)
    assert await frontier.bring_forward([(each.id, each.host, 0) for each in given]) == 60
    assert await sweeper.sweep_all(now_ms=T0) == 60
    assert await frontier.promote(now_ms=T0 + 1000) == 60
    # Only gaps are left to promote.
    assert await frontier.promote(now_ms=T0 + 2 * DAY) == 0
    sizes = await frontier.sizes()
    assert (sizes.recrawls, sizes.waiting) == (0, 60)


@pytest.mark.parametrize(("changed_s", "moved"), [(T0 // 1000 - 1, 0), (T0 // 1000 + 1, 1), (0, 1)])
async def test_a_change_before_the_last_visit_brings_nothing_forward(
    frontier: Frontier, sweeper: Sweeper, changed_s: int, moved: int
) -> None:
    [given] = await recrawled(frontier, 1, tail={"etag": '"1"', "at": T0 // 1000, "visit": [1]})
    await frontier.bring_forward([(given.id, given.host, changed_s)])
    assert await sweeper.sweep_all(now_ms=T0) == moved
    assert await frontier.promote(now_ms=T0 + 1000) == moved


async def test_a_retry_keeps_its_delay(frontier: Frontier, sweeper: Sweeper) -> None:
    [given] = entries(1)
    await frontier.add([given])
    lease = await one(frontier)
    await frontier.release([(lease, 0)], now_ms=T0)
    await frontier.retry([(lease, DAY, lease.entry.retried())], now_ms=T0)
    await frontier.bring_forward([(given.id, given.host, 0)])
    assert await sweeper.sweep_all() == 0
    assert (await frontier.sizes()).retries == 1


async def test_a_url_that_left_a_gap_is_forgotten_and_found_as_any_other(
    frontier: Frontier, sweeper: Sweeper, control: CrawlControl
) -> None:
    given = await recrawled(frontier, 2)
    [waiting] = entries(1, host="b.test", queue=5)
    await frontier.add([waiting])
    await lift(frontier, waiting, 1)
    await frontier.bring_forward([(given[0].id, given[0].host, 0)])
    await sweeper.sweep_all(now_ms=T0)
    await frontier.promote(now_ms=T0 + 1000)
    assert (await control.status(waiting.url)).state == "waiting"
    assert (await control.status(given[0].url)).state == "waiting"
    assert (await control.status(given[1].url)).state == "delayed"
    assert await control.forget(given[1].url)
    assert (await frontier.sizes()).recrawls == 0


async def test_a_sweep_reads_long_queues_in_parts_while_others_claim(
    frontier: Frontier, sweeper: Sweeper
) -> None:
    waiting = [entry(f"http://h{i}.test/", 5) for i in range(6000)]
    await frontier.add(waiting)
    chosen = waiting[1::100]
    for each in chosen:
        await lift(frontier, each, 2)
    claimed = []
    pause = sweeper._pause

    async def claim_meanwhile() -> None:
        if len(claimed) < 3000:
            claimed.extend(await claim(frontier, 40))
        await pause()

    sweeper._pause = claim_meanwhile  # type: ignore[method-assign]
    await sweeper.sweep_all()
    claimed += await claim(frontier, 6000)
    assert sorted(urls(claimed)) == sorted(each.url for each in waiting)


async def test_only_one_process_sweeps_at_a_time(place: Place, frontier: Frontier) -> None:
    waiting = entries(1, queue=5)
    await frontier.add(waiting)
    await lift(frontier, waiting[0], 1)
    first = Sweeper(place.redis, frontier, pause_s=0)
    second = Sweeper(place.redis, await place.instance(), pause_s=0)
    found: list[int] = []
    pause = first._pause

    async def sweep_too() -> None:
        if not found:
            found.append(await second.sweep_all())
        await pause()

    first._pause = sweep_too  # type: ignore[method-assign]
    moved = await first.sweep_all()
    assert (moved, found) == (1, [0])
    assert await second.sweep_all() == 0


async def test_the_next_process_goes_on_with_a_sweep_whose_process_died(
    place: Place, frontier: Frontier, sweeper: Sweeper
) -> None:
    waiting = entries(1, queue=5)
    await frontier.add(waiting)
    await lift(frontier, waiting[0], 1)
    dying = Sweeper(place.redis, frontier, pause_s=0)
    shard = shard_of("a.test", place.shards)
    await dying._scripts.run("sweep", shard, 0)
    assert await sweeper.sweep_all() == 1


async def test_there_is_room_for_a_number_of_wishes(
    frontier: Frontier, sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.frontier.frontier.WANTED_MAX", 3)
    waiting = entries(5, queue=5)
    await frontier.add(waiting)
    assert await frontier.lift([(each.id, each.host, 1) for each in waiting]) == 3
    assert await frontier.lift([(each.id, each.host, 2) for each in waiting[:3]]) == 3
    assert await sweeper.sweep_all() == 3
    assert await frontier.lift([(each.id, each.host, 1) for each in waiting]) == 3


async def test_a_task_sweeps_until_it_is_closed(
    place: Place, frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.frontier.sweep._EVERY_S", 0.01)
    [waiting] = entries(1, queue=5)
    await frontier.add([waiting])
    await lift(frontier, waiting, 1)
    lifted = asyncio.Event()

    def count(name: str, by: int) -> None:
        if name == "frontier/lifted" and by:
            lifted.set()

    sweeper = Sweeper(place.redis, frontier, count, pause_s=0)
    sweeper.open()
    await asyncio.wait_for(lifted.wait(), 20)
    await sweeper.close()
    assert (await one(frontier)).entry.queue == 1
