"""What waits outside the frontier is taken in by one of several processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from scrapy import Request, Spider

from crawler.discovery.pushed import PushedReader
from crawler.frontier import Added, Entry, Frontier
from crawler.frontier.start_urls import StartUrls
from crawler.scheduling.intake import Intake
from crawler.scheduling.request_codec import to_entry
from crawler.servers.redis.connection import connect
from crawler.storage.spill import FileSpill
from crawler.urls import DEFAULT

KEY = "shop:start_urls"


class Shop(Spider):
    name = "shop"


# Nothing is refused, so nothing is spilled.
UNUSED = FileSpill(Path("unused"), None, max_bytes=0)


def entry_of(request: Request) -> Entry | None:
    found = to_entry(request, Shop(), (80, 60, 40, 20), now_s=0)
    return found if isinstance(found, Entry) else None


def again(data: bytes) -> Request:
    return Request(data.decode(), dont_filter=True)


@pytest.fixture
async def frontier(redis_url: str) -> AsyncIterator[Frontier]:
    client = await connect(redis_url)
    frontier = Frontier(client, "shop")
    await frontier.open()
    yield frontier
    await client.aclose()


def intake(frontier: Frontier) -> Intake:
    async def add(found: Sequence[Entry], mode: str) -> Added:
        return await frontier.add(found, mode=mode)

    reader = PushedReader(KEY, DEFAULT, entry_of, again)
    return Intake(frontier, StartUrls(frontier._redis, KEY), reader, add, UNUSED)


async def test_what_is_fetched_again_whenever_it_is_pushed_is_added_once_each_time(
    frontier: Frontier,
) -> None:
    processes = [intake(frontier) for _ in range(4)]
    for round_ in range(1, 4):
        await frontier._redis.rpush(KEY, *(f"http://h{i}.test/" for i in range(50)))
        while any(await asyncio.gather(*(process.take_in() for process in processes))):
            pass
        assert not await frontier._redis.exists(KEY)
        assert (await frontier.sizes()).waiting == 50 * round_


async def test_pushed_seeds_are_counted_by_the_process_for_which_they_are_new(
    frontier: Frontier,
) -> None:
    async def add(found: Sequence[Entry], mode: str) -> Added:
        return await frontier.add(found, mode=mode)

    counts = [Counter[str](), Counter[str]()]
    for count in counts:
        reader, pushed = PushedReader(KEY, DEFAULT, entry_of), StartUrls(frontier._redis, KEY)

        def counted(name: str, by: int, count: Counter[str] = count) -> None:
            count[name] += by

        one = Intake(frontier, pushed, reader, add, UNUSED, count=counted)
        await frontier._redis.rpush(KEY, "http://a.test/", "http://b.test/", "nonsense")
        await one.take_in()
    assert [count["seeds/pushed"] for count in counts] == [2, 0]


async def test_whoever_finds_another_at_it_knows_that_the_crawl_is_not_over(
    frontier: Frontier,
) -> None:
    await frontier._redis.rpush(KEY, "http://h.test/")
    async with StartUrls(frontier._redis, KEY).alone():
        assert await intake(frontier).take_in() == 1
    assert await frontier._redis.llen(KEY) == 1
    assert await intake(frontier).take_in() == 1
    assert await intake(frontier).take_in() == 0


async def test_a_job_is_not_done_twice_for_what_failed_beside_it(frontier: Frontier) -> None:
    failures = iter([True, False, False])

    async def add(found: Sequence[Entry], mode: str) -> Added:
        if mode == "all" and next(failures):
            raise ConnectionError
        return await frontier.add(found, mode=mode)

    def make(data: bytes) -> Request:
        return Request(data.decode(), dont_filter=b"again" in data)

    reader = PushedReader(KEY, DEFAULT, entry_of, make)
    intake = Intake(frontier, StartUrls(frontier._redis, KEY), reader, add, UNUSED)
    await frontier._redis.rpush(KEY, "http://h.test/again", "http://h.test/once")
    with pytest.raises(ConnectionError):
        await intake.take_in()
    assert await intake.take_in() == 2
    assert (await frontier.sizes()).waiting == 2
