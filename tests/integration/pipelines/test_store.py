"""Pages in a real MongoDB."""

import asyncio
import random
import re
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest
import zstandard
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from tests.support.crawlers import project_crawler

Database = AsyncDatabase[dict[str, Any]]
BODY = b"<html>\x00\xff" * 100


def page(number: int = 0, **fields: Any) -> Page:
    url = f"http://www.example.co.uk/{number}"
    values: dict[str, Any] = {
        "url": url,
        "final_url": url,
        "status": 200,
        "crawled_at": datetime(2026, 1, 2, tzinfo=UTC),
        "body": BODY,
        "size_bytes": len(BODY),
        "text": "some text",
        **fields,
    }
    return Page(**values)


async def opened(crawler: Crawler) -> Store:
    store = Store.from_crawler(crawler)
    await store.open_spider()
    return store


async def all_of(collection: AsyncCollection[dict[str, Any]]) -> list[dict[str, Any]]:
    return await collection.find().to_list()


async def test_a_page_becomes_metadata_and_content(crawler: Crawler, database: Database) -> None:
    store = await opened(crawler)
    given = page(title="T", links=["http://h.test/a"] * 1200, extra={"price": 1.5})
    assert await store.process_item(given) is given
    (metadata,) = await all_of(database["pages_metadata"])
    (content,) = await all_of(database["pages_content"])
    assert metadata["url"] == given.url
    assert metadata["title"] == "T"
    assert metadata["host"] == "www.example.co.uk"
    assert metadata["domain"] == "example.co.uk"
    assert metadata["crawled_at"] == given.crawled_at
    assert metadata["extra"] == {"price": 1.5}
    assert metadata["links_count"] == 1200
    assert len(metadata["links"]) == 1000
    assert not {"body", "text"} & metadata.keys()
    assert content["page_id"] == metadata["url_hash"]
    assert content["text"] == "some text"
    assert content["original_size"] == len(BODY)
    await store.close_spider()


DECOMPRESS = {"zstd": zstandard.decompress, "zlib": zlib.decompress, "none": bytes}


@pytest.mark.parametrize("codec", DECOMPRESS)
@pytest.mark.parametrize("body", [BODY, b""])
async def test_a_body_comes_out_as_it_went_in(
    crawler: Crawler, database: Database, codec: str, body: bytes
) -> None:
    crawler.settings.frozen = False
    crawler.settings.set("PAGES_CODEC", codec)
    store = await opened(crawler)
    await store.process_item(page(body=body))
    (content,) = await all_of(database["pages_content"])
    assert content["codec"] == codec
    assert DECOMPRESS[codec](content["body"]) == body
    assert content["compressed_size"] == len(content["body"])


async def test_a_page_crawled_again_replaces_itself(crawler: Crawler, database: Database) -> None:
    store = await opened(crawler)
    await store.process_item(page(title="old"))
    (before,) = await all_of(database["pages_metadata"])
    await store.process_item(page(title="new", body=b"new", visits=2))
    (after,) = await all_of(database["pages_metadata"])
    (content,) = await all_of(database["pages_content"])
    assert (before["visits"], after["visits"]) == (1, 2)
    assert after["title"] == "new"
    assert after["first_seen"] == before["first_seen"]
    assert zstandard.decompress(content["body"]) == b"new"


@pytest.mark.parametrize("fields", [{"stored": False}, {"duplicate_of": "0" * 16}])
async def test_of_errors_and_duplicates_only_the_metadata_is_kept(
    crawler: Crawler, database: Database, fields: dict[str, Any]
) -> None:
    store = await opened(crawler)
    await store.process_item(page(**fields))
    assert len(await all_of(database["pages_metadata"])) == 1
    assert await all_of(database["pages_content"]) == []


async def test_what_waits_is_written_together(crawler: Crawler, database: Database) -> None:
    store = await opened(crawler)
    await asyncio.gather(*(store.process_item(page(number)) for number in range(450)))
    assert await database["pages_metadata"].count_documents({}) == 450
    assert await database["pages_content"].count_documents({}) == 450
    # The first flush takes all that came in the same turn of the loop, 200 at a time.
    assert crawler.stats.get_value("sink/batches/mongo") == 3
    assert crawler.stats.get_value("store/pages") == 450


async def test_the_largest_page_fits(crawler: Crawler, database: Database) -> None:
    store = await opened(crawler)
    body = random.Random(1).randbytes(crawler.settings.getint("DOWNLOAD_MAXSIZE"))
    await store.process_item(page(body=body, text="\N{GRINNING FACE}" * 3_000_000))
    (content,) = await all_of(database["pages_content"])
    assert zstandard.decompress(content["body"]) == body
    assert len(content["text"]) == 1_000_000


async def test_other_items_pass(crawler: Crawler, database: Database) -> None:
    store = await opened(crawler)
    assert await store.process_item({"not": "a page"}) == {"not": "a page"}
    assert await all_of(database["pages_metadata"]) == []


async def test_content_is_written_before_metadata_points_to_it(
    crawler: Crawler, database: Database
) -> None:
    await database.create_collection("pages_content", validator={"never": {"$exists": True}})
    store = await opened(crawler)
    with pytest.raises(PyMongoError):
        await store.process_item(page())
    assert await all_of(database["pages_metadata"]) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"extra": {"odd": object()}},
        {"extra": {"big": 2**64}},
        {"extra": {1: "a number as key"}},
        {"title": "\ud800"},
        {"extra": {"text": "x" * 17_000_000}},
    ],
    ids=["type", "number", "key", "surrogate", "size"],
)
async def test_one_bad_page_fails_alone(
    crawler: Crawler, database: Database, fields: dict[str, Any]
) -> None:
    store = await opened(crawler)
    pages = [page(0), page(1, **fields), page(2)]
    async with asyncio.timeout(30):
        good, bad, other = await asyncio.gather(
            *(store.process_item(each) for each in pages), return_exceptions=True
        )
    assert isinstance(good, Page)
    assert isinstance(other, Page)
    assert isinstance(bad, Exception)
    urls = {document["url"] for document in await all_of(database["pages_metadata"])}
    assert urls == {pages[0].url, pages[2].url}


async def test_an_item_that_was_given_up_does_not_hold_the_others_up(
    crawler: Crawler, database: Database
) -> None:
    store = await opened(crawler)
    waiting = [asyncio.create_task(store.process_item(page(number))) for number in range(2)]
    await asyncio.sleep(0)  # both wait for their batch now
    waiting[0].cancel()
    async with asyncio.timeout(30):
        await waiting[1]
    assert waiting[0].cancelled()


async def test_an_error_that_will_not_pass_fails_the_items_and_none_waits(crawler: Crawler) -> None:
    store = await opened(crawler)
    await (await Servers.of(crawler).mongo()).close()
    async with asyncio.timeout(30):
        results = await asyncio.gather(
            *(store.process_item(page(number)) for number in range(3)), return_exceptions=True
        )
    assert all(isinstance(result, Exception) for result in results)
    await store.close_spider()


async def test_closing_waits_for_what_is_being_written(
    crawler: Crawler, database: Database
) -> None:
    store = await opened(crawler)
    item = asyncio.create_task(store.process_item(page()))
    await asyncio.sleep(0)
    await store.close_spider()
    assert await database["pages_metadata"].count_documents({}) == 1
    await item


class OwnPipeline:
    """Takes pages."""


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [
        ({}, True),
        ({"FEEDS": {"pages.jsonl": {"format": "jsonlines"}}}, False),
        ({"ITEM_PIPELINES": {OwnPipeline: 500}}, False),
        ({"ITEM_PIPELINES": {"shop.Prices": 500}}, False),
        ({"ITEM_PIPELINES": {"shop.Prices": None}}, True),
    ],
)
def test_pages_may_be_stored_elsewhere_and_must_not_go_nowhere_unsaid(
    settings: dict[str, Any], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NotConfigured):
        Store.from_crawler(project_crawler(SINKS="none", **settings))
    assert ("pages go nowhere" in caplog.text) == is_warned
    assert not is_warned or "-o pages.jsonl" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PAGES_CODEC", "brotli"),
        ("STORE_WRITE_CONCERN", {"w": 0}),
        ("STORE_WRITE_CONCERN", {"wait": 1}),
        ("STORE_WRITE_CONCERN", {"w": 0, "j": True}),
    ],
)
def test_a_bad_setting_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"{name} is {value!r}")):
        Store.from_crawler(project_crawler(**{name: value}))
