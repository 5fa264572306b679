"""Connections that stay open and hear nothing any more: a firewall forgot them, a host vanished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from time import monotonic
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from chaos.proxy import Proxy
from crawler.discovery.pushed import PushedReader
from crawler.errors import ServerAway
from crawler.frontier import Added, Entry, Frontier, Tuning
from crawler.frontier.start_urls import StartUrls
from crawler.scheduling.engine import EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.intake import Intake
from crawler.scheduling.lease_pool import CompletionLimits, LeasePool
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.connections import Servers
from crawler.servers.health import mongo_health, redis_health
from crawler.servers.redis.connection import connect
from crawler.storage.mongo.spill import MongoSpill
from tests.integration.frontier.fleet import CRAWL, beat, entries, entry
from tests.support.crawlers import project_crawler
from tests.support.waiting import until

SOON_S = 60.0
LEASE_TTL_S = 6.0


@pytest.fixture
def redis_proxy(redis_url: str) -> Iterator[Proxy]:
    with Proxy(urlsplit(redis_url).path) as proxy:
        yield proxy


@pytest.fixture
def mongo_proxy(mongo_uri: str) -> Iterator[Proxy]:
    with Proxy(unquote(mongo_uri.removeprefix("mongodb://"))) as proxy:
        yield proxy


async def nothing() -> int:
    return 0


async def test_a_process_whose_connections_to_redis_go_silent_keeps_its_leases(
    redis_url: str, redis_proxy: Proxy
) -> None:
    settings = project_crawler(
        REDIS_URL=f"redis://127.0.0.1:{redis_proxy.port}/0", LEASE_TTL=LEASE_TTL_S
    ).settings
    servers = Servers.from_settings(settings)
    redis = await servers.redis()
    frontier = Frontier(redis, CRAWL)
    # Room for more, so that claims are on their way as well.
    hooks = EngineHooks(room=lambda: 2, wake=lambda: None, take_in=nothing)
    pool = LeasePool(
        frontier, redis_health(), CompletionLimits(close_when_done=False), hooks, Recrawls()
    )
    heartbeat = Heartbeat(
        *(frontier, pool, redis_health(), Pulse.from_settings(settings)),
        about=dict,
        on_beat=nothing,
        on_epoch=lambda: None,
        on_loss=lambda _: None,
    )
    other_redis = await connect(redis_url)
    other = Frontier(other_redis, CRAWL)
    await other.open()
    await heartbeat.open()
    await frontier.add(entries(1))
    pool.open()
    await until(lambda: pool.held)
    # There are several connections, and none of them is of use any more.
    await asyncio.gather(*(redis.ping() for _ in range(8)))
    owner = frontier.owner
    redis_proxy.silence()
    silent_until = monotonic() + 1.5 * LEASE_TTL_S
    while monotonic() < silent_until:
        await beat(other)
        taken = await other.reclaim(silence_ms=round(LEASE_TTL_S * 1000), delay_ms=0)
        assert taken == 0
        await asyncio.sleep(0.05)
    assert (frontier.owner, pool.held) == (owner, 1)
    assert pool.is_alive_anywhere
    await pool.close()
    await heartbeat.close()
    await other_redis.aclose()
    await servers.close()


@pytest.mark.parametrize(
    ("where", "params"),
    [
        ("", {}),
        ("?socket_timeout=60&socket_connect_timeout=60", {}),
        ("", {"socket_timeout": 60, "socket_connect_timeout": None}),
        ("?socket_timeout=0.5", {"socket_timeout": 60}),
    ],
)
async def test_no_answer_of_redis_is_waited_for_longer_than_the_time_limit(
    redis_proxy: Proxy, where: str, params: dict[str, Any]
) -> None:
    redis = await connect(f"redis://127.0.0.1:{redis_proxy.port}/0{where}", params, timeout_s=1)
    redis_proxy.silence(new=True)
    async with asyncio.timeout(SOON_S), redis:
        # On a connection that was there, and on a new one.
        for _ in range(2):
            with pytest.raises(RedisTimeoutError):
                await redis.ping()


def test_a_time_limit_of_the_users_that_is_too_long_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    project_crawler(REDIS_URL="redis://h/", REDIS_PARAMS={"socket_timeout": 30}, LEASE_TTL=20)
    assert "socket_timeout of REDIS_URL or REDIS_PARAMS is longer than" in caplog.text
    assert "5 s are used" in caplog.text


# --- MongoDB --------------------------------------------------------------------------------------


@pytest.fixture
async def servers(mongo_proxy: Proxy) -> AsyncIterator[Servers]:
    uri = f"mongodb://127.0.0.1:{mongo_proxy.port}/"
    servers = Servers.from_settings(project_crawler(MONGO_URI=uri, MONGO_TIMEOUT=1).settings)
    yield servers
    await servers.close()


@pytest.fixture
async def full(redis_url: str) -> AsyncIterator[Frontier]:
    """A frontier that refuses links of low priority."""
    async with await connect(redis_url) as redis:
        frontier = Frontier(redis, CRAWL, tuning=Tuning(full_at=1))
        await frontier.open()
        yield frontier


def intake(frontier: Frontier, spill: MongoSpill) -> Intake:
    async def add(found: Sequence[Entry], mode: str) -> Added:
        return await frontier.add(found, mode=mode)

    pushed = StartUrls(frontier._redis, "web:start_urls")
    reader = PushedReader("web:start_urls")
    return Intake(frontier, pushed, reader, add, spill, timeout_s=1)


async def test_an_idle_process_does_not_wait_for_ever_for_urls_that_mongodb_keeps(
    *,
    full: Frontier,
    servers: Servers,
    mongo_proxy: Proxy,
    mongo_db_name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawler.scheduling.intake._ASK_AGAIN_S", 0.0)
    health = mongo_health()
    spill = MongoSpill(servers.mongo, mongo_db_name, CRAWL, health)
    found = intake(full, spill)
    async with asyncio.timeout(SOON_S):
        await servers.mongo()
        mongo_proxy.silence(new=True)
        # Nothing was ever refused, so nothing can wait there: this process may end.
        assert await found.take_in() == 0
        await full.add(entries(1))
        added = await full.add([low := entry("http://low.test/", 5)])
        assert added.is_refused(0)
        # Now something may.
        assert await found.take_in() == 1
        assert "MongoDB is away" in caplog.text
        assert "URLs kept there wait" in health.trouble
        mongo_proxy.speak()
        await found.keep([low], added)
        assert await spill.some(10) == [low]
        # The frontier has no room for it yet.
        assert await found.take_in() == 1
    assert (health.trouble, caplog.text.count("MongoDB is back after")) == ("", 1)


async def test_a_mongodb_that_accepts_connections_and_is_silent_is_told_at_the_start(
    servers: Servers, mongo_proxy: Proxy
) -> None:
    mongo_proxy.silence(new=True)
    async with asyncio.timeout(SOON_S):
        with pytest.raises(ServerAway, match=r"MongoDB at .* does not answer"):
            await servers.mongo()
