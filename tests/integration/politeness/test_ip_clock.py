"""Hosts that share an address take turns, whichever process asks, on a real Redis."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from crawler.errors import ConfigurationError
from crawler.politeness.ip_clock import IpClock
from tests.support.crawlers import project_crawler

NOW = 1_000_000
ADDRESSES = {"a.test": "192.0.2.1", "b.test": "192.0.2.1", "c.test": "192.0.2.1", "d.test": "::1"}
Wait = Callable[[str, int], Awaitable[int]]


@pytest.fixture
def wait(redis_client: Redis) -> Wait:
    async def connect() -> Redis:
        return redis_client

    # A process each time.
    return lambda host, after_ms: IpClock(500, ADDRESSES.get, connect).wait_ms(
        host, host, now_ms=NOW + after_ms
    )


async def test_hosts_of_one_address_start_one_after_the_other(wait: Wait) -> None:
    assert await wait("a.test", 0) == 0
    assert await wait("b.test", 100) == 400
    assert await wait("c.test", 200) == 800
    # Each has its turn, and not before.
    assert await wait("c.test", 500) == 500
    assert await wait("b.test", 500) == 0
    assert await wait("c.test", 1000) == 0
    # Their next fetches, behind all that were promised one.
    assert await wait("b.test", 1001) == 499


async def test_another_address_and_an_unknown_one_are_free(wait: Wait) -> None:
    assert await wait("a.test", 0) == 0
    assert await wait("d.test", 0) == 0
    for _ in range(2):
        assert await wait("unknown.test", 0) == 0


async def test_an_address_that_rested_is_free_at_once(wait: Wait) -> None:
    assert await wait("a.test", 0) == 0
    assert await wait("b.test", 500) == 0
    assert await wait("b.test", 60_000) == 0


async def test_who_comes_a_little_late_has_its_turn_and_who_comes_later_a_new_one(
    wait: Wait,
) -> None:
    assert await wait("a.test", 0) == 0
    assert await wait("b.test", 0) == 500
    assert await wait("c.test", 0) == 1000
    # As after a pause of all: they do not come at once.
    assert await wait("b.test", 1999) == 0
    assert await wait("c.test", 9000) == 0
    assert await wait("a.test", 9000) == 500
    assert await wait("b.test", 9000) == 1000


async def test_nobody_waits_for_long_for_hosts_that_never_come(redis_client: Redis) -> None:
    async def connect() -> Redis:
        return redis_client

    clock = IpClock(500, lambda _: "192.0.2.1", connect)

    async def asks(number: int, after_ms: int) -> int:
        host = f"h{number}.test"
        return await clock.wait_ms(host, host, now_ms=NOW + after_ms)

    waits = [await asks(number, 0) for number in range(1000)]
    assert waits[:61] == list(range(0, 30_001, 500))
    assert set(waits[61:]) == {30_000}
    # Starts were kept for sixty of them, and the address's own.
    assert await redis_client.hlen("address:192.0.2.1") == 61
    for round_ in range(1, 20):
        for number in range(60):
            assert await asks(1000 * round_ + number, 40_000 * round_) <= 30_000
    assert await redis_client.hlen("address:192.0.2.1") < 300


async def test_nothing_is_kept_for_ever(wait: Wait, redis_client: Redis) -> None:
    for host in ("a.test", "b.test", "c.test"):
        await wait(host, 0)
    assert await redis_client.hgetall("address:192.0.2.1") == {
        b"*": b"1001500",
        b"b.test": b"1000500",
        b"c.test": b"1001000",
    }
    assert 2_000 < await redis_client.pttl("address:192.0.2.1") <= 3_000


async def test_while_redis_is_away_nobody_is_contacted() -> None:
    async def connect() -> Redis:
        return Redis(unix_socket_path="/nowhere/redis.sock")

    assert await IpClock(500, ADDRESSES.get, connect).wait_ms("a.test", "a.test") == 2000


async def test_without_a_delay_redis_is_not_asked() -> None:
    async def connect() -> Redis:
        raise AssertionError

    assert await IpClock(0, ADDRESSES.get, connect).wait_ms("a.test", "a.test") == 0


def test_a_delay_below_zero_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"IP_DELAY is -1; give a number, 0 or more"):
        IpClock.of(project_crawler(IP_DELAY=-1))
