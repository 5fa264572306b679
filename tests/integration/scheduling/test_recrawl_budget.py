"""A fleet that visits pages again within a budget, in virtual time, on a real Redis."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from crawler.frontier import Frontier, Lease
from crawler.frontier.records import PAGE_AGAIN
from crawler.frontier.sweep import Sweeper
from crawler.scheduling.recrawl_budget import RecrawlBudget
from crawler.scheduling.recrawl_policy import RecrawlTuning, VisitResult
from crawler.scheduling.recrawls import Recrawls, visit_of
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import T0, Place, claim, entry

HOUR_S, DAY_S = 3600, 86_400
PAGES, DAYS, BUDGET_A_DAY = 12, 30, 6
# These change every other day, the others never.
CHANGING = 3


@pytest.fixture
async def place(redis_url: str) -> AsyncIterator[Place]:
    client = await connect(redis_url)
    yield Place(client, 4)
    await client.aclose()


class Process:
    """A process of the fleet, as far as recrawls go."""

    def __init__(self, place: Place, frontier: Frontier) -> None:
        self.frontier = frontier
        self.recrawls = Recrawls(RecrawlTuning())
        self.budget = RecrawlBudget(place.redis, frontier, self.recrawls)

    def use(self, text: str) -> None:
        self.recrawls.use(text)
        self.budget.apply()

    async def visit(self, lease: Lease, now_s: int) -> None:
        number = int(lease.entry.url.removeprefix("http://h").partition(".")[0])
        version = now_s // (2 * DAY_S) if number < CHANGING else 0
        content = VisitResult(b"%6d%6d" % (number, version))
        self.recrawls.visited(lease, content, {}, queue_of=lambda _: 1, now_s=now_s)
        again = self.recrawls.take(lease)
        assert again is not None
        self.recrawls.settled(lease.entry, again)
        await self.frontier.release([(lease, 0)], now_ms=now_s * 1000)
        retried = [(lease, again.wait_ms, again.entry)]
        await self.frontier.retry(retried, kind=PAGE_AGAIN, now_ms=now_s * 1000)


async def test_shards_learn_of_a_budget_while_nothing_is_due(place: Place) -> None:
    process = Process(place, await place.instance())
    waiting = entry("http://h.test/", 1)
    await process.frontier.add([waiting])
    [lease] = await claim(process.frontier)
    again = [(lease, 900 * DAY_S * 1000, lease.entry)]
    await process.frontier.retry(again, kind=PAGE_AGAIN, now_ms=T0)
    sweeper = Sweeper(place.redis, process.frontier, pause_s=0)
    process.use("adaptive")
    await process.budget.sync()
    assert await sweeper.sweep_all(now_ms=T0) == 0
    process.use("budget:1000/d")
    await process.budget.sync()
    assert await sweeper.sweep_all(now_ms=T0) == 1


async def test_a_run_that_does_not_wait_for_its_budget_says_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    process = Process(place, await place.instance())
    for ends, number in ((False, 0), (True, 1)):
        budget = RecrawlBudget(place.redis, process.frontier, process.recrawls, ends_when_idle=ends)
        budget.apply()
        process.recrawls.use("budget:100/d")
        budget.apply()
        budget.apply()
        assert caplog.text.count("CRAWL_IDLE=wait") == number
        process.recrawls.use("adaptive")


async def test_a_fleet_keeps_its_budget_and_spends_it_on_pages_that_change(place: Place) -> None:
    fleet = [Process(place, await place.instance()) for _ in range(2)]
    for process in fleet:
        process.use(f"budget:{BUDGET_A_DAY}/d")
    await fleet[0].frontier.add([entry(f"http://h{number}.test/", 1) for number in range(PAGES)])
    start_s = T0 // 1000
    days: Counter[int] = Counter()
    visits: Counter[str] = Counter()
    for step in range(DAYS * 24):
        now_s = start_s + step * HOUR_S
        process = fleet[step % 2]
        moved = await process.frontier.promote(now_ms=now_s * 1000)
        for lease in (
            await claim(process.frontier, now_ms=now_s * 1000) if moved or not step else ()
        ):
            if visit_of(lease.entry) is not None:
                days[(now_s - start_s) // DAY_S] += 1
                visits[lease.entry.host] += now_s - start_s > DAYS * DAY_S // 2
            await process.visit(lease, now_s)
        if step % 8 < 2:
            await process.budget.sync()
    # A turn may be up to an hour late, so that it comes the next day.
    assert max(days.values()) <= BUDGET_A_DAY + 1
    assert sum(days.values()) <= BUDGET_A_DAY * DAYS
    assert sum(days.values()) > 0.6 * BUDGET_A_DAY * DAYS
    changing = [visits[f"h{number}.test"] for number in range(CHANGING)]
    others = [visits[f"h{number}.test"] for number in range(CHANGING, PAGES)]
    assert min(changing) > max(others)
    assert sum(changing) / CHANGING > 2 * sum(others) / len(others)
    # All processes plan with the same counts.
    for process in fleet:
        await process.budget.sync()
    first, second = (process.recrawls.plan for process in fleet)
    assert first is not None
    assert second is not None
    await fleet[0].budget.sync()
    assert first.prices == second.prices
    assert first.prices.planned_per_s * DAY_S == pytest.approx(1.1 * BUDGET_A_DAY, rel=0.5)


async def test_without_a_budget_all_turns_are_free_again(place: Place) -> None:
    process = Process(place, await place.instance())
    process.use("budget:1/w")
    await process.frontier.add([entry(f"http://h{number}.test/", 1) for number in range(5)])
    for lease in await claim(process.frontier):
        await process.visit(lease, T0 // 1000)
    await process.budget.sync()
    process.use("adaptive")
    await process.budget.sync()
    assert await process.frontier.promote(now_ms=T0 + 400 * DAY_S * 1000) == 5
