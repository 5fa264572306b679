"""The outbox, lease pool and heartbeat of a process whose Redis goes away and comes back."""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier import Again, Frontier, Lease, Tuning
from crawler.frontier.entry import encode
from crawler.frontier.frontier import tags
from crawler.frontier.outbox import SAFE_AFTER_S, Outbox
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.health import LEASES, GaveUp, redis_health
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import (
    CRAWL,
    InterceptedFrontier,
    Place,
    beat,
    crawl_all,
    entries,
    entry,
    hosts,
)
from tests.support.cluster import RedisProcess
from tests.support.waiting import until


class LostReplies(InterceptedFrontier):
    """Every call is executed; the first reply of each is lost on the way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[str] = []
        self.losing = False
        self._lost = False

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        answer = await super().run(verb, shard, *args)
        self.calls.append(verb)
        self._lost = self.losing and not self._lost
        if self._lost:
            raise RedisConnectionError("the reply was lost")
        return answer


@pytest.fixture
async def place(redis_process: RedisProcess) -> AsyncIterator[Place]:
    client = await connect(redis_process.url)
    yield Place(client, 1)
    await client.aclose()


@pytest.fixture
async def frontier(place: Place) -> LostReplies:
    """An instance on the server's own clock."""
    frontier = LostReplies(place.redis, CRAWL)
    await frontier.open()
    return frontier


@pytest.fixture
async def on_several_masters(frontier: LostReplies) -> LostReplies:
    """An instance that takes its server for one of several."""
    frontier.has_one_server = False
    return frontier


async def claimed(frontier: Frontier, number: int) -> list[Lease]:
    await frontier.add(hosts(number))
    leases = (await frontier.claim(number, "first")).leases
    assert len(leases) == number
    return leases


async def test_forced_adds_whose_replies_are_lost_are_made_once(frontier: LostReplies) -> None:
    outbox = Outbox(frontier, redis_health(), lambda: None)
    frontier.losing = True
    futures = [outbox.add(entries(3), mode="force") for _ in range(3)]
    await outbox.drain()
    assert [future.result().answers for future in futures] == ["111"] * 3
    assert frontier.calls.count("add") == 6
    frontier.losing = False
    assert (await frontier.sizes()).waiting == 9


def presence(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said about Redis coming and going."""
    return [
        record.getMessage().split(" (")[0].split(" after")[0]
        for record in caplog.records
        if record.name == "crawler.servers.health"
    ]


# --- outbox --------------------------------------------------------------------------------------


async def test_what_is_sent_while_redis_is_away_arrives_when_it_is_back(
    redis_process: RedisProcess, frontier: LostReplies, caplog: pytest.LogCaptureFixture
) -> None:
    leases = await claimed(frontier, 5)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    redis_process.kill()
    futures = [outbox.add([found]) for found in entries(3)]
    for lease in leases:
        outbox.release(lease, 0)
    outbox.done(leases[0], page=True)
    outbox.retry(leases[1], 1000, leases[1].entry.retried())
    outbox.bury(leases[2], "gone")
    outbox.hand_back(leases[3], 0)
    await until(lambda: presence(caplog), "it was noticed")
    assert not any(future.done() for future in futures)
    assert set(outbox.unsettled) == {lease.key for lease in leases[:4]}
    redis_process.start()
    assert [(await future).answers for future in futures] == ["1", "1", "1"]
    await outbox.drain()
    sizes = await frontier.sizes()
    # The one that was done is crawled again: the server may have lost links that it had taken.
    assert (sizes.done, sizes.retries, sizes.dead, sizes.leased) == (0, 1, 1, 1)
    assert sizes.waiting == 5
    assert list(outbox.unsettled) == []
    assert presence(caplog) == ["Redis is away", "Redis is back"]


async def test_a_reply_that_is_lost_changes_nothing(frontier: LostReplies) -> None:
    leases = await claimed(frontier, 5)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    frontier.losing = True
    outbox.add(entries(3))
    for lease in leases:
        outbox.release(lease, 0)
    outbox.done(leases[0], page=True)
    outbox.retry(leases[1], 1000, leases[1].entry)
    outbox.bury(leases[2], "gone")
    outbox.hand_back(leases[3], 0)
    await outbox.drain()
    frontier.losing = False
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.retries, sizes.dead, sizes.leased) == (1, 1, 1, 1)
    assert (sizes.waiting, sizes.pages, sizes.added) == (4, 1, 8)


async def test_a_url_that_is_done_for_a_while_comes_back(on_several_masters: LostReplies) -> None:
    frontier = on_several_masters
    leases = await claimed(frontier, 4)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    frontier.losing = True
    await outbox.add(entries(1))
    outbox.done(leases[0], page=True, again=Again(1000, leases[0].entry))
    outbox.done(leases[1], page=False, again=Again(1000, leases[1].entry))
    outbox.done(leases[2], page=True)
    outbox.done(leases[3], page=False)
    assert len(outbox.unsettled) == 4
    await acknowledged(outbox)
    outbox.seen_alive(0, time.monotonic() + SAFE_AFTER_S)
    await outbox.drain()
    frontier.losing = False
    sizes = await frontier.sizes()
    assert (sizes.done, sizes.pages, sizes.recrawls, sizes.leased) == (4, 2, 2, 0)
    assert (sizes.unfinished, list(outbox.unsettled)) == (1, [])


async def test_links_reach_redis_before_their_page_is_done(frontier: LostReplies) -> None:
    [lease] = await claimed(frontier, 1)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    frontier.calls.clear()
    outbox.done(lease, page=True)
    outbox.release(lease, 0)
    outbox.add(entries(1))
    await outbox.drain()
    assert frontier.calls == ["release", "add", "done"]


class AnswersLate(InterceptedFrontier):
    """A frontier whose adds are answered when a test says so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        answer = await super().run(verb, shard, *args)
        if verb == "add" and not self.may_answer.is_set():
            self.asked.set()
            await self.may_answer.wait()
        return answer


@pytest.mark.parametrize("settle", ["bury", "hand_back", "done", "retry"])
async def test_no_settlement_overtakes_the_release_of_its_lease(place: Place, settle: str) -> None:
    frontier = AnswersLate(place.redis, CRAWL)
    await frontier.open()
    frontier.may_answer.set()
    [lease] = await claimed(frontier, 1)
    frontier.may_answer.clear()
    outbox = Outbox(frontier, redis_health(), lambda: None)
    outbox.add(entries(1))
    async with asyncio.timeout(20):
        await frontier.asked.wait()
        # Links are on their way when the last attempt fails.
        released_ms = time.time() * 1000
        outbox.release(lease, 5000, usual=False)
        arguments = {"bury": ("gone",), "hand_back": (0,), "retry": (0, lease.entry)}
        more = {"page": True} if settle == "done" else {}
        getattr(outbox, settle)(lease, *arguments.get(settle, ()), **more)
        frontier.may_answer.set()
        await outbox.drain()
    host = await (await place.control()).host(lease.entry.host)
    assert host.in_flight == 0
    assert host.clock_ms >= int(released_ms) + 5000


async def test_hosts_and_leases_are_freed_while_a_full_server_takes_no_links(
    frontier: LostReplies, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    before, meanwhile = await claimed(frontier, 2)
    health = redis_health()
    outbox = Outbox(frontier, health, lambda: None)
    control = await place.control()

    async def free(lease: Lease) -> bool:
        return (await control.host(lease.entry.host)).in_flight == 0

    await place.redis.config_set("maxmemory", 1)
    found = outbox.add(entries(1))
    outbox.release(before, 0)
    await until(lambda: free(before), "what was said together with links")
    await until(lambda: health.away, "it is full")
    outbox.release(meanwhile, 0)
    outbox.done(before, page=True)
    outbox.retry(meanwhile, 1000, meanwhile.entry)
    await until(lambda: free(meanwhile), "what was said after them")
    await until(lambda: _leased(frontier, 0), "and what is finished")
    assert not found.done()
    await place.redis.config_set("maxmemory", 0)
    assert (await found).new == 1
    await outbox.drain()
    assert presence(caplog) == ["Redis is away", "Redis is back"]


async def test_a_url_that_cannot_be_sent_takes_no_other_with_it(frontier: LostReplies) -> None:
    outbox = Outbox(frontier, redis_health(), lambda: None)
    good = outbox.add([entry("http://a.test/1")])
    bad = outbox.add([replace(entry("http://a.test/2"), depth=-1)])
    also_good = outbox.add([entry("http://a.test/3")])
    await outbox.drain()
    assert (good.result().answers, also_good.result().answers) == ("1", "1")
    assert isinstance(bad.exception(), struct.error)
    assert (await frontier.sizes()).waiting == 2


async def test_adds_are_kept_as_the_bytes_that_were_sent(frontier: LostReplies) -> None:
    outbox = Outbox(frontier, redis_health(), lambda: None)
    sent = entries(3)
    await outbox.add(sent)
    (kept,) = outbox._lanes[0].recent.take_doubtful()
    assert kept.entries == [encode(each) for each in sent]


async def test_one_flush_takes_all_that_waits(frontier: LostReplies) -> None:
    leases = await claimed(frontier, 20)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    frontier.calls.clear()
    futures = [outbox.add([found]) for found in entries(20)]
    for lease in leases:
        outbox.done(lease, page=True)
    await outbox.drain()
    assert frontier.calls == ["add", "done"]
    assert {future.result().answers for future in futures} == {"1"}


async def acknowledged(outbox: Outbox) -> None:
    """Wait until all that was sent was answered."""
    await until(lambda: outbox._lanes[0].task is None, "the outbox rests")


async def test_on_several_masters_done_waits_until_the_links_are_safe(
    on_several_masters: LostReplies,
) -> None:
    frontier = on_several_masters
    leases = await claimed(frontier, 2)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    began = time.monotonic()
    await outbox.add(entries(1))
    outbox.done(leases[0], page=True)
    # It was acknowledged later than this beat began, and less than two seconds before that one.
    for began_s in (began, began + SAFE_AFTER_S, time.monotonic() + SAFE_AFTER_S - 0.1):
        outbox.seen_alive(0, began_s)
        assert list(outbox.unsettled) == [leases[0].key]
        assert not outbox.empty
    assert (await frontier.sizes()).leased == 2
    outbox.seen_alive(0, time.monotonic() + SAFE_AFTER_S)
    # Nothing is open any more, so this one has nothing to wait for.
    outbox.done(leases[1], page=True)
    await outbox.drain()
    assert (await frontier.sizes()).done == 2


async def test_links_that_a_server_lost_are_added_again_before_their_page_is_done(
    on_several_masters: LostReplies,
) -> None:
    frontier = on_several_masters
    [lease] = await claimed(frontier, 1)
    outbox = Outbox(frontier, redis_health(), lambda: None)
    found = outbox.add(entries(3)), outbox.add([entry("http://forced.test/")], mode="force")
    await asyncio.gather(*found)
    outbox.done(lease, page=True)
    # The master falls back to before that.
    tag = tags(CRAWL, 1)[0]
    await frontier._redis.delete(f"{tag}:front:1", f"{tag}:forced:{frontier._adder}")
    for bucket in await frontier._redis.keys(f"{tag}:url_seen:*"):
        await frontier._redis.delete(bucket)
    outbox.repeat_adds(0)
    outbox.seen_alive(0, time.monotonic())
    assert not outbox.empty
    await acknowledged(outbox)
    assert [len(future.result().answers) for future in found] == [3, 1]
    sizes = await frontier.sizes()
    assert (sizes.front[0], sizes.leased) == (4, 1)
    outbox.seen_alive(0, time.monotonic() + SAFE_AFTER_S)
    await outbox.drain()
    assert (await frontier.sizes()).done == 1
    # What was lost by none is not there twice, long after.
    outbox.repeat_adds(0)
    await outbox.drain()
    assert (await frontier.sizes()).front[0] == 4


async def test_what_was_refused_is_not_repeated_and_what_was_taken_is_not_refused(
    place: Place,
) -> None:
    frontier = await place.instance(tuning=Tuning(full_at=2))
    outbox = Outbox(frontier, redis_health(), lambda: None)
    low = [entry(f"http://a.test/{i}", 5) for i in range(4)]
    taken, refused = outbox.add(low[:2]), outbox.add(low[2:])
    await outbox.drain()
    late = outbox.add([entry("http://a.test/late", 5)])
    await outbox.drain()
    assert (taken.result().answers, refused.result().answers) == ("11", "11")
    assert late.result().answers == "2"
    await place.redis.flushall()
    again = await place.instance(tuning=Tuning(full_at=1))
    await again.add([entry("http://b.test/")])
    outbox._lanes[0]._frontier = again
    outbox.repeat_adds(0)
    await outbox.drain()
    assert (await again.sizes()).waiting == 5


async def test_a_drain_ends_when_redis_is_given_up_on(
    redis_process: RedisProcess, on_several_masters: LostReplies
) -> None:
    frontier = on_several_masters
    [lease] = await claimed(frontier, 1)
    health = redis_health(give_up_s=0.1)
    outbox = Outbox(frontier, health, lambda: None)
    await outbox.add(entries(1))
    outbox.done(lease, page=True)
    redis_process.kill()
    health.failed(LEASES, RedisConnectionError("gone"))
    async with asyncio.timeout(20):
        await outbox.drain()
    assert outbox.empty


async def test_redis_is_given_up_on_after_a_while_and_nobody_waits_for_ever(
    redis_process: RedisProcess, on_several_masters: LostReplies
) -> None:
    frontier = on_several_masters
    [lease] = await claimed(frontier, 1)
    outbox = Outbox(frontier, redis_health(give_up_s=0.2), lambda: None)
    redis_process.kill()
    future = outbox.add(entries(1))
    outbox.done(lease, page=True)
    await outbox.drain()
    with pytest.raises((GaveUp, asyncio.CancelledError)):
        await future
    late = outbox.add(entries(1))
    await outbox.drain()
    with pytest.raises((GaveUp, asyncio.CancelledError)):
        await late
    assert outbox.empty


# --- lease pool ----------------------------------------------------------------------------------


class Process:
    """A process without Scrapy: its lease pool, and a heart that a test may stop."""

    def __init__(
        self, frontier: Frontier, *, give_up_s: float = 0.0, pulse: Pulse | None = None
    ) -> None:
        self.room = 3
        self.woken = 0
        self.epochs = 0
        self.losses: list[float] = []
        self.health = redis_health(give_up_s)
        hooks = EngineHooks(lambda: self.room, self._wake, self._take_in)
        self.pool = LeasePool(frontier, self.health, CompletionLimits(), hooks, Recrawls())
        self.heart = Heartbeat(
            frontier,
            self.pool,
            self.health,
            pulse or Pulse(beat_s=0.05),
            about=dict,
            on_beat=self._take_in,
            on_epoch=self._on_epoch,
            on_loss=self.losses.append,
        )

    def _wake(self) -> None:
        self.woken += 1

    def _on_epoch(self) -> None:
        self.epochs += 1

    async def _take_in(self) -> int:
        return 0

    async def open(self) -> None:
        await self.heart.open()
        self.pool.open()

    async def close(self) -> None:
        await self.pool.close()
        await self.heart.close()

    async def crawl(self) -> list[str]:
        """Fetch and settle until the crawl is over for this process."""
        return await crawl_all(self.pool)


@asynccontextmanager
async def running(process: Process) -> AsyncIterator[Process]:
    """Closed whatever happens: a task that outlives its test would hold the next one up."""
    await process.open()
    try:
        yield process
    finally:
        await process.close()


@pytest.fixture
async def process(frontier: LostReplies) -> AsyncIterator[Process]:
    async with running(Process(frontier)) as process:
        yield process


async def test_a_process_claims_what_it_has_room_for_and_no_more(
    frontier: LostReplies, process: Process
) -> None:
    await frontier.add(hosts(10))
    process.pool.claim_soon()
    await until(lambda: process.pool.held == 3, "leases are here")
    assert process.woken
    process.pool.claim_soon()
    beats = frontier.calls.count("beat")
    await until(lambda: frontier.calls.count("beat") >= beats + 2, "it had time to claim more")
    assert process.pool.held == (await frontier.sizes()).leased == 3


async def test_a_crawl_ends_when_all_is_done(frontier: LostReplies, process: Process) -> None:
    await frontier.add([*hosts(10), *entries(5)])
    process.pool.claim_soon()
    assert sorted(await process.crawl()) == sorted(e.url for e in [*hosts(10), *entries(5)])
    assert process.pool.completion.reason == "finished"
    assert (await frontier.sizes()).unfinished == 0


async def test_a_process_that_stays_when_all_is_done_finds_what_others_add(
    frontier: LostReplies, process: Process
) -> None:
    await frontier.add(hosts(2))
    process.pool.claim_soon()
    await process.crawl()
    assert process.pool.completion.reason == "finished"
    woken, claims = process.woken, frontier.calls.count("claim")
    beats = frontier.calls.count("beat")
    # The engine asks now and then, which costs Redis no more than a look a second.
    while frontier.calls.count("beat") < beats + 10:
        assert process.pool.take() is None
        await asyncio.sleep(0.005)
    assert frontier.calls.count("claim") <= claims + 2
    assert process.woken == woken
    await frontier.add(entries(1))
    await until(lambda: process.pool.held == 1, "it was found")
    assert process.pool.completion.reason is None
    assert await process.crawl() == ["http://a.test/0"]
    assert process.pool.completion.reason == "finished"


async def test_a_process_that_closes_hands_its_leases_back(
    frontier: LostReplies, place: Place
) -> None:
    async with running(Process(frontier)) as process:
        await frontier.add(hosts(3))
        process.pool.claim_soon()
        await until(lambda: process.pool.held == 3, "leases are here")
        released = process.pool.take()
        assert released is not None
        process.pool.release(released, 0)
    async with running(Process(await _instance(place))) as other:
        assert len(await other.crawl()) == 3


async def _instance(place: Place) -> Frontier:
    frontier = Frontier(place.redis, CRAWL)
    await frontier.open()
    return frontier


async def test_a_crawl_goes_on_after_a_restart_of_redis(
    redis_process: RedisProcess, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    frontier = await _instance(place)
    object.__setattr__(frontier.tuning, "grace_ms", 200)
    async with running(Process(frontier)) as process:
        await frontier.add([*hosts(6), *entries(6)])
        process.pool.claim_soon()
        await until(lambda: process.pool.held == 3, "leases are here")
        with caplog.at_level(logging.WARNING):
            redis_process.kill()
            await until(lambda: process.health.away, "it was noticed")
            redis_process.start()
            fetched = await process.crawl()
            assert set(fetched) == {e.url for e in [*hosts(6), *entries(6)]}
            # Those that were held are crawled again: links of theirs may be lost.
            assert len(fetched) == 12 + 3
            assert presence(caplog) == ["Redis is away", "Redis is back"]
        assert process.epochs == 1
        sizes = await frontier.sizes()
        assert (sizes.done, sizes.unfinished, sizes.reclaimed) == (12, 0, 0)


async def test_a_process_that_asks_for_nothing_does_not_say_that_redis_is_back(
    redis_process: RedisProcess, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(Process(await _instance(place))) as process:
        process.room = 0
        with caplog.at_level(logging.WARNING):
            redis_process.kill()
            await until(lambda: process.health.away, "it was noticed")
            for _ in range(10):
                process.pool.claim_soon()
                await asyncio.sleep(0.02)
            assert presence(caplog) == ["Redis is away"]
            redis_process.start()
            await until(lambda: not process.health.away, "it is back")
            assert presence(caplog) == ["Redis is away", "Redis is back"]


async def test_a_process_ends_when_redis_is_lost_for_good(
    redis_process: RedisProcess, place: Place
) -> None:
    async with running(Process(await _instance(place), give_up_s=0.2)) as process:
        redis_process.kill()
        await until(lambda: process.pool.completion.reason == "redis_lost", "it gave up")


# --- heartbeat -----------------------------------------------------------------------------------


async def test_leases_of_a_claim_whose_reply_never_came_are_handed_back(
    frontier: LostReplies, process: Process
) -> None:
    process.room = 0
    await frontier.add(hosts(4))
    await frontier.claim(4, "lost")
    await until(lambda: _leased(frontier, 0), "they were handed back")
    process.room = 3
    process.pool.claim_soon()
    assert len(await process.crawl()) == 4


async def _leased(frontier: Frontier, number: int) -> bool:
    return (await frontier.sizes()).leased == number


async def test_a_process_that_was_declared_dead_goes_on_under_a_new_name(
    frontier: LostReplies, process: Process, place: Place
) -> None:
    await frontier.add(hosts(3))
    process.pool.claim_soon()
    await until(lambda: process.pool.held == 3, "leases are here")
    name = frontier.owner
    for key in ("owners", "instances"):
        await place.redis.delete(place.key("a.test", key))
    await until(lambda: frontier.owner != name, "it took a new name")
    await until(lambda: process.pool.held == 0, "it dropped its leases")
    assert frontier.owner in await frontier.live()


class HalfBack(InterceptedFrontier):
    """One of two servers is away while this process takes a new name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attempts = 0
        self.away = False

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        is_registration = verb == "beat" and args[2] == 1
        if self.away and is_registration and shard == 1:
            self.attempts += 1
            raise RedisConnectionError("away")
        return await super().run(verb, shard, *args)


async def test_nothing_is_leased_under_a_name_that_does_not_beat(place: Place) -> None:
    frontier = HalfBack(place.redis, CRAWL, shards=2)
    await frontier.open()
    async with running(Process(frontier)) as process:
        first = frontier.owner
        frontier.away = True
        await place.redis.delete(f"{frontier.scripts.tags[0]}:owners")
        await until(lambda: frontier.owner != first, "it takes a new name")
        second = frontier.owner
        await frontier.add(hosts(8))
        attempts = frontier.attempts
        await until(lambda: frontier.attempts > attempts + 3, "it tries again and again")
        assert frontier.owner == second
        assert await frontier.live() == [second]
        # The one that knows the name gives leases, the other none.
        await until(lambda: process.pool.held, "leases are here")
        assert {lease.shard for lease in process.pool.known_leases} == {0}
        assert (await frontier.sizes(1)).leased == 0
        frontier.away = False
        assert len(await process.crawl()) == 8
        assert frontier.owner == second


async def test_what_a_process_that_is_stopped_has_added_is_durable(
    frontier: LostReplies, place: Place
) -> None:
    async def syncs() -> int:
        stats = await place.redis.info("commandstats")
        return int(stats.get("cmdstat_waitaof", {}).get("calls", 0))

    for reason, expected in (("finished", 0), (None, 1)):
        process = Process(frontier)
        await process.open()
        await process.pool.outbox.add(entries(3, host=f"{reason}.test"))
        process.pool.completion.reason = reason
        await process.close()
        assert await syncs() == expected


async def test_the_leases_of_the_dead_are_taken_back(frontier: LostReplies, place: Place) -> None:
    dead = await _instance(place)
    await dead.add(hosts(3))
    await dead.claim(3, "r")
    async with running(
        Process(frontier, pulse=Pulse(beat_s=0.05, lease_ttl_s=0.5, reclaim_delay_s=0))
    ) as process:
        assert len(await process.crawl()) == 3


async def test_many_leases_of_the_dead_are_taken_back_at_once(
    frontier: LostReplies, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    dead = await _instance(place)
    await dead.add(hosts(350))
    await dead.claim(350, "r")
    caplog.set_level(logging.INFO)
    process = Process(frontier, pulse=Pulse(beat_s=0.05, lease_ttl_s=0.5, reclaim_delay_s=0))
    process.room = 0
    async with running(process):
        await until(lambda: "Took over" in caplog.text, "the dead one was found")
    assert "Took over 350 leases" in caplog.text


async def test_after_an_absence_of_redis_the_others_may_beat_first(
    frontier: LostReplies, place: Place
) -> None:
    """All are silent while the network is away; who is back first must not bury the others."""
    other = await _instance(place)
    await other.add(hosts(3))
    leases = (await other.claim(3, "r")).leases
    process = Process(frontier, pulse=Pulse(beat_s=0.1, lease_ttl_s=0.5))
    process.room = 0
    async with running(process):
        await _outage(frontier)
        await beat(other, leases)
        assert (await other.sizes()).reclaimed == 0


async def _outage(frontier: LostReplies) -> None:
    frontier.losing = True
    silent_until = time.monotonic() + 0.6
    await until(lambda: time.monotonic() > silent_until, "the other was silent for long enough")
    beats = frontier.calls.count("beat")
    await until(lambda: frontier.calls.count("beat") >= beats + 4, "it would reclaim by now")
    frontier.losing = False


async def test_a_slot_is_freed_when_a_url_is_settled_unfetched(
    frontier: LostReplies, process: Process
) -> None:
    await frontier.add(entries(2))
    process.pool.claim_soon()
    await until(lambda: process.pool.held == 1, "a lease is here")
    lease = process.pool.take()
    assert lease is not None
    process.pool.done(lease, page=False)
    assert await process.crawl() == ["http://a.test/1"]


async def test_a_restarted_server_learns_what_is_in_flight_and_what_ended(
    frontier: LostReplies, process: Process, place: Place
) -> None:
    await frontier.add([entry("http://a.test/1"), entry("http://b.test/1")])
    process.pool.claim_soon()
    await until(lambda: process.pool.held == 2, "leases are here")
    first, second = process.pool.take(), process.pool.take()
    assert first is not None
    assert second is not None
    process.pool.release(first, 60_000)
    await process.pool.outbox.drain()
    ended, flying = first.entry.host, second.entry.host
    # The server falls back to before the claims: the hosts are free, the release never came.
    redis, key = place.redis, place.key
    await redis.hset(key(ended, f"host:{ended}"), mapping={"tokens": first.token, "clock": 0})
    await redis.hset(key(flying, f"host:{flying}"), "tokens", "")
    await redis.hset(key(ended, "stats"), "run_id", "another")
    await until(lambda: process.epochs == 1, "it was noticed")
    control = await place.control()

    async def told() -> bool:
        states = [await control.host(host) for host in (ended, flying)]
        return [state.in_flight for state in states] == [0, 1] and states[0].clock_ms > 0

    await until(told, "the server knows again")


class Overtaken(Frontier):
    """What is in flight reaches a server later than what this process says meanwhile."""

    meanwhile: Callable[[], Awaitable[Any]] | None = None

    async def reassert(self, *args: Any, **kwargs: Any) -> None:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        await super().reassert(*args, **kwargs)


@pytest.mark.parametrize("is_reply_lost", [False, True])
async def test_a_fetch_that_ends_while_a_restarted_server_is_told_of_it_frees_its_host(
    place: Place, monkeypatch: pytest.MonkeyPatch, is_reply_lost: bool
) -> None:
    frontier = Overtaken(place.redis, CRAWL)
    await frontier.open()
    async with running(Process(frontier)) as process:
        pool = process.pool
        await frontier.add([entry("http://a.test/1"), entry("http://b.test/1")])
        pool.claim_soon()
        await until(lambda: pool.held == 2, "leases are here")
        fetched, unfetched = pool.take(), pool.take()
        assert fetched is not None
        assert unfetched is not None
        if is_reply_lost:
            undo = process.heart._free_overtaken

            async def lost(_shard: int) -> None:
                monkeypatch.setattr(process.heart, "_free_overtaken", undo)
                raise RedisConnectionError("the reply was lost")

            monkeypatch.setattr(process.heart, "_free_overtaken", lost)

        async def both_end() -> None:
            pool.release(fetched, 60_000)
            pool.hand_back(unfetched, 0)
            await pool.outbox.drain()
            # Nothing is claimed before the end of the grace.
            process.room = 0

        frontier.meanwhile = both_end
        await place.redis.hset(place.key("a.test", "stats"), "run_id", "another")
        await until(lambda: process.epochs == 1 + is_reply_lost, "it was noticed")
        await until(
            lambda: frontier.meanwhile is None and not process.heart._repeated, "it was told"
        )
        control = await place.control()
        states = [await control.host(lease.entry.host) for lease in (fetched, unfetched)]
        assert [state.in_flight for state in states] == [0, 0]
        assert states[0].clock_ms > 0
