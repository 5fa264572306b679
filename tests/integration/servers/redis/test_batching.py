"""Commands of many tasks in few round trips, on a real Redis and on a real cluster."""

import asyncio
import gc
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from crawler.dns.lookup import Lookup
from crawler.dns.resolver import DnsCache
from crawler.politeness.host_delays import OVERLOAD, HostHealth
from crawler.robots.gate import RobotsCache
from crawler.servers.redis.batching import CommandBatcher
from crawler.servers.redis.connection import connect
from crawler.servers.redis.errors import RedisAway
from tests.support.cluster import RedisProcess
from tests.support.dns_server import DnsServer


@pytest.fixture
def pipelines(redis_client: Redis, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pipelines that were made."""
    made: list[Any] = []
    make = redis_client.pipeline

    def note(**arguments: Any) -> Any:
        made.append(make(**arguments))
        return made[-1]

    monkeypatch.setattr(redis_client, "pipeline", note)
    return made


async def test_what_many_ask_for_at_once_is_one_round_trip(
    redis_client: Redis, pipelines: list[Any]
) -> None:
    trips = CommandBatcher.for_client(redis_client)
    asked = [trips.ask(("SET", f"k{n}", n, "PX", 9000), ("GET", f"k{n}")) for n in range(100)]
    answers = await asyncio.gather(*asked)
    assert answers == [[True, str(n).encode()] for n in range(100)]
    assert len(pipelines) == 1


async def test_what_is_asked_for_meanwhile_is_the_next(
    redis_client: Redis, pipelines: list[Any]
) -> None:
    trips = CommandBatcher.for_client(redis_client)

    async def twice() -> list[Any]:
        return await trips.ask(("INCR", "n")) + await trips.ask(("INCR", "n"))

    found = await asyncio.gather(*(twice() for _ in range(50)))
    assert sorted(number for pair in found for number in pair) == list(range(1, 101))
    assert len(pipelines) == 2


async def test_whoever_gives_up_holds_nobody_up(redis_client: Redis) -> None:
    trips = CommandBatcher.for_client(redis_client)
    one, other = asyncio.create_task(trips.ask(("PING",))), trips.ask(("GET", "k"))
    asyncio.get_running_loop().call_soon(one.cancel)
    assert await other == [None]
    assert await trips.ask(("GET", "k")) == [None]
    assert one.cancelled()


async def test_when_the_sender_is_ended_nobody_waits_for_ever(redis_client: Redis) -> None:
    trips = CommandBatcher.for_client(redis_client)
    first = asyncio.create_task(trips.ask(("PING",)))
    await asyncio.sleep(0)
    [sender] = trips._tasks.values()
    await asyncio.sleep(0)
    late = asyncio.create_task(trips.ask(("PING",)))
    await asyncio.sleep(0)
    sender.cancel()
    await asyncio.wait([first, late])
    assert first.cancelled()
    assert late.cancelled()
    assert await trips.ask(("GET", "k")) == [None]


async def test_what_redis_refuses_is_an_error_for_its_asker_alone(redis_client: Redis) -> None:
    await redis_client.set("text", "x")
    trips = CommandBatcher.for_client(redis_client)
    wrong, right = await asyncio.gather(
        trips.ask(("INCR", "text")), trips.ask(("GET", "text")), return_exceptions=True
    )
    assert isinstance(wrong, ResponseError)
    assert right == [b"x"]


async def test_an_absence_is_told_to_all_and_the_next_try_may_work() -> None:
    # Nothing listens on the discard port.
    async with Redis.from_url("redis://127.0.0.1:9") as away:
        trips = CommandBatcher.for_client(away)
        for _ in range(2):
            found = await asyncio.gather(
                *(trips.ask(("PING",)) for _ in range(3)), return_exceptions=True
            )
            assert [isinstance(error, RedisAway) for error in found] == [True] * 3


async def test_all_who_use_a_client_share_them_and_it_is_not_kept_for_ever(redis_url: str) -> None:
    redis = Redis.from_url(redis_url)
    trips = CommandBatcher.for_client(redis)
    assert CommandBatcher.for_client(redis) is trips
    before = len(CommandBatcher._of_clients)
    del redis, trips
    gc.collect()
    assert len(CommandBatcher._of_clients) < before


async def test_a_cluster_takes_keys_of_all_its_nodes(redis_cluster_url: str) -> None:
    client = await connect(redis_cluster_url)
    trips = CommandBatcher.for_client(client)
    asked = [trips.ask(("SET", f"k{n}", n), ("GET", f"k{n}")) for n in range(50)]
    assert await asyncio.gather(*asked) == [[True, str(n).encode()] for n in range(50)]
    cache = RobotsCache(client, "crawler", ttl_s=100.0, error_ttl_s=100.0, size=10)
    async with cache.locked("http://h.test") as lock:
        assert (lock.is_held, lock.found) == (True, None)
        await cache.put("http://h.test", b"", lock=lock)
    async with cache.locked("http://h.test") as lock:
        assert lock.is_held
    await client.aclose()


async def test_a_server_that_takes_no_writes_for_a_while_is_away(
    redis_process: RedisProcess,
) -> None:
    redis_process.client.config_set("min-replicas-to-write", 1)
    async with Redis.from_url(redis_process.url) as redis, DnsServer() as dns:
        cache = RobotsCache(redis, "crawler", ttl_s=100.0, error_ttl_s=100.0, size=10)
        with pytest.raises(RedisAway):
            await cache.locked("http://h.test").__aenter__()
        with pytest.raises(RedisAway):
            await cache.put("http://h.test", b"")
        health = HostHealth(redis, quiet_s=10)
        assert await health.count(OVERLOAD, "h.test") == 1
        await health.forget_after(OVERLOAD, "h.test", 1.0)
        assert await health.worked("h.test") == 0
        dns.set("h.test", "192.0.2.1")
        names = DnsCache(Lookup([dns.address], ipv6=False), size=10, min_ttl_s=60, max_ttl_s=3600)
        names.redis = redis
        assert await names.get("h.test") == ("192.0.2.1",)
