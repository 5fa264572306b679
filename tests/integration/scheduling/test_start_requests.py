"""What start() of any spider gives is read no faster than Redis takes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from scrapy import Request

from crawler.frontier import Frontier
from crawler.frontier import outbox as adder_module
from crawler.frontier.outbox import Outbox, SeenCache, UrlAdder
from crawler.middlewares.leases import Leases
from crawler.servers.health import redis_health
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import CRAWL, entry
from tests.support.cluster import RedisProcess
from tests.support.schedulers import WritingScheduler, crawler_with

MANY = 5000


async def test_start_requests_wait_while_redis_is_away(redis_process: RedisProcess) -> None:
    client = await connect(redis_process.url)
    frontier = Frontier(client, CRAWL)
    await frontier.open()
    outbox = Outbox(frontier, redis_health(), lambda: None)
    scheduler = WritingScheduler()
    scheduler.adder = UrlAdder(outbox, SeenCache(0), lambda _name, _by: None)
    leases = Leases(crawler_with(scheduler))
    read = 0

    async def start() -> AsyncIterator[Request]:
        nonlocal read
        for number in range(MANY):
            read += 1
            yield Request(f"http://h{number}.test/")

    async def engine() -> None:
        """Takes requests as Scrapy's does: one after the other, without a look at the scheduler."""
        async for request in leases.process_start(start()):
            scheduler.adder.send(entry(request.url), "all", lambda: None)
            await asyncio.sleep(0)

    redis_process.kill()
    reading = asyncio.create_task(engine())
    deadline = time.monotonic() + 30
    while read <= adder_module._SENT_MAX:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    for _ in range(100):
        await asyncio.sleep(0)
    # The one that waits for room.
    assert read == adder_module._SENT_MAX + 1
    redis_process.start()
    async with asyncio.timeout(60):
        await reading
        await outbox.drain()
    assert read == MANY
    assert (await frontier.sizes()).waiting == MANY
    await client.aclose()


async def test_who_waits_for_room_is_ended_by_a_redis_that_is_given_up(
    redis_process: RedisProcess,
) -> None:
    client = await connect(redis_process.url)
    frontier = Frontier(client, CRAWL)
    await frontier.open()
    outbox = Outbox(frontier, redis_health(give_up_s=0.2), lambda: None)
    found = UrlAdder(outbox, SeenCache(0), lambda _name, _by: None)
    redis_process.kill()
    for number in range(adder_module._SENT_MAX):
        found.send(entry(f"http://h{number}.test/"), "all", lambda: None)
    async with asyncio.timeout(60):
        await found.room()
    await client.aclose()
