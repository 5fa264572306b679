"""Group commit: what waits is written together, one batch at a time, and each page hears how."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo.errors import OperationFailure
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.errors import NotStored
from crawler.items import Page
from crawler.servers.health import ServerHealth
from crawler.storage.commit import Faults, GroupCommit, RetryingWriter, StoreStats
from crawler.storage.mongo.sink import Documents

# Longer than any test: what is written was not waited for.
FOR_EVER_S = 3600.0


def documents(number: int, size_bytes: int = 1) -> Documents:
    url = f"http://a.test/{number}"
    at = datetime(2026, 1, 2, tzinfo=UTC)
    page = Page(url=url, final_url=url, status=200, crawled_at=at, url_hash=f"{number:016x}")
    return Documents(page, b"x" * size_bytes, None)


class Disk:
    """Takes batches, one at a time, when it is let; what a page's URL ends with may be refused."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.errors: dict[int, Exception] = {}
        self.faults: dict[int, OperationFailure] = {}
        self.is_asked = asyncio.Event()
        self.is_free = asyncio.Event()
        self.is_free.set()
        self._is_busy = False

    async def write(self, batch: Sequence[Documents]) -> Faults:
        assert not self._is_busy
        self._is_busy = True
        numbers = [int(each.page.url_hash, 16) for each in batch]
        self.batches.append(numbers)
        self.is_asked.set()
        try:
            await self.is_free.wait()
            for number in numbers:
                if number in self.errors:
                    raise self.errors[number]
            return {i: self.faults[n] for i, n in enumerate(numbers) if n in self.faults}
        finally:
            self._is_busy = False


@pytest.fixture
async def disk() -> Disk:
    return Disk()


def commit_to(disk: Disk, **options: Any) -> GroupCommit:
    values = {"batch_max": 100, "batch_max_bytes": 1000, "linger_s": 0.0, **options}
    writer = RetryingWriter("pages", lambda: False, ServerHealth("MongoDB", str), timeout_s=60)
    stats = StoreStats(MemoryStatsCollector(get_crawler()))
    return GroupCommit(disk.write, writer, stats, **values)


def put(commit: GroupCommit, *numbers: int) -> list[asyncio.Future[None]]:
    return [commit.put(documents(number)) for number in numbers]


async def outcomes(futures: list[asyncio.Future[None]]) -> list[BaseException | None]:
    async with asyncio.timeout(30):
        return await asyncio.gather(*futures, return_exceptions=True)


async def test_what_came_while_a_batch_was_written_is_the_next_batch(disk: Disk) -> None:
    commit = commit_to(disk)
    disk.is_free.clear()
    futures = put(commit, 1)
    await disk.is_asked.wait()
    futures += put(commit, 2, 3)
    futures += put(commit, 4)
    assert not any(future.done() for future in futures)
    disk.is_free.set()
    assert await outcomes(futures) == [None] * 4
    assert disk.batches == [[1], [2, 3, 4]]


async def test_a_batch_has_so_many_pages_and_bytes_and_at_least_one_page(disk: Disk) -> None:
    commit = commit_to(disk, batch_max=3, batch_max_bytes=10)
    sizes = [1, 1, 1, 6, 6, 50, 4, 6, 1]
    futures = [commit.put(documents(number, size)) for number, size in enumerate(sizes)]
    assert await outcomes(futures) == [None] * len(sizes)
    assert disk.batches == [[0, 1, 2], [3], [4], [5], [6, 7], [8]]


async def test_a_small_batch_waits_for_more_until_it_is_worth_writing(disk: Disk) -> None:
    commit = commit_to(disk, batch_max=3, linger_s=FOR_EVER_S)
    futures = put(commit, 1, 2)
    for _ in range(10):
        await asyncio.sleep(0)
    assert disk.batches == []
    futures += put(commit, 3)
    assert await outcomes(futures) == [None] * 3
    assert disk.batches == [[1, 2, 3]]


async def test_a_small_batch_waits_no_longer_than_it_is_told(disk: Disk) -> None:
    commit = commit_to(disk, linger_s=0.01)
    assert await outcomes(put(commit, 1)) == [None]


async def test_draining_writes_at_once_what_waits_and_what_comes_after(disk: Disk) -> None:
    commit = commit_to(disk, linger_s=FOR_EVER_S)
    futures = put(commit, 1)
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await commit.drain()
    assert futures[0].done()
    assert await outcomes(put(commit, 2)) == [None]
    assert disk.batches == [[1], [2]]
    await commit.drain()


async def test_a_page_at_fault_fails_alone(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    fault = disk.faults[2] = OperationFailure("too large")
    with caplog.at_level(logging.ERROR):
        assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [None, fault, None]
    assert "http://a.test/2" in caplog.text
    assert "http://a.test/1" not in caplog.text


async def test_of_a_batch_that_failed_each_page_is_tried_alone(disk: Disk) -> None:
    error = disk.errors[2] = ValueError("no BSON")
    assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [None, error, None]
    assert disk.batches == [[1, 2, 3], [1], [2], [3]]


async def test_what_was_given_up_on_is_not_tried_again(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    error = disk.errors[2] = NotStored("MongoDB does not answer.")
    with caplog.at_level(logging.ERROR):
        assert await outcomes(put(commit_to(disk), 1, 2, 3)) == [error] * 3
    assert disk.batches == [[1, 2, 3]]
    assert caplog.text == ""


async def test_nobody_waits_for_a_page_that_was_cancelled(disk: Disk) -> None:
    commit = commit_to(disk)
    disk.is_free.clear()
    first, second = put(commit, 1, 2)
    await disk.is_asked.wait()
    first.cancel()
    disk.is_free.set()
    assert await outcomes([second, *put(commit, 3)]) == [None, None]
