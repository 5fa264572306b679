"""Processes with a slow way to Redis: whatever overtakes what, no host is contacted too soon.

Each process claims, fetches and settles through its outbox as a crawl does, while every call takes
a random time to reach Redis and to come back. The account is kept where fetches end: from there on
a host has the delay that the process gave it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from typing import Any

import pytest

from crawler.frontier import Entry, Frontier, Lease
from crawler.frontier.outbox import Outbox
from crawler.servers.health import redis_health
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.integration.frontier.fleet import InterceptedFrontier

HOSTS = [f"h{number}.test" for number in range(4)]
PROCESSES = 3
LATENCY_MAX_S = 0.01
URLS = 160
_TIMEOUT_S = 120.0


class FarAway(InterceptedFrontier):
    """A frontier on the other end of a slow line."""

    chance: random.Random

    async def run(self, verb: str, shard: int, *args: Any) -> Any:
        await asyncio.sleep(self.chance.random() * LATENCY_MAX_S)
        answer = await super().run(verb, shard, *args)
        await asyncio.sleep(self.chance.random() * LATENCY_MAX_S)
        return answer


class Account:
    """When each host may be contacted next, and how every URL ended."""

    def __init__(self) -> None:
        # Host -> wall clock, ms; from the moment at which its fetch ended.
        self.next_contact_ms: dict[str, float] = {}
        self.in_flight: Counter[str] = Counter()
        self.too_soon: list[str] = []
        self.ended: Counter[str] = Counter()

    def claimed(self, lease: Lease) -> None:
        """A lease has arrived: Redis gave it out before this moment."""
        host, now_ms = lease.entry.host, time.time() * 1000
        early_ms = self.next_contact_ms.get(host, 0) - now_ms
        # Redis counts whole milliseconds.
        if early_ms > 1:
            self.too_soon.append(f"{lease.entry.url} {early_ms:.0f} ms")
        self.in_flight[host] += 1
        assert self.in_flight[host] == 1, f"{host} is fetched twice at a time"

    def fetched(self, lease: Lease, delay_ms: int) -> None:
        host = lease.entry.host
        self.in_flight[host] -= 1
        self.next_contact_ms[host] = time.time() * 1000 + delay_ms


class Process:
    """A crawler process that ends each fetch in a random way."""

    def __init__(self, frontier: Frontier, account: Account, chance: random.Random) -> None:
        self._frontier = frontier
        self._account = account
        self._chance = chance
        self._outbox = Outbox(frontier, redis_health(), lambda: None)
        self._claimer = 0

    async def run(self) -> None:
        """Claim and fetch until nothing is left."""
        while (sizes := await self._frontier.sizes()).unfinished:
            self._claimer += 1
            claim = await self._frontier.claim(2, f"{self._frontier.owner}-{self._claimer}")
            for lease in claim.leases:
                self._account.claimed(lease)
            await asyncio.gather(*map(self._fetch, claim.leases))
            if sizes.retries:
                await self._frontier.promote()
        await self._outbox.drain()

    async def _fetch(self, lease: Lease) -> None:
        await asyncio.sleep(self._chance.random() * LATENCY_MAX_S)
        # Links of other pages are nearly always on their way.
        self._outbox.add([lease.entry])
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.random() * LATENCY_MAX_S)
        usual = self._chance.random() < 0.8
        delay_ms = self._chance.randrange(5, 20) if usual else 60
        self._account.fetched(lease, delay_ms)
        self._outbox.release(lease, delay_ms, usual=usual)
        end = self._chance.choice(("bury", "bury", "done", "retry", "hand_back"))
        self._account.ended[end] += 1
        if end == "bury":
            self._outbox.bury(lease, "gone")
        elif end == "done":
            self._outbox.done(lease, page=True)
        elif end == "retry":
            self._outbox.retry(lease, 0, lease.entry)
        else:
            self._outbox.hand_back(lease, 0)


@pytest.mark.parametrize("seed", range(3))
async def test_no_host_is_contacted_too_soon_by_a_fleet_far_from_redis(
    redis_url: str, seed: int
) -> None:
    client = await connect(redis_url)
    account, processes = Account(), []
    for number in range(PROCESSES):
        frontier = FarAway(client, f"lanes-{seed}")
        frontier.chance = random.Random(seed * 100 + number)
        await frontier.open()
        processes.append(Process(frontier, account, random.Random(seed * 100 + 50 + number)))
    urls = [f"http://{HOSTS[number % len(HOSTS)]}/{number}" for number in range(URLS)]
    await frontier.add([Entry(id=fingerprint(url), url=url) for url in urls])
    async with asyncio.timeout(_TIMEOUT_S):
        await asyncio.gather(*(process.run() for process in processes))
    sizes = await frontier.sizes()
    await client.aclose()
    assert account.too_soon == []
    assert sizes.done + sizes.dead == URLS
    assert account.ended["bury"] == sizes.dead
