"""The lease pool on a real Redis: it gives back what it takes, and takes nothing when stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from time import monotonic, time
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier import Claim, CrawlControl, Entry, Frontier, Lease, Sizes
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool, PageLimit
from crawler.scheduling.options import CrawlOptions
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.health import redis_health
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.integration.frontier.fleet import crawl_all
from tests.support.waiting import until

SOON_S = 20.0


class SlowAnswers(Frontier):
    """Redis has done its part of a claim some time before the process hears of it."""

    delay_s = 0.2
    answered = 0

    async def claim_from(self, *args: Any, **kwargs: Any) -> dict[int, Claim]:
        claims = await super().claim_from(*args, **kwargs)
        await asyncio.sleep(self.delay_s)
        self.answered += 1
        return claims


@pytest.fixture
async def frontier(redis_url: str) -> AsyncIterator[SlowAnswers]:
    redis = await connect(redis_url)
    frontier = SlowAnswers(redis, "test")
    await frontier.open()
    yield frontier
    await redis.aclose()


class HalfAway(Frontier):
    """One of two servers does not answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.has_one_server = False

    async def claim_from(self, wanted: Any, **kwargs: Any) -> dict[int, Claim]:
        if 1 in wanted:
            raise RedisConnectionError("away")
        return await super().claim_from(wanted, **kwargs)


def lease_pool_of(
    frontier: Frontier,
    wake: Callable[[], None] = lambda: None,
    *,
    room: int = 8,
    own_per_minute: float = 0.0,
    close_when_done: bool = False,
) -> LeasePool:
    async def take_in() -> int:
        return 0

    hooks = EngineHooks(room=lambda: room, wake=wake, take_in=take_in)
    limits = CompletionLimits(close_when_done=close_when_done, own_per_minute=own_per_minute)
    lease_pool = LeasePool(frontier, redis_health(), limits, hooks, Recrawls())
    lease_pool.keep_alive(monotonic() + 60)
    return lease_pool


async def add(frontier: Frontier, *urls: str) -> None:
    await frontier.add([Entry(id=fingerprint(url), url=url) for url in urls])


async def taken_from(lease_pool: LeasePool) -> Lease:
    while (lease := lease_pool.take()) is None:  # noqa: ASYNC110 - as the engine does
        await asyncio.sleep(0.01)
    return lease


async def test_closing_in_the_middle_of_a_claim_leaves_no_lease(frontier: SlowAnswers) -> None:
    frontier.delay_s = 1.0
    await add(frontier, "http://a.test/", "http://b.test/")
    lease_pool = lease_pool_of(frontier)
    lease_pool.open()
    async with asyncio.timeout(SOON_S):
        while not (await frontier.sizes()).leased:  # noqa: ASYNC110 - Redis tells nobody
            await asyncio.sleep(0.01)
        assert lease_pool.held == 0
        await lease_pool.close()
    sizes = await frontier.sizes()
    assert (sizes.leased, sizes.waiting) == (0, 2)


async def test_a_process_with_very_much_room_claims_in_several_parts(frontier: SlowAnswers) -> None:
    frontier.delay_s = 0
    await add(frontier, *(f"http://{number}.test/" for number in range(350)))
    sizes: list[int] = []
    lease_pool = lease_pool_of(frontier, lambda: sizes.append(lease_pool.held), room=5000)
    lease_pool.open()
    await until(lambda: lease_pool.held == 350, "all are claimed")
    assert sizes == [100, 200, 300, 350]
    await lease_pool.close()


async def test_what_one_server_gave_is_fetched_while_another_is_away(redis_url: str) -> None:
    async with await connect(redis_url) as redis:
        frontier = HalfAway(redis, "test", shards=2)
        await frontier.open()
        await add(frontier, *(f"http://{number}.test/" for number in range(20)))
        woken = asyncio.Event()
        lease_pool = lease_pool_of(frontier, woken.set)
        lease_pool.open()
        async with asyncio.timeout(SOON_S):
            await woken.wait()
        assert lease_pool.take() is not None
        await lease_pool.close()


class OneCountsNoMore(Frontier):
    """One of two servers is away when the shards are counted, after the first time."""

    counts = 0
    away = False

    async def sizes(self, shard: int | None = None) -> Sizes:
        self.counts += 1
        if self.away and shard == 1:
            raise RedisConnectionError("away")
        return await super().sizes(shard)


async def test_a_limit_of_pages_holds_and_is_no_halt_while_one_server_is_away(
    redis_url: str,
) -> None:
    async with await connect(redis_url) as redis:
        frontier = OneCountsNoMore(redis, "test", shards=2)
        frontier.has_one_server = False
        await frontier.open()
        await add(frontier, *(f"http://{number}.test/" for number in range(40)))
        lease_pool = lease_pool_of(frontier)
        lease_pool.limits.max_pages = 20
        lease_pool.open()
        fetched = []
        async with asyncio.timeout(SOON_S):
            while len(fetched) < 20:
                lease = await taken_from(lease_pool)
                frontier.away = True
                fetched.append(lease)
                lease_pool.release(lease, 0)
                lease_pool.done(lease, page=True)
            # Time for several claims, of which none gives a lease, and for another count.
            before = frontier.counts
            while frontier.counts == before:
                lease_pool.claim_soon()
                await asyncio.sleep(0.01)
        assert lease_pool.take() is None
        frontier.away = False
        await lease_pool.close()
        assert (await frontier.sizes()).claimed == 20


async def test_shards_are_counted_about_once_a_second(redis_url: str) -> None:
    async with await connect(redis_url) as redis:
        frontier = OneCountsNoMore(redis, "test", shards=2)
        await frontier.open()
        limit = PageLimit(frontier)
        assert await limit.left(10) == 10
        limit.claimed(1, 4)
        assert [await limit.left(10) for _ in range(5)] == [6] * 5
        assert frontier.counts == 2


async def test_news_at_the_moment_of_closing_do_not_keep_it_open(frontier: SlowAnswers) -> None:
    lease_pool = lease_pool_of(frontier)
    lease_pool.open()
    # It has claimed once, in vain.
    await until(lambda: frontier.answered)
    lease_pool.claim_soon()
    async with asyncio.timeout(SOON_S):
        await lease_pool.close()


async def test_a_lease_that_ends_without_a_fetch_frees_its_host(frontier: Frontier) -> None:
    await add(frontier, "http://a.test/1", "http://a.test/2")
    lease_pool = lease_pool_of(frontier)
    lease_pool.open()
    async with asyncio.timeout(SOON_S):
        for _ in range(2):
            lease = await taken_from(lease_pool)
            lease_pool.done(lease, page=False)
        await lease_pool.close()
    assert (await frontier.sizes()).done == 2


async def test_a_postponed_url_loses_no_attempt_and_holds_up_no_other_of_its_host(
    frontier: Frontier,
) -> None:
    await add(frontier, "http://a.test/1", "http://a.test/2")
    lease_pool = lease_pool_of(frontier)
    lease_pool.open()
    async with asyncio.timeout(SOON_S):
        first = await taken_from(lease_pool)
        lease_pool.release(first, 0)
        lease_pool.postpone(first, 60_000, queue=first.entry.queue)
        second = await taken_from(lease_pool)
        await lease_pool.outbox.drain()
        assert second.entry.url != first.entry.url
        assert (await frontier.sizes()).retries == 1
        later_ms = round(time() * 1000) + 120_000
        assert await frontier.promote(now_ms=later_ms) == 1
        lease_pool.release(second, 0)
        again = await taken_from(lease_pool)
        await lease_pool.close()
    assert (again.entry.url, again.entry.attempts) == (first.entry.url, 0)


async def test_pages_that_are_read_are_no_suspects_if_the_process_dies(frontier: Frontier) -> None:
    lease_pool = lease_pool_of(frontier)
    await add(frontier, *(f"http://{name}.test/" for name in "abcd"))
    leases = (await frontier.claim(4, "all")).leases
    lease_pool.claimed(leases)
    waiting, fetched, read, done = leases
    for lease in (fetched, read, done):
        assert lease_pool.may_fetch(lease)
    assert lease_pool.unsuspected == {waiting.key}
    # Its page waits for its store; another one is stored, and Redis does not know it yet.
    lease_pool.parsed(read)
    lease_pool.done(done, page=True)
    assert lease_pool.unsuspected == {waiting.key, read.key, done.key}
    await lease_pool.outbox.drain()
    assert lease_pool.unsuspected == {waiting.key, read.key}


async def test_a_process_that_may_have_been_declared_dead_takes_nothing(
    frontier: Frontier,
) -> None:
    await add(frontier, "http://a.test/")
    lease_pool = lease_pool_of(frontier)
    lease_pool.open()
    async with asyncio.timeout(SOON_S):
        await until(lambda: lease_pool.held)
        lease_pool.keep_alive(monotonic() - 0.001)
        assert lease_pool.take() is None
        lease_pool.keep_alive(monotonic() + 60)
        assert lease_pool.take() is not None
        await lease_pool.close()


async def test_leases_of_a_shard_that_may_have_declared_it_dead_are_passed_over(
    redis_url: str,
) -> None:
    async with await connect(redis_url) as redis:
        frontier = Frontier(redis, "test", shards=2)
        await frontier.open()
        await add(frontier, *(f"http://{number}.test/" for number in range(8)))
        lease_pool = lease_pool_of(frontier)
        lease_pool.open()
        async with asyncio.timeout(SOON_S):
            while lease_pool.ready < 8:  # noqa: ASYNC110 - as the engine does
                await asyncio.sleep(0.01)
        lease_pool.keep_alive(monotonic() - 0.001, 0)
        # Nor do they keep others from being claimed.
        ready = lease_pool.ready
        taken = [lease for _ in range(8) if (lease := lease_pool.take()) is not None]
        assert {lease.shard for lease in taken} == {1}
        assert 0 < len(taken) == ready < 8
        assert not any(lease.shard == 1 for lease in lease_pool._ready)
        lease_pool.keep_alive(monotonic() + 60, 0)
        late = lease_pool.take()
        assert late is not None
        assert lease_pool.may_fetch(late)
        lease_pool.keep_alive(monotonic() - 0.001, 0)
        assert not lease_pool.may_fetch(late)
        await lease_pool.close()


async def test_a_server_that_forgot_a_process_learns_which_hosts_it_contacted(
    frontier: Frontier, redis_url: str
) -> None:
    redis = await connect(redis_url)
    await add(frontier, "http://a.test/")
    lease_pool = lease_pool_of(frontier)
    heartbeat = Heartbeat(
        frontier,
        lease_pool,
        redis_health(),
        Pulse(beat_s=0.05, lease_ttl_s=20),
        about=dict,
        on_beat=partial(asyncio.sleep, 0),
        on_epoch=lambda: None,
        on_loss=lambda _: None,
    )
    async with asyncio.timeout(SOON_S):
        await heartbeat.open()
        lease_pool.open()
        lease = await taken_from(lease_pool)
        # As after a crash that took the last second with it, in which this process began.
        # At once: a beat in between would find two faults instead of one.
        async with redis.pipeline(transaction=True) as fault:
            fault.zrem("{test:0}:owners", frontier.owner)
            fault.hset("{test:0}:stats", "run_id", "0")
            await fault.execute()
        while lease_pool.holds(lease):  # noqa: ASYNC110 - a beat finds out
            await asyncio.sleep(0.01)
        control = await CrawlControl.open(redis, "test")
        while not (await control.host("a.test")).clock_ms:  # noqa: ASYNC110 - the same beat
            await asyncio.sleep(0.01)
        server_ms = int((await redis.time())[0] * 1000)
        assert (await control.host("a.test")).clock_ms > server_ms + 10_000
        await lease_pool.close()
        await heartbeat.close()
    await redis.aclose()


# --- rates ---------------------------------------------------------------------------------------


async def claimed_by(lease_pool: LeasePool) -> int:
    """Claim once, and count the leases that are held now."""
    await lease_pool._claim_once()
    return lease_pool.held


async def test_a_process_begins_no_more_than_its_rate_allows(frontier: SlowAnswers) -> None:
    frontier.delay_s = 0
    await add(frontier, *(f"http://{number}.test/" for number in range(20)))
    lease_pool = lease_pool_of(frontier, own_per_minute=0.1)
    assert [await claimed_by(lease_pool) for _ in range(3)] == [1, 1, 1]
    # Redis was asked once: it waits by itself.
    assert frontier.answered == 1
    await lease_pool.close()


async def test_the_processes_of_a_crawl_share_its_rate(redis_url: str) -> None:
    async with await connect(redis_url) as redis:
        fleet = []
        for _ in range(3):
            frontier = Frontier(redis, "test", shards=4)
            await frontier.open()
            fleet.append(lease_pool_of(frontier))
        await add(frontier, *(f"http://{number}.test/" for number in range(100)))
        for lease_pool in fleet:
            lease_pool.follow(CrawlOptions(max_pages_per_minute=1))
        for _ in range(2):
            for lease_pool in fleet:
                await claimed_by(lease_pool)
        assert sum(lease_pool.held for lease_pool in fleet) == 1
        # A change of the option applies with the next claim of each.
        for lease_pool in fleet:
            lease_pool.follow(CrawlOptions())
        assert await claimed_by(fleet[1]) == 8
        for lease_pool in fleet:
            await lease_pool.close()


async def end_unfetched(lease_pool: LeasePool, lease: Lease, how: str) -> None:
    if how == "put off":
        lease_pool.hand_back(lease, 60_000)
    elif how == "denied":
        lease_pool.release(lease, 0)
        lease_pool.done(lease, page=False)
    elif how == "dropped":
        lease_pool.done(lease, page=False)
    elif how == "fetched":
        assert lease_pool.may_fetch(lease)
        lease_pool.release(lease, 0)
        lease_pool.parsed(lease)
        lease_pool.done(lease, page=True)
    else:
        assert lease_pool.may_fetch(lease)
        # For its robots.txt.
        lease_pool.hand_back(lease, 60_000)
    await lease_pool.outbox.drain()


@pytest.mark.parametrize("whose", ["process", "crawl"])
@pytest.mark.parametrize(
    ("how", "counts"),
    [
        ("put off", False),
        ("denied", False),
        ("dropped", False),
        ("fetched", True),
        ("robots.txt", True),
    ],
)
async def test_a_url_counts_for_rates_if_its_host_was_contacted(
    redis_url: str, whose: str, how: str, counts: bool
) -> None:
    async with await connect(redis_url) as redis:
        frontier = Frontier(redis, "test")
        await frontier.open()
        await add(frontier, *(f"http://{number}.test/" for number in range(20)))
        lease_pool = lease_pool_of(frontier, own_per_minute=1 if whose == "process" else 0)
        lease_pool.follow(CrawlOptions(max_pages_per_minute=1 if whose == "crawl" else 0))
        assert await claimed_by(lease_pool) == 1
        lease = lease_pool.take()
        assert lease is not None
        await end_unfetched(lease_pool, lease, how)
        assert await claimed_by(lease_pool) == (0 if counts else 1)
        await lease_pool.close()


async def test_a_crawl_with_a_rate_comes_to_its_end(redis_url: str) -> None:
    async with await connect(redis_url) as redis:
        frontier = Frontier(redis, "test", shards=4)
        await frontier.open()
        await add(frontier, *(f"http://{number}.test/" for number in range(30)))
        # Thirty in less than a second.
        lease_pool = lease_pool_of(frontier, own_per_minute=6000, close_when_done=True)
        lease_pool.follow(CrawlOptions(max_pages_per_minute=3000))
        lease_pool.open()
        async with asyncio.timeout(SOON_S):
            assert len(await crawl_all(lease_pool)) == 30
        assert lease_pool.completion.reason == "finished"
        await lease_pool.close()
