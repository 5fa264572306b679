"""The cache of addresses, over a real DNS server and a real Redis."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from crawler.dns.lookup import DnsFailed, Lookup, NoSuchHost
from crawler.dns.resolver import DnsCache, forget
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.util.backoff import Backoff
from crawler.util.breaker import Breaker
from tests.support.dns_server import DnsServer
from tests.support.waiting import until

ONE, OTHER = "192.0.2.1", "192.0.2.2"


@pytest.fixture
async def server() -> AsyncIterator[DnsServer]:
    async with DnsServer() as server:
        server.set("a.test", ONE)
        yield server


class Clock:
    """The cache's time, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("crawler.dns.resolver.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class Cache(DnsCache):
    """A cache that keeps its statistics where a test sees them."""

    def __init__(
        self,
        server: DnsServer,
        redis: Redis | None = None,
        *,
        lifetime_s: float = 0.2,
        **arguments: Any,
    ) -> None:
        self.stats: Counter[str] = Counter()
        lookup = Lookup([server.address], ipv6=False, try_s=lifetime_s / 2, lifetime_s=lifetime_s)
        super().__init__(
            lookup,
            count=self.count,
            **{"size": 100, "min_ttl_s": 60, "max_ttl_s": 3600, **arguments},
        )
        self.redis = redis

    def count(self, name: str) -> None:
        self.stats[name] += 1


async def test_an_answer_is_kept(server: DnsServer) -> None:
    cache = Cache(server)
    for _ in range(3):
        assert await cache.get("a.test") == (ONE,)
    assert server.questions("a.test") == 1
    assert cache.stats == {"dns/misses": 1, "dns/hits": 2}


@pytest.mark.parametrize(("ttl_s", "kept_s"), [(1, 60), (0, 60), (300, 300), (90_000, 3600)])
async def test_an_answer_is_used_as_long_as_it_says_within_limits(
    server: DnsServer, clock: Clock, ttl_s: int, kept_s: float
) -> None:
    server.set("a.test", ONE, ttl=ttl_s)
    cache = Cache(server)
    await cache.get("a.test")
    server.set("a.test", OTHER)
    clock.now += kept_s * 0.89
    assert await cache.get("a.test") == (ONE,)
    assert server.questions() == 1
    clock.now += kept_s * 0.12
    assert await cache.get("a.test") == (OTHER,)


async def test_an_answer_in_use_is_renewed_before_its_end(server: DnsServer, clock: Clock) -> None:
    cache = Cache(server)
    await cache.get("a.test")
    server.set("a.test", OTHER)
    clock.now += 280
    assert await cache.get("a.test") == (ONE,)
    await asyncio.gather(*cache._in_flight.values())
    assert await cache.get("a.test") == (OTHER,)
    assert server.questions() == 2


async def test_no_such_name_is_remembered_for_a_minute(server: DnsServer, clock: Clock) -> None:
    cache = Cache(server)
    for _ in range(3):
        with pytest.raises(NoSuchHost):
            await cache.get("new.test")
    assert server.questions() == 1
    assert cache.stats["dns/nxdomain"] == 1
    server.set("new.test", ONE)
    clock.now += 61
    assert await cache.get("new.test") == (ONE,)


async def test_a_name_is_looked_up_once_however_many_ask(server: DnsServer) -> None:
    server.delay_s = 0.05
    cache = Cache(server)
    found = await asyncio.gather(*(cache.get("a.test") for _ in range(50)))
    assert set(found) == {(ONE,)}
    assert server.questions() == 1


async def test_a_lookup_goes_on_for_others_when_one_gives_up(server: DnsServer) -> None:
    server.delay_s = 0.05
    cache = Cache(server, lifetime_s=120)
    impatient = asyncio.create_task(cache.get("a.test"))
    patient = asyncio.create_task(cache.get("a.test"))
    await until(lambda: server.most_at_once == 1)
    impatient.cancel()
    assert await patient == (ONE,)
    assert server.questions() == 1


async def test_names_may_be_looked_up_before_they_are_needed(server: DnsServer) -> None:
    cache = Cache(server)
    cache.prefetch(["a.test", "a.test", "nowhere.test"])
    await asyncio.gather(*cache._in_flight.values())
    cache.prefetch(["a.test"])
    assert await cache.get("a.test") == (ONE,)
    assert server.questions() == 2


async def test_memory_is_bounded_and_keeps_what_was_used_last(server: DnsServer) -> None:
    server.set("*", ONE)
    cache = Cache(server, size=2)
    for name in ("1.test", "2.test", "1.test", "3.test", "1.test"):
        await cache.get(name)
    assert server.questions("1.test") == 1
    await cache.get("2.test")
    assert server.questions("2.test") == 2


# --- while DNS is down ---------------------------------------------------------------------------


@pytest.mark.parametrize("mood", ["servfail", "silent"])
async def test_an_old_answer_is_used_while_dns_is_down(
    server: DnsServer, clock: Clock, mood: str
) -> None:
    cache = Cache(server)
    await cache.get("a.test")
    server.mood = mood
    clock.now += 86_000
    assert await cache.get("a.test") == (ONE,)
    assert await cache.get("a.test") == (ONE,)
    assert cache.stats["dns/stale"] == 2
    assert cache.stats["dns/errors"] == 1
    server.mood = "answers"
    server.set("a.test", OTHER)
    clock.now += 31
    assert await cache.get("a.test") == (OTHER,)


async def test_a_very_old_answer_is_not_used(server: DnsServer, clock: Clock) -> None:
    cache = Cache(server)
    await cache.get("a.test")
    server.mood = "servfail"
    clock.now += 86_400 + 301
    with pytest.raises(DnsFailed):
        await cache.get("a.test")


async def test_an_answer_that_the_name_is_gone_ends_the_old_one(
    server: DnsServer, clock: Clock
) -> None:
    cache = Cache(server)
    await cache.get("a.test")
    server.forget("a.test")
    clock.now += 301
    with pytest.raises(NoSuchHost):
        await cache.get("a.test")


async def test_many_failures_in_a_row_stop_the_storm(
    server: DnsServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="crawler")
    cache = Cache(server, breaker=Breaker(4, backoff=Backoff(1.0, 1.0)))
    server.set("*", ONE)
    server.mood = "servfail"
    for number in range(100):
        with pytest.raises(DnsFailed):
            await cache.get(f"{number}.test")
    asked = server.questions()
    assert cache.stats["dns/errors"] == 4
    # One probe at a time, and a second apart.
    clock.now += 1.1
    for number in range(10):
        with pytest.raises(DnsFailed):
            await cache.get(f"{number}.test")
    assert cache.stats["dns/errors"] == 5
    assert server.questions() - asked <= asked / 4 + 1
    server.mood = "answers"
    clock.now += 1.1
    await cache.get("0.test")
    await cache.get("1.test")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.partition(";")[0] for line in lines] == [
        "DNS does not answer",
        "DNS answers again",
    ]


async def test_an_outage_costs_few_lookups_at_once(server: DnsServer) -> None:
    server.mood = "silent"
    cache = Cache(server, breaker=Breaker(4, backoff=Backoff(0.0, 0.0)))
    for number in range(4):
        with pytest.raises(DnsFailed):
            await cache.get(f"{number}.test")
    server.most_at_once = 0
    found = await asyncio.gather(
        *(cache.get(f"{number}.test") for number in range(50)), return_exceptions=True
    )
    assert all(isinstance(error, DnsFailed) for error in found)
    assert cache.stats["dns/errors"] == 5


# --- the fleet -----------------------------------------------------------------------------------


async def test_an_answer_serves_all_processes(server: DnsServer, redis_client: Redis) -> None:
    assert await Cache(server, redis_client).get("a.test") == (ONE,)
    other = Cache(server, redis_client)
    assert await other.get("a.test") == (ONE,)
    assert server.questions() == 1
    assert other.stats == {"dns/hits": 1}


async def test_no_such_name_serves_all_processes(server: DnsServer, redis_client: Redis) -> None:
    for _ in range(2):
        with pytest.raises(NoSuchHost):
            await Cache(server, redis_client).get("nowhere.test")
    assert server.questions() == 1
    assert 59_000 < await redis_client.pttl("dns:nowhere.test") <= 60_000


async def test_a_shared_answer_is_no_longer_good_than_in_the_first_process(
    server: DnsServer, redis_client: Redis
) -> None:
    ttl = {"min_ttl_s": 0.3, "max_ttl_s": 0.3}
    await Cache(server, redis_client, **ttl).get("a.test")
    server.set("a.test", OTHER)

    async def of_another_process() -> bool:
        return await Cache(server, redis_client, **ttl).get("a.test") == (OTHER,)

    await until(of_another_process, "the first answer is too old")


async def test_an_old_answer_of_another_process_is_used_while_dns_is_down(
    server: DnsServer, redis_client: Redis
) -> None:
    ttl = {"min_ttl_s": 0.05, "max_ttl_s": 0.05}
    await Cache(server, redis_client, **ttl).get("a.test")
    await server.stop()

    async def stale_in_another_process() -> bool:
        other = Cache(server, redis_client, **ttl)
        assert await other.get("a.test") == (ONE,)
        return other.stats.get("dns/stale") == 1

    await until(stale_in_another_process, "the answer is old")


async def test_without_redis_each_process_asks_for_itself(server: DnsServer) -> None:
    # Nothing listens on the discard port.
    async with Redis.from_url("redis://127.0.0.1:9") as away:
        cache = Cache(server, away)
        for _ in range(2):
            assert await cache.get("a.test") == (ONE,)
    assert server.questions() == 1


async def test_closing_ends_what_is_going_on(server: DnsServer) -> None:
    server.delay_s = 120
    cache = Cache(server, lifetime_s=120)
    cache.prefetch(["a.test"])
    await until(lambda: server.most_at_once == 1)
    assert cache._in_flight
    await cache.close()
    assert not cache._in_flight


async def test_a_forgotten_address_is_looked_up_anew_by_all(
    server: DnsServer, redis_client: Redis
) -> None:
    mine, other = Cache(server, redis_client), Cache(server, redis_client)
    assert await mine.get("a.test") == await other.get("a.test") == (ONE,)
    server.set("a.test", OTHER)
    assert await mine.get("a.test") == (ONE,)
    await forget(redis_client, "a.test")
    for cache in (mine, other):
        cache.forget("a.test")
        assert await cache.get("a.test") == (OTHER,)
    assert server.questions("a.test") == 3


async def test_an_answer_that_was_on_its_way_does_not_come_back_to_redis(
    server: DnsServer, redis_client: Redis
) -> None:
    mine, other = Cache(server, redis_client), Cache(server, redis_client)
    assert mine.prefetch(["a.test"])
    # Its process has not read the note yet when the answer comes.
    await forget(redis_client, "a.test")
    await asyncio.gather(*mine._in_flight.values())
    assert mine.recent("a.test") == (ONE,)
    mine.forget("a.test")
    server.set("a.test", OTHER)
    assert await mine.get("a.test") == await other.get("a.test") == (OTHER,)
    # The mark expires.
    await redis_client.delete("dns:a.test")
    mine.forget("a.test")
    await mine.get("a.test")
    other.forget("a.test")
    questions = server.questions("a.test")
    assert await other.get("a.test") == (OTHER,)
    assert server.questions("a.test") == questions


async def test_an_answer_that_was_on_its_way_is_used_but_not_kept(
    server: DnsServer, redis_client: Redis
) -> None:
    cache = Cache(server, redis_client)
    for host in ("a.test", None):
        assert cache.prefetch(["a.test"])
        cache.forget(host)
        assert await cache.get("a.test") == (ONE,)
        assert cache.recent("a.test") == ()
        assert not await redis_client.exists("dns:a.test")
    assert await cache.get("a.test") == (ONE,)
    assert cache.recent("a.test") == (ONE,)


async def test_an_answer_in_use_is_renewed_before_its_end_by_one_process(
    server: DnsServer, redis_client: Redis, clock: Clock
) -> None:
    fleet = [Cache(server, redis_client) for _ in range(3)]
    for cache in fleet:
        assert await cache.get("a.test") == (ONE,)
    server.set("a.test", OTHER)
    clock.now += 280
    # That of Redis is as old.
    left_ms = await redis_client.pttl("dns:a.test")
    assert await redis_client.pexpire("dns:a.test", left_ms - 280_000)
    for cache in fleet:
        assert await cache.get("a.test") == (ONE,)
        await asyncio.gather(*cache._in_flight.values())
        assert await cache.get("a.test") == (OTHER,)
    assert server.questions() == 2


# --- one lookup for the fleet --------------------------------------------------------------------


async def test_processes_that_want_a_name_at_once_look_it_up_once(
    server: DnsServer, redis_client: Redis
) -> None:
    server.delay_s = 0.2
    fleet = [Cache(server, redis_client, lifetime_s=60) for _ in range(20)]
    found = await asyncio.gather(*(cache.get("a.test") for cache in fleet))
    assert set(found) == {(ONE,)}
    assert server.questions() == 1
    counted = sum((cache.stats for cache in fleet), Counter())
    assert counted == {"dns/misses": 1, "dns/hits": 19, "dns/awaited": 19}


async def test_a_name_that_does_not_exist_is_asked_for_once(
    server: DnsServer, redis_client: Redis
) -> None:
    server.delay_s = 0.2
    fleet = [Cache(server, redis_client, lifetime_s=60) for _ in range(5)]
    found = await asyncio.gather(
        *(cache.get("nowhere.test") for cache in fleet), return_exceptions=True
    )
    assert {type(error) for error in found} == {NoSuchHost}
    assert server.questions() == 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Command, ...]]:
    """What Redis is asked, by round trips."""
    found: list[tuple[Command, ...]] = []
    ask = CommandBatcher.ask

    async def noted(self: CommandBatcher, *commands: Command) -> list[Any]:
        found.append(commands)
        return await ask(self, *commands)

    monkeypatch.setattr(CommandBatcher, "ask", noted)
    return found


READ = (("GET", "dns:a.test"), ("PTTL", "dns:a.test"))


async def test_a_known_name_costs_one_round_trip_and_no_lock(
    server: DnsServer, redis_client: Redis, asked: list[tuple[Command, ...]]
) -> None:
    await Cache(server, redis_client).get("a.test")
    asked.clear()
    assert await Cache(server, redis_client).get("a.test") == (ONE,)
    assert asked == [READ]


async def test_one_process_takes_over_from_one_that_died(
    server: DnsServer, redis_client: Redis
) -> None:
    # The dead one had the lock for another moment.
    await redis_client.set("{dns:a.test}:lock", "dead", px=150)
    fleet = [Cache(server, redis_client) for _ in range(5)]
    found = await asyncio.gather(*(cache.get("a.test") for cache in fleet))
    assert set(found) == {(ONE,)}
    assert server.questions() == 1
    assert not await redis_client.exists("{dns:a.test}:lock")


async def test_nobody_waits_for_others_without_end(
    server: DnsServer, redis_client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.dns.resolver._LOOKS_S", (0.01, 0.01))
    await redis_client.set("{dns:a.test}:lock", "endless")
    assert await Cache(server, redis_client).get("a.test") == (ONE,)
    # That of another process.
    assert await redis_client.get("{dns:a.test}:lock") == b"endless"


@pytest.mark.parametrize("mood", ["servfail", "silent"])
async def test_a_failed_lookup_leaves_the_name_to_others(
    server: DnsServer, redis_client: Redis, mood: str
) -> None:
    server.mood = mood
    with pytest.raises(DnsFailed):
        await Cache(server, redis_client).get("a.test")
    assert not await redis_client.exists("{dns:a.test}:lock")


async def test_while_dns_is_down_nobody_waits_for_others(
    server: DnsServer, redis_client: Redis, asked: list[tuple[Command, ...]]
) -> None:
    server.mood = "servfail"
    cache = Cache(server, redis_client, breaker=Breaker(1, backoff=Backoff(60.0, 60.0)))
    with pytest.raises(DnsFailed):
        await cache.get("b.test")
    asked.clear()
    with pytest.raises(DnsFailed):
        await cache.get("a.test")
    assert asked == [READ]


async def test_a_lookup_that_is_cancelled_leaves_the_name_to_others(
    server: DnsServer, redis_client: Redis
) -> None:
    server.delay_s = 120
    cache = Cache(server, redis_client, lifetime_s=120)
    cache.prefetch(["a.test"])
    await until(lambda: server.most_at_once == 1)
    assert await redis_client.exists("{dns:a.test}:lock")
    await cache.close()
    assert not await redis_client.exists("{dns:a.test}:lock")
