"""Pages of version 1 get the name of their crawl, whatever interrupts it, once."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError
from crawler.pipelines.store import Store
from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.mongo.schema import Migration
from crawler.storage.reader import Wanted
from tests.integration.storage.test_documents import visit
from tests.support import old_pages
from tests.support.waiting import until

Database = AsyncDatabase[dict[str, Any]]
PAGES = 25


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "_BATCH", 10)
    monkeypatch.setattr(schema, "_POLL_S", 0.02)
    monkeypatch.setattr(schema, "_LOG_S", 0.0)


@pytest.fixture
def old(mongo_uri: str, mongo_db_name: str) -> None:
    old_pages.fill(mongo_uri, mongo_db_name, PAGES)


@pytest.fixture
def is_whole(mongo_uri: str, mongo_db_name: str) -> Any:
    def check(crawl: str) -> None:
        old_pages.check_migrated(mongo_uri, mongo_db_name, PAGES, crawl)

    return check


@pytest.mark.usefixtures("old")
async def test_a_crawl_gives_its_name_to_pages_of_an_earlier_version(
    crawler: Crawler, is_whole: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await Store.from_crawler(crawler).open_spider()
    is_whole("web")
    assert "do not say which crawl they are of: all of them get the name 'web'" in caplog.text
    line = "Pages of an earlier version get the name of their crawl 'web'"
    for done in ("10 of 50", "20 of 50", "25 of 50", "35 of 50", "50 of 50"):
        assert f"{line}: {done} documents" in caplog.text
    caplog.clear()
    await Store.from_crawler(crawler).open_spider()
    assert "earlier version" not in caplog.text


async def test_indexes_that_somebody_dropped_stay_dropped(database: Database, old: None) -> None:
    for name in ("depth_1", "url_hashed"):
        await database[schema.METADATA].drop_index(name)
    await schema.prepare(database, "web")
    found = await database[schema.METADATA].index_information()
    assert not {"depth_1", "url_hashed"} & found.keys()


async def test_a_database_of_the_first_set_of_indexes_gets_the_one_by_url(
    database: Database, old: None
) -> None:
    await database[schema.METADATA].drop_index("url_hashed")
    await database["pages_schema"].update_one({}, {"$unset": {"indexes": True}})
    await schema.prepare(database, "web")
    assert "url_hashed" in await database[schema.METADATA].index_information()


async def test_a_new_database_where_an_earlier_version_died_takes_two_crawls(
    database: Database, mongo_uri: str, mongo_db_name: str
) -> None:
    old_pages.fill(mongo_uri, mongo_db_name, 0)
    # It makes indexes first.
    await database["pages_schema"].delete_many({})
    await schema.prepare(database, "web")
    assert "url_hash_1" not in await database[schema.METADATA].index_information()


class Interruption(CommandListener):
    """Cancels a task at its n-th command, and at the next ones until it has ended.

    On Python 3.11 asyncio.wait_for(), which pymongo uses, may lose a cancellation.
    """

    def __init__(self, at: int) -> None:
        self._left = at
        self.task: asyncio.Task[None] | None = None

    def started(self, event: CommandStartedEvent) -> None:
        if self.task is not None and asyncio.current_task() is self.task:
            self._left -= 1
            if self._left <= 0:
                self.task.cancel()

    def succeeded(self, event: CommandSucceededEvent) -> None:
        pass

    def failed(self, event: CommandFailedEvent) -> None:
        pass


async def test_a_migration_that_is_interrupted_anywhere_is_not_taken_for_done_and_goes_on(
    mongo_uri: str, mongo_db_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the lock itself is interrupted, it has to expire.
    monkeypatch.setattr(schema, "_LOCK_END", {"$add": ["$$NOW", 300]})
    monkeypatch.setattr(schema, "_RENEW_S", 0.1)
    at, is_over = 0, False
    while not is_over:
        at += 1
        listener = Interruption(at)
        old_pages.fill(mongo_uri, mongo_db_name, PAGES)
        async with AsyncMongoClient[dict[str, Any]](
            mongo_uri, event_listeners=[listener], tz_aware=True
        ) as client:
            database = client[mongo_db_name]
            listener.task = asyncio.create_task(Migration(database, "first").run())
            await asyncio.wait([listener.task])
            is_over = not listener.task.cancelled()
            state = old_pages.state(mongo_uri, mongo_db_name)
            # What began has a name; what has not ended is refused by commands.
            name = "first" if state["version"] == 2 else "second"
            if state["version"] == 1 or "migration" in state:
                with pytest.raises(ConfigurationError, match="scrapy pages migrate --crawl NAME"):
                    await schema.check(database)
            await schema.prepare(database, "second")
            old_pages.check_migrated(mongo_uri, mongo_db_name, PAGES, name)
            await client.drop_database(mongo_db_name)
    # Lock, batches of both collections, indexes, end.
    assert at > 25


@pytest.mark.usefixtures("old")
async def test_of_two_crawls_at_once_the_first_gives_its_name_and_the_other_waits(
    database: Database, is_whole: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = asyncio.create_task(schema.prepare(database, "first"))
    await until(lambda: "get the name 'first'" in caplog.text)
    await asyncio.gather(first, *(schema.prepare(database, f"other{n}") for n in range(3)))
    is_whole("first")
    assert "Another process gives pages of an earlier version the name of their crawl 'first'" in (
        caplog.text
    )
    assert caplog.text.count("get the name 'first'") == 1


@pytest.mark.usefixtures("old")
async def test_a_process_that_lost_the_lock_does_not_end_the_migration_of_another(
    database: Database, is_whole: Any
) -> None:
    slow = Migration(database, "first")
    state = await slow._take_lock()
    assert state is not None
    # Its process stands still until the lock has expired.
    await database["pages_schema"].update_one({}, {"$unset": {"migration.expires_at": True}})
    other = Migration(database, "second")
    assert (await other._take_lock() or {})["owner"] == other._owner
    await slow._migrate(state)
    with pytest.raises(ConfigurationError):
        await schema.check(database)
    await other._migrate(await other._take_lock() or {})
    is_whole("first")


@pytest.mark.usefixtures("old")
async def test_a_lock_is_kept_while_its_process_works(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "_RENEW_S", 0.05)
    monkeypatch.setattr(schema, "_LOCK_END", {"$add": ["$$NOW", 500]})
    working, asked = asyncio.Event(), asyncio.Event()

    async def name_slowly(self: Migration, state: Any) -> None:
        working.set()
        await asked.wait()

    monkeypatch.setattr(Migration, "_name_documents", name_slowly)
    task = asyncio.create_task(Migration(database, "first").run())
    await working.wait()
    other = Migration(database, "second")
    for _ in range(15):
        assert (await other._take_lock() or {})["owner"] != other._owner
        await asyncio.sleep(0.1)
    asked.set()
    await task


@pytest.mark.usefixtures("old")
async def test_pages_that_come_from_a_process_of_the_earlier_version_meanwhile_get_the_name_too(
    database: Database, mongo_uri: str, mongo_db_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Migration._change_indexes

    async def insert_first(self: Migration, state: Any) -> None:
        await database[schema.CONTENT].insert_one(old_pages.content(PAGES))
        await database[schema.METADATA].insert_one({"_id": 1, **old_pages.metadata(PAGES)})
        await make(self, state)

    monkeypatch.setattr(Migration, "_change_indexes", insert_first)
    await schema.prepare(database, "web")
    old_pages.check_migrated(mongo_uri, mongo_db_name, PAGES + 1, "web")


@pytest.mark.usefixtures("old")
async def test_a_crawl_of_the_same_site_then_has_pages_of_its_own(
    crawler: Crawler, database: Database
) -> None:
    await schema.prepare(database, "old")
    store = Store.from_crawler(crawler)
    await store.open_spider()
    await asyncio.gather(
        *(store.process_item(visit(url=old_pages.url(number))) for number in range(PAGES))
    )
    reader = MongoReader(database)
    for crawl, text in (("old", "text 3"), ("web", "text 1")):
        assert await reader.count(Wanted(crawl=crawl)) == PAGES
        page = await reader.metadata(old_pages.url(3), crawl)
        assert page is not None
        content = await reader.content(page)
        assert content is not None
        assert content.text == text
    assert [count async for count in reader.delete(Wanted(crawl="web"))] == [PAGES]
    assert await reader.crawls() == ["old"]
    for collection in (schema.METADATA, schema.CONTENT):
        assert await database[collection].count_documents({}) == PAGES


async def test_pages_without_a_schema_are_of_an_earlier_version(
    database: Database, old: None, is_whole: Any
) -> None:
    # As after a restore of some collections.
    await database["pages_schema"].drop()
    await schema.prepare(database, "web")
    is_whole("web")


async def test_a_page_that_an_older_program_stores_again_meanwhile_is_one_page(
    database: Database, old: None
) -> None:
    metadata = database[schema.METADATA]
    newer, older = await metadata.find({}).limit(2).to_list()
    await schema.prepare(database, "web")
    for twin, days in ((newer, 1), (older, -1)):
        del twin["_id"]
        twin["crawled_at"] += timedelta(days=days)
        await metadata.insert_one(twin)
    # Killed at its end: it goes on where it was.
    await database["pages_schema"].update_one({}, {"$set": {"migration": {"crawl": "web"}}})
    await schema.prepare(database, "web")
    assert await metadata.count_documents({}) == PAGES
    assert await metadata.count_documents({"crawl": "web"}) == PAGES
    found = {page["url_hash"]: page["crawled_at"] async for page in metadata.find({})}
    assert found[newer["url_hash"]] == newer["crawled_at"]
    assert found[older["url_hash"]] > older["crawled_at"]
