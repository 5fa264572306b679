"""A Redis that answers and takes nothing for a while: no URL is lost, and the log says it once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from crawler.dns.lookup import Lookup
from crawler.dns.resolver import DnsCache
from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.frontier import CrawlControl, Frontier, Tuning
from crawler.frontier.on_disk import OnDisk
from crawler.frontier.start_urls import StartUrls
from crawler.frontier.sweep import Sweeper
from crawler.monitoring.ledger import Ledger
from crawler.politeness.host_delays import OVERLOAD, HostHealth
from crawler.robots.gate import RobotsCache
from crawler.servers.redis.checks import check_writes
from crawler.servers.redis.connection import Client, connect
from crawler.servers.redis.errors import RedisAway
from tests.integration.frontier.fleet import CRAWL, Process, crawl_all, entries, hosts
from tests.support.cluster import RedisProcess
from tests.support.dns_server import DnsServer
from tests.support.waiting import until


@dataclass(frozen=True)
class Fault:
    """How a server comes to refuse commands, how it is mended, and what people are told."""

    begin: Callable[[RedisProcess], Any]
    mend: Callable[[RedisProcess], Any]
    told: str
    # What it is to a process that starts.
    kind: type[CrawlerError] = ServerAway


def say(*words: Any, password: str | None = None) -> Callable[[RedisProcess], None]:
    """What somebody tells a server."""

    def tell(server: RedisProcess) -> None:
        with redis.Redis(port=server.port, password=password) as client:
            client.execute_command(*words)

    return tell


def set_password(server: RedisProcess) -> None:
    with server.client as client:
        client.config_set("requirepass", "new")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


FAULTS = {
    "full": Fault(
        say("CONFIG SET", "maxmemory", 1),
        say("CONFIG SET", "maxmemory", 0),
        "it is full, give it more maxmemory",
    ),
    "disk": Fault(RedisProcess.fill_disk, RedisProcess.clear_disk, "its disk is full or broken"),
    "replica": Fault(
        say("REPLICAOF", "127.0.0.1", 1),
        say("REPLICAOF", "NO", "ONE"),
        "read only replica",
    ),
    "password": Fault(
        set_password,
        say("CONFIG SET", "requirepass", "", password="new"),
        "correct user and password",
        # Its connection was closed: only the next one is asked for the password.
        CrawlerError,
    ),
    "rights": Fault(
        say("ACL SETUSER", "default", "-@scripting"),
        say("ACL SETUSER", "default", "+@all"),
        "give its user the rights",
        ConfigurationError,
    ),
}


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> Fault:
    return FAULTS[request.param]


@pytest.fixture
async def client(redis_process: RedisProcess) -> AsyncIterator[Client]:
    client = await connect(redis_process.url)
    yield client
    await client.aclose()


async def test_a_process_waits_and_goes_on(
    redis_process: RedisProcess, client: Client, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    frontier = Frontier(client, CRAWL, tuning=Tuning(grace_ms=200))
    process = Process(frontier)
    await process.heart.open()
    pool = process.pool
    await pool.outbox.add(hosts(6))
    pool.open()
    await until(lambda: pool.held == 6, "leases are here")
    fault.begin(redis_process)
    added = pool.outbox.add(entries(4))
    await until(lambda: fault.told in caplog.text, "it was told")
    fault.mend(redis_process)
    fetched = await crawl_all(pool)
    assert (await added).answers == "1111"
    await pool.close()
    await process.heart.close()
    assert sorted(fetched) == sorted(each.url for each in [*hosts(6), *entries(4)])
    assert (await frontier.sizes()).unfinished == 0
    assert not [record for record in caplog.records if record.exc_info]
    lines = [record.getMessage() for record in caplog.records if fault.told in record.getMessage()]
    assert len(lines) == 1


async def test_a_process_that_is_stopped_meanwhile_waits_for_seconds_only(
    redis_process: RedisProcess, client: Client, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.servers.health._CLOSING_S", 0.5)
    frontier = Frontier(client, CRAWL, tuning=Tuning(grace_ms=200))
    process = Process(frontier)
    await process.heart.open()
    await process.pool.outbox.add(hosts(6))
    process.pool.open()
    await until(lambda: process.pool.held == 6, "leases are here")
    fault.begin(redis_process)
    process.pool.outbox.add(entries(4)).add_done_callback(lambda done: done.exception())
    await until(lambda: process.health.away, "it was noticed")
    async with asyncio.timeout(30):
        await process.pool.close()
        await process.heart.close()
    fault.mend(redis_process)
    # What it held comes back to others.
    other = Frontier(client, CRAWL, tuning=Tuning(grace_ms=200))
    await other.open()
    await other.reclaim(silence_ms=0, delay_ms=0)
    sizes = await other.sizes()
    assert (sizes.waiting, sizes.leased, sizes.dead) == (6, 0, 0)


async def test_nothing_is_claimed_while_much_waits(
    redis_process: RedisProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.scheduling.lease_pool.UNSETTLED_MAX", 10)
    frontier = Frontier(client, CRAWL, shards=2)
    # As if there were others: only then do pages wait after their links were acknowledged.
    frontier.has_one_server = False
    process = Process(frontier)
    pool = process.pool
    await process.heart.open()
    await pool.outbox.add(hosts(40))
    pool.open()
    await until(lambda: pool.held == 20, "leases are here")
    fetched = [lease for _ in range(20) if (lease := pool.take()) is not None]
    # Its engine has room again, and must not fill it before these are done.
    pool.pause(True)
    # Those pages are done when the server has kept this for two seconds.
    await pool.outbox.add(entries(1))
    for lease in fetched:
        pool.done(lease, page=False)
    pool.pause(False)
    for _ in range(5):
        pool.claim_soon()
        await asyncio.sleep(0.02)
    assert pool.held == 0
    rest = await crawl_all(pool)
    assert len(fetched) + len(rest) == 41
    await pool.close()
    await process.heart.close()


async def test_a_start_is_refused_in_one_line(
    redis_process: RedisProcess, client: Client, fault: Fault
) -> None:
    await check_writes(client)
    fault.begin(redis_process)
    with pytest.raises(fault.kind, match=r"^Redis accepts no commands now \(.+\. Start the crawl"):
        await check_writes(client)
    fault.mend(redis_process)
    await check_writes(client)


async def test_records_beside_the_frontier_wait_for_a_disk(
    redis_process: RedisProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    frontier = Frontier(client, CRAWL)
    await frontier.open()
    control = await CrawlControl.open(client, CRAWL)
    async with DnsServer() as dns:
        dns.set("h.test", "192.0.2.1")
        names = DnsCache(Lookup([dns.address], ipv6=False), size=10, min_ttl_s=60, max_ttl_s=3600)
        names.redis = client
        robots = RobotsCache(client, "crawler", ttl_s=100.0, error_ttl_s=100.0, size=10)
        health = HostHealth(client, quiet_s=10)
        redis_process.fill_disk()
        for writing in (
            control.set_options({"max_depth": 3}),
            control.set_options({"max_depth": None}),
            control.add_seed_domains(["a.test"]),
            StartUrls(frontier._redis, "web:start_urls").drop([b"http://a.test/"]),
            StartUrls(frontier._redis, "web:start_urls").alone().__aenter__(),
            OnDisk(client, CRAWL).register("spool:a", "machine"),
            Sweeper(client, frontier).sweep_all(),
            Ledger(client, CRAWL).add({"pages": 1}, now_s=time.time()),
            robots.locked("http://h.test").__aenter__(),
            robots.put("http://h.test", b"User-agent: *\nDisallow: /private"),
        ):
            with pytest.raises(RedisAway, match="MISCONF"):
                await writing
        # What a process knows by itself it uses.
        known = robots.recent("http://h.test")
        assert known is not None
        assert await names.get("h.test") == ("192.0.2.1",)
        assert await health.count(OVERLOAD, "h.test") == 1
        assert await health.worked("h.test") == 0
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    redis_process.clear_disk()
    await control.set_options({"max_depth": 3})


async def test_a_disk_that_is_full_keeps_nobody_from_looking(
    redis_process: RedisProcess, client: Client
) -> None:
    frontier = Frontier(client, CRAWL)
    await frontier.open()
    await frontier.add(hosts(3))
    redis_process.fill_disk()
    assert (await frontier.sizes()).waiting == 3
    assert (await (await CrawlControl.open(client, CRAWL)).frontier.sizes()).waiting == 3
