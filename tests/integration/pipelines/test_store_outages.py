"""A MongoDB that goes away costs time, and no page."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace

import pytest
from pymongo import MongoClient
from scrapy.crawler import Crawler

from crawler.errors import NotStored
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from crawler.storage.storage import STORE_STATE
from tests.integration.pipelines.test_store import opened, page
from tests.support.crawlers import project_crawler
from tests.support.private_mongo import PrivateMongo


@pytest.fixture
def mongo() -> Iterator[PrivateMongo]:
    with PrivateMongo() as mongo:
        yield mongo


@pytest.fixture
async def crawler(mongo: PrivateMongo) -> AsyncIterator[Crawler]:
    crawler = project_crawler(MONGO_URI=mongo.uri, MONGO_DATABASE="test")
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    yield crawler
    await Servers.of(crawler).close()
    # A client that was left open says so when it is collected: here, not in another test.
    del crawler
    gc.collect()


def given(store: Store, numbers: range) -> list[asyncio.Task[Page]]:
    return [asyncio.create_task(store.process_item(page(number))) for number in numbers]


async def test_pages_wait_for_a_mongodb_that_is_away(
    crawler: Crawler, mongo: PrivateMongo, caplog: pytest.LogCaptureFixture
) -> None:
    store = await opened(crawler)
    await store.process_item(page(0))
    await asyncio.to_thread(mongo.kill)
    waiting = given(store, range(1, 300))
    assert crawler.stats is not None
    async with asyncio.timeout(60):
        # Only when a server was looked for in vain.
        while crawler.stats.get_value(STORE_STATE) != "away":  # noqa: ASYNC110 - a statistic
            await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    await asyncio.to_thread(mongo.start)
    async with asyncio.timeout(30):
        await asyncio.gather(*waiting)
    assert crawler.stats.get_value(STORE_STATE) == "ok"
    await store.close_spider()
    with MongoClient[dict[str, object]](mongo.uri) as client:
        assert client["test"]["pages_metadata"].count_documents({}) == 300
        assert client["test"]["pages_content"].count_documents({}) == 300
    said = [record.getMessage() for record in caplog.records if record.name.startswith("crawler")]
    assert [line[:16] for line in said if "MongoDB" in line] == [
        "MongoDB is away ",
        "MongoDB is back ",
    ]


@pytest.mark.parametrize("goes", ["kill", "freeze"])
async def test_at_the_end_of_a_crawl_a_mongodb_that_is_away_is_given_up_on(
    crawler: Crawler, mongo: PrivateMongo, goes: str
) -> None:
    store = await opened(crawler)
    await store.process_item(page(0))
    await asyncio.to_thread(getattr(mongo, goes))
    waiting = given(store, range(1, 300))
    # Each has begun: it waits for its batch, or for room in it.
    await asyncio.sleep(0)
    async with asyncio.timeout(100):
        await store.close_spider()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {NotStored}
    # What comes later does not wait either.
    with pytest.raises(NotStored):
        await asyncio.wait_for(store.process_item(page(1)), 30)
