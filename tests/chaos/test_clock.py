"""A Redis whose clock leaps: no host is contacted too soon, and the crawl does not stand still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from crawler.frontier import Beat, Claim, Frontier, Lease, Tuning
from crawler.frontier.connection import Client, connect
from crawler.frontier.shards import tags
from crawler.frontier.time import shard_time_ms
from tests.chaos.private_redis import PrivateRedis
from tests.integration.frontier.fleet import CRAWL, entries, entry, request_id
from tests.leaping_clock import LeapingClock

HOUR_S = 3600
GRACE_MS = 300
# Longer than a test takes, and shorter than any leap.
DELAY_MS = 60_000
_TIMEOUT_S = 20.0


@pytest.fixture
def clock(tmp_path: Path) -> LeapingClock:
    return LeapingClock(tmp_path)


@pytest.fixture
def server(clock: LeapingClock) -> Iterator[PrivateRedis]:
    with PrivateRedis(clock.environment) as redis:
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
    found = (await frontier.beat_each([0], silent_ms={0: silent_ms}, epochs=frontier.epochs))[0]
    assert isinstance(found, Beat)
    return found


async def claim(frontier: Frontier) -> Claim:
    return await frontier.claim(10, request_id())


async def lease(frontier: Frontier) -> Lease:
    [found] = (await claim(frontier)).leases
    return found


async def time_ms(frontier: Frontier) -> int:
    return (await beat(frontier)).now_ms


async def test_a_leap_ahead_makes_no_host_due(clock: LeapingClock, client: Client) -> None:
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), DELAY_MS)])
    clock.leap_to(HOUR_S)
    found = await claim(frontier)
    assert found.leases == []
    assert 0 < (found.wait_ms or 0) <= DELAY_MS
    said = await beat(frontier, silent_ms=10)
    assert round(said.leapt_ms / 1000) == HOUR_S
    # It is logged once.
    assert (await beat(frontier)).leapt_ms == 0
    assert (await claim(frontier)).leases == []


async def test_a_leap_back_does_not_stop_the_crawl(clock: LeapingClock, client: Client) -> None:
    clock.leap_to(HOUR_S)
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), 1)])
    clock.leap_to(0)
    leapt_ms = 0
    async with asyncio.timeout(_TIMEOUT_S):
        while not (await claim(frontier)).leases:
            leapt_ms += (await beat(frontier)).leapt_ms
    assert round((leapt_ms + (await beat(frontier)).leapt_ms) / 1000) == -HOUR_S


async def test_time_goes_on_as_it_was_after_a_leap_ahead_and_back(
    clock: LeapingClock, client: Client
) -> None:
    frontier = await instance(client)
    began_s, began_ms = time.monotonic(), await time_ms(frontier)
    for leap_s in (HOUR_S, 0, -HOUR_S, 0):
        clock.leap_to(leap_s)
        await beat(frontier)
    passed_ms = await time_ms(frontier) - began_ms
    assert 0 <= passed_ms <= (time.monotonic() - began_s) * 1000 + 1
    assert await shard_time_ms(client, tags(CRAWL, 1)[0]) >= began_ms


async def test_time_that_has_really_passed_counts(clock: LeapingClock, client: Client) -> None:
    # The server was away, or the whole fleet slept.
    frontier = await instance(client)
    await frontier.add(entries(2))
    await frontier.release([(await lease(frontier), DELAY_MS)])
    clock.leap_to(2 * DELAY_MS // 1000)
    said = await beat(frontier, silent_ms=2 * DELAY_MS)
    assert said.leapt_ms == 0
    assert len((await claim(frontier)).leases) == 1


async def test_leases_of_a_fleet_that_died_long_ago_come_back(
    clock: LeapingClock, client: Client
) -> None:
    dead = await instance(client)
    await dead.add([entry("http://a.test/")])
    await lease(dead)
    clock.leap_to(HOUR_S)
    # For a moment nobody knows whether the other one lives and the clock has leapt.
    late = await instance(client)
    assert await late.reclaim(silence_ms=30_000, rest_ms=0) == 0
    async with asyncio.timeout(_TIMEOUT_S):
        while not await late.reclaim(silence_ms=30_000, rest_ms=0):
            await beat(late)
    assert len((await claim(late)).leases) == 1


async def test_a_crawl_that_nobody_works_on_follows_the_clock(
    clock: LeapingClock, client: Client
) -> None:
    first = await instance(client)
    began_ms = await time_ms(first)
    await first.leave()
    clock.leap_to(HOUR_S)
    second = await instance(client)
    assert await time_ms(second) >= began_ms + HOUR_S * 1000
    assert (await beat(second)).leapt_ms == 0
