"""A Redis whose clock leaps: no host is contacted too soon, and the crawl does not stand still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crawler.frontier import Beat, Claim, Frontier, Lease, Tuning
from crawler.frontier.frontier import shard_time_ms, tags
from crawler.servers.redis.connection import Client, connect
from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet
from tests.integration.frontier.fleet import CRAWL, entries, entry, request_id
from tests.support.leaping_clock import LeapingClock
from tests.support.private_redis import PrivateRedis
from tests.support.waiting import wait_until

HOUR_S = 3600
GRACE_MS = 300
# Longer than a test takes, and shorter than any leap.
DELAY_MS = 60_000
_TIMEOUT_S = 20.0
CRAWL_DELAY_S = 0.5


@pytest.fixture
def clock(tmp_path: Path) -> LeapingClock:
    return LeapingClock(tmp_path)


@pytest.fixture
def server(clock: LeapingClock) -> Iterator[PrivateRedis]:
    with PrivateRedis(environment=clock.environment) as redis:
        yield redis


@pytest.fixture
async def client(server: PrivateRedis) -> AsyncIterator[Client]:
    client = await connect(server.url)
    yield client
    await client.aclose()


async def instance(client: Client) -> Frontier:
    frontier = Frontier(client, CRAWL, tuning=Tuning(grace_ms=GRACE_MS))
    await frontier.open()
    return frontier


async def beat(frontier: Frontier, silent_ms: int = 0) -> Beat:
    found = (await frontier.beat([0], silent_ms={0: silent_ms}, epochs=frontier.epochs))[0]
    assert isinstance(found, Beat)
    return found


async def claim(frontier: Frontier) -> Claim:
    return await frontier.claim(10, request_id())


async def lease(frontier: Frontier) -> Lease:
    [found] = (await claim(frontier)).leases
    return found


async def leap(clock: LeapingClock, client: Client, seconds: int) -> None:
    """Let the clock leap, and return when the server has noticed: it asks the time now and then."""
    clock.leap_to(seconds)
    async with asyncio.timeout(_TIMEOUT_S):
        while abs((await client.time())[0] - time.time() - seconds) > 5:
            pass


async def time_ms(frontier: Frontier) -> int:
    return (await beat(frontier)).now_ms


async def test_a_leap_ahead_makes_no_host_due(clock: LeapingClock, client: Client) -> None:
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), DELAY_MS)])
    await leap(clock, client, HOUR_S)
    found = await claim(frontier)
    # Whether time has passed is not known yet.
    assert (found.state, found.leases) == ("leap", [])
    said = await beat(frontier, silent_ms=10)
    assert (said.leaps, round(said.leapt_ms / 1000)) == (1, HOUR_S)
    found = await claim(frontier)
    assert (found.state, found.leases) == ("ok", [])
    assert 0 < (found.wait_ms or 0) <= DELAY_MS


async def test_a_leap_back_does_not_stop_the_crawl(clock: LeapingClock, client: Client) -> None:
    await leap(clock, client, HOUR_S)
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), 1)])
    await leap(clock, client, 0)
    async with asyncio.timeout(_TIMEOUT_S):
        while not (await claim(frontier)).leases:
            await beat(frontier)
    said = await beat(frontier)
    assert (said.leaps, round(said.leapt_ms / 1000)) == (1, -HOUR_S)


async def test_time_goes_on_as_it_was_after_a_leap_ahead_and_back(
    clock: LeapingClock, client: Client
) -> None:
    frontier = await instance(client)
    began_s, began_ms = time.monotonic(), await time_ms(frontier)
    for leap_s in (HOUR_S, 0, -HOUR_S, 0):
        await leap(clock, client, leap_s)
        await beat(frontier)
    passed_ms = await time_ms(frontier) - began_ms
    assert 0 <= passed_ms <= (time.monotonic() - began_s) * 1000 + 1
    assert await shard_time_ms(client, tags(CRAWL, 1)[0]) >= began_ms


async def test_a_fetch_that_ended_while_redis_was_away_has_its_delay(
    clock: LeapingClock, client: Client
) -> None:
    # Time has passed, as the instance knows; what it tells first must not be over by that.
    frontier = await instance(client)
    await frontier.add(entries(2))
    found = await lease(frontier)
    await leap(clock, client, 2 * DELAY_MS // 1000)
    await frontier.release([(found, DELAY_MS)])
    said = await beat(frontier, silent_ms=2 * DELAY_MS)
    assert said.leaps == 0
    after = await claim(frontier)
    assert (after.state, after.leases) == ("ok", [])
    assert DELAY_MS / 2 < (after.wait_ms or 0) <= DELAY_MS


async def test_a_leap_that_was_not_followed_is_not_followed_later(
    clock: LeapingClock, client: Client
) -> None:
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), 10 * DELAY_MS)])
    await leap(clock, client, HOUR_S)
    await beat(frontier, silent_ms=0)
    # Redis hangs for a while, or everybody leaves and somebody comes back.
    await leap(clock, client, HOUR_S + 15)
    await beat(frontier, silent_ms=15_000)
    assert (await claim(frontier)).leases == []
    await frontier.leave()
    await leap(clock, client, HOUR_S + 30)
    assert (await claim(await instance(client))).leases == []


async def test_leases_of_a_fleet_that_died_long_ago_come_back(
    clock: LeapingClock, client: Client
) -> None:
    dead = await instance(client)
    await dead.add([entry("http://a.test/")])
    await lease(dead)
    await leap(clock, client, HOUR_S)
    # For a moment nobody knows whether the other one lives and the clock has leapt.
    late = await instance(client)
    assert await late.reclaim(silence_ms=30_000, delay_ms=0) == 0
    async with asyncio.timeout(_TIMEOUT_S):
        while not await late.reclaim(silence_ms=30_000, delay_ms=0):
            await beat(late)
    assert len((await claim(late)).leases) == 1


async def test_a_crawl_that_nobody_works_on_follows_the_clock(
    clock: LeapingClock, client: Client
) -> None:
    first = await instance(client)
    began_ms = await time_ms(first)
    await first.leave()
    await leap(clock, client, HOUR_S)
    second = await instance(client)
    assert await time_ms(second) >= began_ms + HOUR_S * 1000
    assert (await beat(second)).leaps == 0


@pytest.mark.slow
def test_a_crawl_goes_on_at_its_pace_and_notes_each_leap_once(
    tmp_path: Path, clock: LeapingClock, server: PrivateRedis
) -> None:
    log, options = tmp_path / "access.log", WebOptions(hosts=8, pages=8, seed=3, zoo="none")
    crawls, said = Crawls(tmp_path, server.url), "The clock of Redis jumped"
    with (
        DemoServer(options, log) as web,
        Fleet(crawls, web, DELAY_MIN=CRAWL_DELAY_S, LEASE_TTL=3) as fleet,
    ):
        processes = [fleet.start("http://s0.test/", arguments={"scope": "any"})]
        wait_until(lambda: log.exists() and len(list(read_log(log))) > 4)
        processes.append(fleet.start())
        processes[1].says("Spider opened")
        for number, leap_s in enumerate((HOUR_S, 0, -HOUR_S, 0), 1):
            clock.leap_to(leap_s)
            wait_until(lambda n=number: all(each.log.count(said) >= n for each in processes))
        assert [process.wait() for process in processes] == [0, 0], processes[0].log
    verdict = judge(log, truth(options), min_delay_s=CRAWL_DELAY_S)
    assert verdict.ok, verdict.lines()
    for process in processes:
        assert process.log.count(said) == 4, process.log
        assert "Traceback" not in process.log
