"""Names of hosts that are about to be claimed are looked up before, each of them once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from crawler.dns.lookup import Lookup
from crawler.dns.resolver import DnsCache, DnsPrefetch, Resolver
from crawler.frontier import Entry, Frontier
from crawler.scheduling.shards import ShardTurns
from crawler.servers.redis.connection import Client
from crawler.urls import fingerprint
from tests.support.dns_server import DnsServer


class Process:
    """What looks ahead in one process."""

    def __init__(self, redis: Client, dns: DnsServer) -> None:
        self.stats: Counter[str] = Counter()
        lookup = Lookup([dns.address], ipv6=False, try_s=5, lifetime_s=10)
        self.cache = DnsCache(lookup, size=100, min_ttl_s=60, max_ttl_s=3600, count=self.count)
        self.cache.redis = redis  # type: ignore[assignment]
        self.resolver = Resolver({".over.test": "127.0.0.1"}, self.cache, self.count)
        self.prefetch = DnsPrefetch(
            self.resolver,
            Frontier(redis, "web"),
            SimpleNamespace(shards=ShardTurns(1)),  # type: ignore[arg-type]
            self.count,
        )

    def count(self, name: str, by: int = 1) -> None:
        self.stats[name] += by


@pytest.fixture
async def dns() -> AsyncIterator[DnsServer]:
    async with DnsServer() as server:
        server.set("*", "192.0.2.1")
        yield server


async def add(redis: Client, *hosts: str) -> None:
    frontier = Frontier(redis, "web")
    await frontier.open()
    urls = [f"http://{host}/" for host in hosts]
    await frontier.add([Entry(fingerprint(url), url) for url in urls])


async def test_names_are_known_before_their_urls_are_claimed(
    redis_client: Client, dns: DnsServer
) -> None:
    await add(redis_client, "a.test", "b.test:8080", "x.over.test", "192.0.2.7", "localhost")
    process = Process(redis_client, dns)
    process.prefetch.open()
    async with asyncio.timeout(30):
        while dns.questions() < 2 or process.cache.answers < 2:  # noqa: ASYNC110 - a task works meanwhile
            await asyncio.sleep(0.01)
    await process.prefetch.close()
    await process.resolver.look_up("a.test")
    await process.resolver.look_up("b.test")
    assert process.stats == {"dns/prefetched": 2, "dns/misses": 2, "dns/hits": 2}
    assert set(dns.asked) == {("a.test", "A"), ("b.test", "A")}


async def test_it_looks_further_ahead_while_names_are_new(
    redis_client: Client, dns: DnsServer
) -> None:
    await add(redis_client, *(f"{number}.test" for number in range(300)))
    process = Process(redis_client, dns)
    before: list[int] = []
    while not before or dns.questions() > before[-1]:
        before.append(dns.questions())
        await process.prefetch.prefetch_shard(0)
        await asyncio.gather(*process.cache._in_flight.values())
    # Of one front queue a fifth of all that is looked at.
    assert before[1] < 10
    assert before[-1] > 40


async def test_a_name_without_an_answer_is_left_to_its_fetch(
    redis_client: Client, dns: DnsServer
) -> None:
    dns.broken.add("a.test")
    await add(redis_client, "a.test")
    process = Process(redis_client, dns)
    for _ in range(5):
        await process.prefetch.prefetch_shard(0)
        await asyncio.gather(*process.cache._in_flight.values())
    assert process.stats["dns/prefetched"] == 1
    assert process.stats["dns/errors"] == 1


async def test_while_dns_is_down_nothing_is_looked_up_ahead(
    redis_client: Client, dns: DnsServer
) -> None:
    dns.mood = "servfail"
    process = Process(redis_client, dns)
    for number in range(8):
        process.resolver.prefetch([f"{number}.test"])
        await asyncio.gather(*process.cache._in_flight.values())
    asked = dns.questions()
    await add(redis_client, "a.test")
    await process.prefetch.prefetch_shard(0)
    assert process.stats["dns/prefetched"] == 0
    assert dns.questions() == asked


async def test_lookups_ahead_are_bounded(redis_client: Client, dns: DnsServer) -> None:
    dns.delay_s = 0.2
    process = Process(redis_client, dns)
    started = process.resolver.prefetch(f"{number}.test" for number in range(1000))
    assert len(started) == 64
    await process.resolver.close()
