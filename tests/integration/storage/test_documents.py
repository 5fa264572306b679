"""What is in the documents of a page after one visit and after several, in a real MongoDB."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.storage.mongo import schema

Database = AsyncDatabase[dict[str, Any]]
URL = "http://www.example.co.uk/page"
FIRST = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def store(crawler: Crawler) -> Store:
    store = Store.from_crawler(crawler)
    await store.open_spider()
    return store


def visit(number: int = 1, **fields: Any) -> Page:
    """A page as its n-th visit finds it, a day after the one before."""
    values: dict[str, Any] = {
        "url": URL,
        "final_url": URL,
        "status": 200,
        "crawled_at": FIRST + timedelta(days=number - 1),
        "body": b"body %d" % number,
        "text": f"text {number}",
        "title": f"title {number}",
        "content_hash": f"hash {number}",
        "visits": number,
        **fields,
    }
    return Page(**values)


def no_answer(number: int, reason: str, **fields: Any) -> Page:
    bare = {"body": b"", "text": "", "title": "", "content_hash": "", "stored": False}
    return visit(number, status=0, reason=reason, last_error=reason, **bare, **fields)


async def metadata(database: Database) -> dict[str, Any]:
    (document,) = await database[schema.METADATA].find().to_list()
    return document


async def text(database: Database) -> str | None:
    found = await database[schema.CONTENT].find().to_list()
    assert len(found) <= 1
    return found[0]["text"] if found else None


METADATA_FIELDS = """url url_hash domain host final_url redirects status headers content_type
charset language title description canonical first_seen crawled_at fetch_ms depth priority parent
worker size_bytes content_hash simhash duplicate_of links_count links error_count last_error
robots_allowed etag last_modified visits changes next_crawl versions reason"""
CONTENT_FIELDS = "page_id codec body original_size compressed_size text"


async def test_a_page_has_all_fields(store: Store, database: Database) -> None:
    due = datetime(2026, 2, 3, tzinfo=UTC)
    page = visit(priority=2, etag='"e"', next_crawl=due, changes=3, error_count=1, last_error="dns")
    await store.process_item(page)
    found = await metadata(database)
    assert found.keys() >= set(METADATA_FIELDS.split())
    assert (found["priority"], found["etag"], found["changes"]) == (2, '"e"', 3)
    assert (found["next_crawl"], found["error_count"], found["last_error"]) == (due, 1, "dns")
    assert (found["host"], found["domain"]) == ("www.example.co.uk", "example.co.uk")
    assert found["first_seen"] == FIRST
    (content,) = await database[schema.CONTENT].find().to_list()
    assert content.keys() >= set(CONTENT_FIELDS.split())


@pytest.mark.parametrize("known", [True, False], ids=["recrawl", "after a crash"])
async def test_a_later_visit_replaces_an_earlier_one(
    store: Store, database: Database, known: bool
) -> None:
    await store.process_item(visit(1))
    await store.process_item(visit(2, visits=2 if known else 1, title="$not.an expression"))
    found = await metadata(database)
    assert (found["title"], found["first_seen"]) == ("$not.an expression", FIRST)
    assert found["crawled_at"] == FIRST + timedelta(days=1)
    assert await text(database) == "text 2"


@pytest.mark.parametrize("known", [True, False])
async def test_an_older_fetch_never_overwrites_a_newer_one(
    store: Store, database: Database, known: bool
) -> None:
    await store.process_item(visit(5))
    before = await metadata(database)
    await store.process_item(visit(4, visits=2 if known else 1))
    assert await metadata(database) == before
    assert await text(database) == "text 5"


async def test_the_same_page_many_times_at_once_is_one_document(
    store: Store, database: Database
) -> None:
    await asyncio.gather(*(store.process_item(visit(i, visits=1)) for i in range(1, 8)))
    assert (await metadata(database))["title"] == "title 7"
    assert await text(database) == "text 7"


async def test_the_last_20_versions_are_kept(store: Store, database: Database) -> None:
    for number in range(1, 25):
        await store.process_item(visit(number))
        # The same content once more is no other version.
        await store.process_item(visit(number, crawled_at=FIRST + timedelta(days=number, hours=-1)))
    versions = (await metadata(database))["versions"]
    assert [each["content_hash"] for each in versions] == [f"hash {n}" for n in range(5, 25)]
    assert versions[-1]["at"] == FIRST + timedelta(days=23)


@pytest.mark.parametrize("reason", ["timeout", "robots"])
async def test_a_url_without_an_answer_is_recorded(
    store: Store, database: Database, reason: str
) -> None:
    await store.record(no_answer(1, reason, error_count=4, robots_allowed=reason != "robots"))
    found = await metadata(database)
    assert (found["status"], found["reason"], found["last_error"]) == (0, reason, reason)
    assert (found["error_count"], found["robots_allowed"]) == (4, reason != "robots")
    assert await text(database) is None


@pytest.mark.parametrize("status", [0, 404, 503])
async def test_a_failure_leaves_what_was_stored_before(
    store: Store, database: Database, status: int
) -> None:
    await store.process_item(visit(1))
    gone = no_answer(2, "gone", error_count=1)
    gone.status = status
    await store.process_item(gone)
    found = await metadata(database)
    assert (found["status"], found["reason"], found["error_count"]) == (status, "gone", 1)
    assert (found["title"], found["content_hash"], found["visits"]) == ("title 1", "hash 1", 2)
    assert await text(database) == "text 1"


@pytest.mark.parametrize("failed_between", [False, True])
async def test_a_page_that_did_not_change_keeps_what_is_known(
    store: Store, database: Database, failed_between: bool
) -> None:
    await store.process_item(visit(1))
    if failed_between:
        await store.process_item(no_answer(2, "timeout"))
    unchanged = no_answer(3, "status_304", flags=["not_modified"])
    unchanged.status = 304
    await store.process_item(unchanged)
    found = await metadata(database)
    assert (found["status"], found["reason"], found["visits"]) == (200, "", 3)
    assert (found["title"], len(found["versions"])) == ("title 1", 1)
    assert found["crawled_at"] == FIRST + timedelta(days=2)


@pytest.mark.parametrize(
    "fields",
    [{"stored": False, "reason": "noindex", "content_hash": ""}, {"duplicate_of": "0" * 16}],
    ids=["noindex", "duplicate"],
)
async def test_content_goes_when_a_page_has_none_of_its_own_any_more(
    store: Store, database: Database, fields: dict[str, Any]
) -> None:
    await store.process_item(visit(1))
    await store.process_item(visit(2, **fields))
    assert (await metadata(database))["title"] == "title 2"
    assert await text(database) is None
    # An older one does not bring it back, nor does it take newer content away.
    await store.process_item(visit(3))
    await store.process_item(visit(2, **fields))
    assert await text(database) == "text 3"


async def test_of_a_page_that_is_too_big_only_the_metadata_is_kept(
    store: Store, database: Database
) -> None:
    await store.process_item(visit(1, body=random.Random(1).randbytes(17_000_000)))
    assert (await metadata(database))["reason"] == "too_big_to_store"
    assert await text(database) is None


async def test_indexes_are_made_once(store: Store, database: Database, crawler: Crawler) -> None:
    names = await database[schema.METADATA].index_information()
    fields = {tuple(name for name, _ in index["key"]) for index in names.values()}
    single = {
        "url",
        "url_hash",
        "domain",
        "crawled_at",
        "content_hash",
        "depth",
        "next_crawl",
        "_id",
    }
    assert fields == {(name,) for name in single} | {("status", "crawled_at")}
    assert names["url_hash_1"]["unique"]
    assert (await database[schema.CONTENT].index_information())["page_id_1"]["unique"]
    # Whoever dropped one did it on purpose.
    await database[schema.METADATA].drop_index("depth_1")
    await Store.from_crawler(crawler).open_spider()
    assert "depth_1" not in await database[schema.METADATA].index_information()


async def test_a_page_is_found_by_its_url_without_a_look_at_the_others(
    store: Store, database: Database
) -> None:
    for number in range(20):
        await store.process_item(visit(url=f"{URL}{number}"))
    # As docs/pages.md has it.
    found = await database[schema.METADATA].find({"url": f"{URL}7"}).limit(1).explain()
    assert found["executionStats"]["nReturned"] == 1
    assert found["executionStats"]["totalDocsExamined"] == 1
    assert found["executionStats"]["totalKeysExamined"] == 1


async def test_an_older_database_gets_the_index_while_the_crawl_runs(
    store: Store, database: Database, crawler: Crawler
) -> None:
    metadata = database[schema.METADATA]
    for name in ("url_hashed", "depth_1"):
        await metadata.drop_index(name)
    await database["pages_schema"].update_one({}, {"$unset": {"indexes": True}})
    later = Store.from_crawler(crawler)
    await later.open_spider()
    assert sink_of(later)._indexing is not None
    await sink_of(later)._indexing
    names = await metadata.index_information()
    assert "url_hashed" in names
    # It gets what is new, and not what somebody dropped.
    assert "depth_1" not in names
    # Once.
    await metadata.drop_index("url_hashed")
    again = Store.from_crawler(crawler)
    await again.open_spider()
    assert sink_of(again)._indexing is None
    assert "url_hashed" not in await metadata.index_information()


async def test_a_crawl_goes_on_without_an_index_that_cannot_be_made(
    store: Store, database: Database, crawler: Crawler, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = database[schema.METADATA]
    await metadata.drop_index("url_hashed")
    # Another one by its name.
    await metadata.create_index("host", name="url_hashed")
    await database["pages_schema"].update_one({}, {"$unset": {"indexes": True}})
    later = Store.from_crawler(crawler)
    await later.open_spider()
    assert sink_of(later)._indexing is not None
    await sink_of(later)._indexing
    assert "find a page by its url" in caplog.text
    await later.process_item(visit(9))
    await later.close_spider()


async def test_pages_of_another_version_are_not_touched(
    store: Store, database: Database, crawler: Crawler
) -> None:
    await database["pages_schema"].update_one({}, {"$set": {"version": 7}})
    with pytest.raises(ConfigurationError, match=r"has pages of version 7.*-s MONGO_DATABASE="):
        await Store.from_crawler(crawler).open_spider()


async def test_a_new_database_is_prepared_by_many_at_once(
    crawler: Crawler, database: Database
) -> None:
    stores = [Store.from_crawler(crawler) for _ in range(5)]
    await asyncio.gather(*(store.open_spider() for store in stores))
    assert await database["pages_schema"].count_documents({}) == 1


def sink_of(store: Store) -> Any:
    return store._storage.writers[0].sink


async def test_the_store_tells_how_it_goes(store: Store, crawler: Crawler) -> None:
    await asyncio.gather(
        *(
            store.process_item(visit(url=f"{URL}{n}", body=b"x" * 1000, size_bytes=1000))
            for n in range(10)
        ),
        store.record(no_answer(1, "timeout")),
    )
    stats = crawler.stats.get_stats()
    assert (stats["store/pages"], stats["store/records"], stats["store/failed_urls"]) == (10, 10, 1)
    assert (stats["sink/batches/mongo"], stats["sink/pages/mongo"]) == (1, 11)
    assert stats["store/bytes"] == 10_000
    assert stats["sink/bytes/mongo"] > 0
    assert stats["store/state"] == "ok"
