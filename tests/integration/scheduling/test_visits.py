"""Visits of hosts: pages share them, wait for slot and clock, and give both back."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier import Frontier, HostState, NoVisit, Visit
from crawler.politeness.host_delays import Fetch, HostDelays
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.visits import HostVisits, SharedVisit
from crawler.servers.health import redis_health
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import CRAWL, InterceptedFrontier, Place, Process
from tests.support.crawlers import project_crawler
from tests.support.waiting import until

HOST = "part.test"
# Longer than any test waits for something that comes.
PATIENT_S = 60.0
MINUTE_MS = 60_000


class Watched(InterceptedFrontier):
    """Frontier that counts its calls; some of their replies are lost, or come when they may."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[str] = []
        # Verbs whose next reply is lost.
        self.lost: set[str] = set()
        self.is_away = False
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        self.calls.append(verb)
        if self.is_away:
            raise RedisConnectionError("away")
        if verb == "visited":
            await self.may_end.wait()
        answer = await super().run(verb, shard, *args)
        if verb in self.lost:
            self.lost.discard(verb)
            raise RedisConnectionError("the reply was lost")
        return answer


@pytest.fixture
async def place(redis_url: str) -> AsyncIterator[Place]:
    client = await connect(redis_url)
    yield Place(client, 1)
    await client.aclose()


@pytest.fixture
async def frontier(place: Place) -> Watched:
    frontier = Watched(place.redis, CRAWL)
    await frontier.open()
    return frontier


@pytest.fixture
async def other(place: Place) -> Frontier:
    """Another process of the crawl."""
    frontier = Frontier(place.redis, CRAWL)
    await frontier.open()
    return frontier


@pytest.fixture
def pool(frontier: Watched) -> LeasePool:
    async def nothing() -> int:
        return 0

    hooks = EngineHooks(lambda: 0, lambda: None, nothing)
    pool = LeasePool(frontier, redis_health(), CompletionLimits(), hooks, Recrawls())
    pool.keep_alive(monotonic() + PATIENT_S)
    return pool


def host_delays(**settings: Any) -> HostDelays:
    return HostDelays(project_crawler(DELAY_FACTOR=0, DELAY_MIN=2, **settings))


@pytest.fixture
async def visits(pool: LeasePool) -> AsyncIterator[HostVisits]:
    visits = HostVisits(pool, host_delays())
    yield visits
    await visits.close()
    await pool.outbox.drain()


async def state(place: Place, host: str = HOST) -> HostState:
    return await (await place.control()).host(host)


async def taken(frontier: Frontier, host: str = HOST) -> Visit:
    """A visit by another process, which may have to wait for it."""

    async def visit() -> Visit | None:
        found = await frontier.visit(host)
        return found if isinstance(found, Visit) else None

    found = await until(visit, "the host may be visited")
    assert isinstance(found, Visit)
    return found


class Page:
    """Page that visits a host as long as it is told to."""

    def __init__(self, visits: HostVisits, *, within_s: float = PATIENT_S) -> None:
        self._may_leave = asyncio.Event()
        self.visit: SharedVisit | None = None
        self.task = asyncio.create_task(self._stay(visits, within_s))

    async def _stay(self, visits: HostVisits, within_s: float) -> None:
        async with visits.at(HOST, within_s=within_s) as self.visit:
            if self.visit is not None:
                await self._may_leave.wait()

    async def arrived(self) -> SharedVisit:
        await until(lambda: self.visit is not None or self.task.done(), "the page has its host")
        assert self.visit is not None
        return self.visit

    async def leave(self) -> None:
        self._may_leave.set()
        await self.task


# --- one page ------------------------------------------------------------------------------------


async def test_a_host_is_occupied_while_a_page_visits_it(
    visits: HostVisits, pool: LeasePool, place: Place, other: Frontier
) -> None:
    async with visits.at(HOST, within_s=PATIENT_S) as visit:
        assert visit is not None
        assert visit.may_fetch()
        assert (await state(place)).in_flight == 1
        assert await other.visit(HOST) == NoVisit("busy")
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    assert (await state(place)).in_flight == 0
    assert not visit.may_fetch()


CONTACTS = [
    ((Fetch(0.1, 200), 0.0, True), 2000),
    ((Fetch(0.1, 200), 7.0, True), 7000),
    ((Fetch(0.1, 404), 0.0, None), 2000),
    ((Fetch(0.1, 500), 0.0, None), 4000),
    ((Fetch(0.1, 429, 900.0), 0.0, True), 900_000),
    # The breaker opens.
    ((Fetch(0.1, None), 0.0, False), 600_000),
]


@pytest.mark.parametrize(("contact", "delay_ms"), CONTACTS)
async def test_its_end_starts_the_hosts_clock_with_the_delay_after_the_last_request(
    pool: LeasePool, place: Place, contact: tuple[Fetch, float, bool | None], delay_ms: int
) -> None:
    visits = HostVisits(pool, host_delays(BREAKER_FAILURES=1, BREAKER_REST=600))
    async with visits.at(HOST, within_s=PATIENT_S) as visit:
        assert visit is not None
        visit.fetched(Fetch(0.1, 200), crawl_delay_s=30.0, answered=True)
        visit.fetched(*contact)
        before_ms = (await state(place)).now_ms
    await visits.close()
    await pool.outbox.drain()
    found = await state(place)
    # Delays that grow are spread by a tenth.
    assert 0.9 * delay_ms <= found.clock_ms - before_ms
    assert found.clock_ms - found.now_ms <= 1.1 * delay_ms
    is_usual = not contact[0].is_overload
    assert (found.delay_ms > 0) is is_usual
    assert found.in_flight == 0


async def test_a_host_that_was_not_contacted_has_no_delay(
    visits: HostVisits, pool: LeasePool, other: Frontier, place: Place
) -> None:
    async with visits.at(HOST, within_s=PATIENT_S):
        pass
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    found = await state(place)
    assert found.clock_ms <= found.now_ms
    assert isinstance(await other.visit(HOST), Visit)


async def test_a_request_that_was_cut_off_counts_as_a_contact(
    visits: HostVisits, pool: LeasePool, place: Place
) -> None:
    async with visits.at(HOST, within_s=PATIENT_S) as visit:
        assert visit is not None
        visit.fetched(Fetch(0.1, 200), crawl_delay_s=900.0, answered=True)
        assert visit.may_fetch()
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    assert (await state(place)).delay_ms == 900_000


async def test_a_host_that_works_again_closes_its_breaker(
    visits: HostVisits, pool: LeasePool
) -> None:
    answered: list[str] = []

    async def note(host: str) -> None:
        answered.append(host)

    visits._host_delays.answered = note  # type: ignore[method-assign]
    for answer, expected in ((None, []), (False, []), (True, [HOST])):
        host = HOST if answer else f"{answer}.test"
        async with visits.at(host, within_s=PATIENT_S) as visit:
            assert visit is not None
            visit.fetched(Fetch(0.1, 200), answered=answer)
        await until(lambda: not list(pool.known_visits), "its end has arrived")
        assert answered == expected


# --- waiting -------------------------------------------------------------------------------------


async def test_a_page_waits_for_the_end_of_a_fetch_and_for_the_hosts_clock(
    visits: HostVisits, frontier: Watched, other: Frontier, place: Place
) -> None:
    theirs = await taken(other)
    page = Page(visits)
    await until(lambda: frontier.calls.count("visit") > 1, "it asks again and again")
    assert page.visit is None
    await other.visited([(theirs, 700)])
    due_ms = (await state(place)).clock_ms
    await page.arrived()
    assert (await state(place)).now_ms >= due_ms
    await page.leave()


async def test_a_page_does_not_wait_for_a_clock_that_is_due_too_late(
    visits: HostVisits, frontier: Watched, other: Frontier
) -> None:
    await other.visited([(await taken(other), 60 * MINUTE_MS)])
    for _ in range(2):
        async with asyncio.timeout(PATIENT_S):
            async with visits.at(HOST, within_s=1800) as visit:
                assert visit is None
    assert frontier.calls.count("visit") == 2


async def test_who_waits_longer_still_waits_when_another_has_gone(
    visits: HostVisits, other: Frontier, frontier: Watched
) -> None:
    await other.visited([(await taken(other), 1500)])
    hasty, patient = Page(visits, within_s=0.5), Page(visits)
    async with asyncio.timeout(PATIENT_S):
        await hasty.task
    assert hasty.visit is None
    await patient.arrived()
    await patient.leave()
    assert frontier.calls.count("visit") <= 5


async def test_a_page_goes_on_without_a_host_that_stays_occupied(
    visits: HostVisits, other: Frontier, pool: LeasePool
) -> None:
    theirs = await taken(other)
    async with visits.at(HOST, within_s=0.3) as visit:
        assert visit is None
    assert await other.visit(HOST) == theirs
    await until(lambda: not visits._visits, "nobody asks any more")
    assert not list(pool.known_visits)


async def closed(_: LeasePool, place: Place, __: Watched) -> None:
    await (await place.control()).host(HOST, exclude=True)


async def away(_: LeasePool, __: Place, frontier: Watched) -> None:
    frontier.is_away = True


async def asleep(pool: LeasePool, _: Place, __: Watched) -> None:
    pool.keep_alive(-math.inf)


async def declared_dead(_: LeasePool, place: Place, frontier: Watched) -> None:
    await place.redis.zrem(place.key(HOST, "owners"), frontier.owner)


@pytest.mark.parametrize("trouble", [closed, away, asleep, declared_dead])
async def test_a_page_does_not_wait_for_a_host_that_will_not_come(
    visits: HostVisits,
    pool: LeasePool,
    place: Place,
    frontier: Watched,
    trouble: Callable[[LeasePool, Place, Watched], Awaitable[None]],
) -> None:
    await trouble(pool, place, frontier)
    async with asyncio.timeout(PATIENT_S):
        async with visits.at(HOST, within_s=math.inf) as visit:
            assert visit is None
    assert frontier.calls.count("visit") <= 1
    frontier.is_away = False
    assert (await state(place)).in_flight == 0


async def test_a_host_that_host_rules_block_is_never_visited(
    pool: LeasePool, frontier: Watched
) -> None:
    visits = HostVisits(pool, host_delays(HOST_RULES={HOST: {"blocked": True}}))
    async with visits.at(HOST, within_s=math.inf) as visit:
        assert visit is None
    assert "visit" not in frontier.calls


async def test_a_page_that_is_cancelled_while_it_waits_takes_no_slot(
    visits: HostVisits, other: Frontier, frontier: Watched, place: Place
) -> None:
    theirs = await taken(other)
    page = Page(visits)
    await until(lambda: "visit" in frontier.calls, "it waits")
    page.task.cancel()
    await until(lambda: not visits._visits, "nobody asks any more")
    await other.visited([(theirs, 0)])
    assert (await state(place)).in_flight == 0


async def test_a_page_that_is_cancelled_gives_the_slot_back(
    visits: HostVisits, place: Place, pool: LeasePool
) -> None:
    page = Page(visits)
    await page.arrived()
    page.task.cancel()
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    assert (await state(place)).in_flight == 0


async def test_an_unexpected_error_is_logged_and_takes_no_slot(
    visits: HostVisits, frontier: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(_host: str) -> Visit:
        raise ValueError("odd")

    frontier.visit = break_down  # type: ignore[assignment,method-assign]
    async with visits.at(HOST, within_s=PATIENT_S) as visit:
        assert visit is None
    assert [each.levelno for each in caplog.records] == [logging.ERROR]
    assert f"The visit of {HOST} failed" in caplog.text


# --- several pages -------------------------------------------------------------------------------


async def test_pages_that_come_together_share_a_visit_until_the_last_has_left(
    visits: HostVisits, frontier: Watched, place: Place, pool: LeasePool
) -> None:
    pages = [Page(visits) for _ in range(3)]
    assert len({await page.arrived() for page in pages}) == 1
    late = Page(visits)
    assert await late.arrived() is pages[0].visit
    assert frontier.calls.count("visit") == 1
    for page in pages:
        await page.leave()
    assert (await state(place)).in_flight == 1
    assert late.visit is not None
    assert late.visit.may_fetch()
    await late.leave()
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    assert (await state(place)).in_flight == 0


async def test_pages_visit_different_hosts_at_the_same_time(visits: HostVisits) -> None:
    async with AsyncExitStack() as stack:
        hosts = [f"h{number}.test" for number in range(5)]
        found = [
            await stack.enter_async_context(visits.at(host, within_s=PATIENT_S)) for host in hosts
        ]
        assert [visit.host for visit in found if visit is not None] == hosts


async def test_one_request_is_made_at_a_time_in_the_order_of_the_pages(visits: HostVisits) -> None:
    turns: list[str] = []

    async def request(visit: SharedVisit, name: str) -> None:
        async with visit.turn():
            turns.append(f"{name} begins")
            for _ in range(3):
                await asyncio.sleep(0)
            turns.append(f"{name} ends")

    pages = [Page(visits) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for number, page in enumerate(pages):
            group.create_task(request(await page.arrived(), str(number)))
    assert turns == [f"{number} {what}" for number in range(3) for what in ("begins", "ends")]
    for page in pages:
        await page.leave()


async def test_a_visit_takes_in_no_more_pages_after_some_seconds(
    pool: LeasePool, frontier: Watched, place: Place
) -> None:
    visits = HostVisits(pool, host_delays(), shared_s=0)
    early = Page(visits)
    first = await early.arrived()
    hasty, patient = Page(visits, within_s=0.2), Page(visits)
    await hasty.task
    assert hasty.visit is patient.visit is None
    assert first.may_fetch()
    first.fetched(Fetch(0.0, 200))
    await early.leave()
    second = await patient.arrived()
    assert second is not first
    # Others had their turn: the host's delay passed.
    found = await state(place)
    assert (found.delay_ms, found.in_flight) == (2000, 1)
    assert frontier.calls.count("visited") == 1
    await patient.leave()


@pytest.mark.parametrize(
    ("fetch", "answered"),
    [(Fetch(0.1, 503, 900.0), True), (Fetch(0.1, 429), True), (Fetch(9.0, None), False)],
)
async def test_a_host_in_trouble_is_contacted_no_more_by_any_page(
    visits: HostVisits, pool: LeasePool, place: Place, fetch: Fetch, answered: bool
) -> None:
    first, second = Page(visits), Page(visits)
    visit = await first.arrived()
    assert await second.arrived() is visit
    visit.fetched(fetch, answered=answered)
    assert not visit.may_fetch()
    async with visits.at(HOST, within_s=0.1) as none:
        assert none is None
    # What a page notes that did not ask changes nothing.
    visit.fetched(Fetch(0.1, 200), answered=True)
    before_ms = (await state(place)).now_ms
    for page in (first, second):
        await page.leave()
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    assert (await state(place)).clock_ms - before_ms >= 4000


async def test_a_page_that_does_not_leave_keeps_a_host_for_a_limited_time(
    pool: LeasePool, frontier: Watched, place: Place
) -> None:
    visits = HostVisits(pool, host_delays(), longest_s=0.1)
    stuck = Page(visits)
    visit = await stuck.arrived()
    async with visit.turn():
        await until(lambda: not visit.takes_in, "it is over")
        assert not visit.may_fetch()
        # Not in the middle of a request.
        assert (await state(place)).in_flight == 1
        visit.fetched(Fetch(0.1, 200), answered=True)
    await until(lambda: not list(pool.known_visits), "its end has arrived")
    found = await state(place)
    assert (found.in_flight, found.delay_ms) == (0, 2000)
    await stuck.leave()
    assert frontier.calls.count("visited") == 1


# --- Redis goes away, and comes back -------------------------------------------------------------


async def test_an_end_whose_reply_is_lost_is_repeated_before_the_host_is_visited_again(
    visits: HostVisits, frontier: Watched, pool: LeasePool, place: Place
) -> None:
    frontier.may_end.clear()
    frontier.lost = {"visited"}
    page = Page(visits)
    first = await page.arrived()
    await page.leave()
    again = Page(visits)
    await until(lambda: "visited" in frontier.calls, "its end is on its way")
    # The frontier would take it for the same visit.
    assert again.visit is None
    assert frontier.calls.count("visit") == 1
    frontier.may_end.set()
    second = await again.arrived()
    assert second is not first
    assert frontier.calls.count("visited") == 2
    assert (await state(place)).in_flight == 1
    await again.leave()


@pytest.fixture
async def process(frontier: Watched) -> AsyncIterator[Process]:
    """A process whose heart beats."""
    process = Process(frontier)
    await process.heart.open()
    yield process
    await process.pool.close()
    await process.heart.close()


async def test_a_visit_whose_reply_was_lost_ends_with_a_beat(
    frontier: Watched, process: Process, other: Frontier
) -> None:
    visits = HostVisits(process.pool, host_delays())
    frontier.lost = {"visit"}
    async with visits.at(HOST, within_s=PATIENT_S) as visit:
        assert visit is None
    await taken(other)


async def test_beats_end_no_visit_that_goes_on_or_whose_end_is_on_its_way(
    frontier: Watched, process: Process, place: Place
) -> None:
    async def beaten() -> None:
        beats = frontier.calls.count("beat")
        await until(lambda: frontier.calls.count("beat") >= beats + 3, "it beats")

    visits = HostVisits(process.pool, host_delays())
    frontier.may_end.clear()
    page = Page(visits)
    visit = await page.arrived()
    await beaten()
    assert (await state(place)).in_flight == 1
    visit.fetched(Fetch(0.1, 429, 900.0), answered=True)
    await page.leave()
    await beaten()
    assert (await state(place)).in_flight == 1
    frontier.may_end.set()
    await until(lambda: not list(process.pool.known_visits), "its end has arrived")
    found = await state(place)
    assert found.clock_ms - found.now_ms > 800_000


async def test_a_restarted_server_learns_of_visits_and_of_their_ends(
    frontier: Watched, process: Process, place: Place, other: Frontier
) -> None:
    visits = HostVisits(process.pool, host_delays())
    async with visits.at("ended.test", within_s=PATIENT_S) as ended:
        assert ended is not None
        ended.fetched(Fetch(0.1, 429, 900.0), answered=True)
    await until(lambda: not list(process.pool.known_visits), "its end has arrived")
    page = Page(visits)
    await page.arrived()
    # The server falls back: one visit has not ended, the other never began.
    redis, key, owner = place.redis, place.key, frontier.owner
    token = int(await redis.hget(key(HOST, f"host:{HOST}"), "tokens"))
    state_before = {"tokens": token - 1, "clock": 0}
    await redis.hset(key("ended.test", "host:ended.test"), mapping=state_before)
    await redis.hset(key(HOST, f"visits:{owner}"), mapping={"ended.test": token - 1})
    await redis.delete(key(HOST, f"host:{HOST}"))
    await redis.hdel(key(HOST, f"visits:{owner}"), HOST)
    await redis.hset(key(HOST, "stats"), "run_id", "another")

    async def is_told() -> bool:
        states = [await state(place, host) for host in ("ended.test", HOST)]
        late = states[0].clock_ms - states[0].now_ms > 800_000
        return late and [each.in_flight for each in states] == [0, 1]

    await until(is_told, "the server knows again")
    assert isinstance(await other.visit(HOST), NoVisit)
    await page.leave()
    await until(lambda: not list(process.pool.known_visits), "its end has arrived")
    assert (await state(place)).in_flight == 0
    assert not [each async for each in redis.scan_iter("*visits:*")]


async def test_a_process_that_was_declared_dead_contacts_no_visited_host(
    frontier: Watched, process: Process, place: Place
) -> None:
    visits = HostVisits(process.pool, host_delays())
    page = Page(visits)
    visit = await page.arrived()
    assert visit.may_fetch()
    name = frontier.owner
    await place.redis.delete(place.key(HOST, "owners"))
    await until(
        lambda: frontier.owner != name and process.pool.is_alive(0), "it goes on under a new name"
    )
    assert not visit.may_fetch()
    waiting = Page(visits)
    await page.leave()
    assert (await waiting.arrived()).may_fetch()
    await waiting.leave()


async def test_the_end_of_a_process_waits_until_its_visits_have_ended(
    frontier: Watched, pool: LeasePool, place: Place
) -> None:
    visits = HostVisits(pool, host_delays())
    page = Page(visits)
    visit = await page.arrived()
    visit.fetched(Fetch(0.1, 200), answered=True)
    frontier.lost = {"visited"}
    await visits.close()
    await pool.close()
    assert not visit.may_fetch()
    found = await state(place)
    assert (found.in_flight, found.delay_ms) == (0, 2000)
    await page.leave()
    await visits.close()
