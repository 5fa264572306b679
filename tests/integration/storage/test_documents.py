"""What is in the documents of a page after one visit and after several, in a real MongoDB."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from crawler.storage.mongo import schema
from tests.support.crawlers import project_crawler

Database = AsyncDatabase[dict[str, Any]]
URL = "http://www.example.co.uk/page"
FIRST = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
async def store(crawler: Crawler) -> Store:
    store = Store.from_crawler(crawler)
    await store.open_spider()
    return store


@pytest.fixture
async def other(mongo_uri: str, mongo_db_name: str) -> AsyncIterator[Store]:
    """Store of another crawl in the same database."""
    crawler = project_crawler(MONGO_URI=mongo_uri, MONGO_DATABASE=mongo_db_name, CRAWL="other")
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    store = Store.from_crawler(crawler)
    await store.open_spider()
    yield store
    await Servers.of(crawler).close()


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


METADATA_FIELDS = """crawl url url_hash domain host final_url redirects status headers content_type
charset language title description canonical first_seen crawled_at fetch_ms depth priority parent
worker size_bytes content_hash simhash duplicate_of links_count links error_count last_error
robots_allowed etag last_modified visits changes next_crawl versions reason is_active
parent_url discovered_at recrawl_interval_s compression_ratio"""
CONTENT_FIELDS = "crawl page_id codec body original_size compressed_size text"


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


async def test_two_crawls_of_one_database_have_pages_of_their_own(
    store: Store, other: Store, database: Database
) -> None:
    await asyncio.gather(store.process_item(visit(1)), other.process_item(visit(2)))
    await store.process_item(visit(3, stored=False, reason="noindex"))
    pages = {page["crawl"]: page for page in await database[schema.METADATA].find().to_list()}
    assert {crawl: page["title"] for crawl, page in pages.items()} == {
        "web": "title 3",
        "other": "title 2",
    }
    (content,) = await database[schema.CONTENT].find().to_list()
    assert (content["crawl"], content["text"]) == ("other", "text 2")


async def test_what_is_derived_from_the_page_is_stored_with_it(
    store: Store, database: Database
) -> None:
    page = visit(1, body=b"x" * 1000)
    page.items = [{"price": 3}]
    page.places = {"files": {"path": "a/b", "offset": 7}}
    await store.process_item(page)
    found = await metadata(database)
    assert found["items"] == [{"price": 3}]
    assert found["places"] == {"files": {"path": "a/b", "offset": 7}}
    assert found["compression_ratio"] > 10
    assert found["is_active"]
    # A failure leaves them; a page without them has none.
    await store.process_item(no_answer(2, "timeout"))
    found = await metadata(database)
    assert (found["items"], found["is_active"]) == ([{"price": 3}], False)
    assert found["compression_ratio"] > 10
    await store.process_item(visit(3, duplicate_of="0" * 16))
    found = await metadata(database)
    assert (found["items"], found["places"], found["compression_ratio"]) == ([], {}, None)


async def test_fields_of_few_pages_are_in_their_documents_only(
    store: Store, database: Database
) -> None:
    for number in (1, 2):
        await store.process_item(visit(number))
        assert not {"items", "places"} & (await metadata(database)).keys()


async def test_a_failed_visit_sets_when_the_page_is_due_again(
    store: Store, database: Database
) -> None:
    due = datetime(2026, 2, 3, tzinfo=UTC)
    await store.process_item(visit(1, next_crawl=due, recrawl_interval_s=60.0))
    await store.process_item(no_answer(2, "timeout"))
    found = await metadata(database)
    assert not found["is_active"]
    assert (found["next_crawl"], found["recrawl_interval_s"]) == (None, None)
    await store.process_item(no_answer(3, "timeout", next_crawl=due, recrawl_interval_s=90.0))
    found = await metadata(database)
    assert found["is_active"]
    assert (found["next_crawl"], found["recrawl_interval_s"]) == (due, 90.0)


@pytest.mark.parametrize("later", [visit(2), no_answer(2, "timeout")], ids=["page", "failure"])
async def test_what_is_known_of_the_origin_stays_when_a_later_visit_does_not_know_it(
    store: Store, database: Database, later: Page
) -> None:
    known = {"parent": "1" * 16, "parent_url": "http://a.test/$from", "discovered_at": FIRST}
    await store.process_item(visit(1, **known))
    await store.process_item(later)
    found = await metadata(database)
    assert (found["parent_url"], found["discovered_at"]) == ("http://a.test/$from", FIRST)
    await store.process_item(visit(3, **{**known, "parent_url": "http://a.test/other"}))
    assert (await metadata(database))["parent_url"] == "http://a.test/other"


async def test_the_url_of_the_parent_is_found_in_the_batch_and_in_the_database(
    store: Store, other: Store, database: Database
) -> None:
    home, list_, foreign = (
        visit(url=f"http://a.test/{name}") for name in ("", "list", "of-another-crawl")
    )
    await store.process_item(home)
    await other.process_item(foreign)

    def child(name: str, parent: Page, number: int = 1) -> Page:
        return visit(number, url=f"http://a.test/{name}", parent=parent.url_hash)

    unknown = visit(url="http://a.test/never-stored")
    await asyncio.gather(
        *(
            store.process_item(page)
            for page in (
                child("1", home),
                child("2", list_),
                list_,
                child("3", unknown),
                child("4", foreign),
                child("5", home, number=2),
            )
        )
    )
    found = {
        page["url"].rpartition("/")[2]: page["parent_url"]
        for page in await database[schema.METADATA].find({"crawl": "web"}).to_list()
    }
    assert found == {
        **dict.fromkeys(("", "list", "3", "4")),
        **dict.fromkeys(("1", "5"), home.url),
        "2": list_.url,
    }
    # It is appended to what was encoded before, and the rest is as it was.
    document = await database[schema.METADATA].find_one({"parent_url": home.url})
    assert document is not None
    assert document["title"] == "title 1"


async def test_of_a_page_that_is_too_big_only_the_metadata_is_kept(
    store: Store, database: Database
) -> None:
    await store.process_item(visit(1, body=random.Random(1).randbytes(17_000_000)))
    assert (await metadata(database))["reason"] == "too_big_to_store"
    assert await text(database) is None


async def test_indexes_are_made_once(store: Store, database: Database, crawler: Crawler) -> None:
    names = await database[schema.METADATA].index_information()
    fields = {tuple(name for name, _ in index["key"]) for index in names.values()}
    single = {"url", "domain", "crawled_at", "content_hash", "depth", "next_crawl", "_id"}
    assert fields == {(name,) for name in single} | {
        ("crawl", "url_hash"),
        ("status", "crawled_at"),
        ("priority", "next_crawl"),
    }
    assert names["crawl_1_url_hash_1"]["unique"]
    content = await database[schema.CONTENT].index_information()
    assert content.keys() == {"_id_", "crawl_1_page_id_1"}
    assert content["crawl_1_page_id_1"]["unique"]
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


async def test_pages_of_a_newer_version_are_not_touched(
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
