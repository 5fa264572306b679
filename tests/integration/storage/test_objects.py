"""One object for each page, in a real S3 server and in a folder."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigurationError, CrawlerError, SinkAway
from crawler.items import NOT_MODIFIED, Page
from crawler.servers.connections import Servers
from crawler.servers.objects import ObjectStore
from crawler.storage.mongo.schema import METADATA
from crawler.storage.objects import ObjectSink, unpack
from crawler.storage.sink import Sink
from crawler.storage.sinks import named_sinks
from crawler.storage.storage import BatchLimits, Storage
from tests.support.crawlers import project_crawler
from tests.support.s3_front import Front, front_of
from tests.support.s3_server import S3Server, use_server
from tests.support.sinks import page
from tests.support.waiting import until

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def sink_of(url: str) -> ObjectSink:
    return ObjectSink(ObjectStore.from_url(url, what="SINKS"), batch_max_bytes=16_000_000)


async def write(sink: Sink, *pages: Page) -> dict[int, Any]:
    return dict(await sink.write([sink.prepare(each) for each in pages]) or {})


async def documents(url: str) -> dict[str, dict[str, Any]]:
    """All objects by their names."""
    store = ObjectStore.from_url(url, what="SINKS")
    return {name: unpack(await store.get(name)) async for name, _ in store.list()}


@pytest.fixture
async def front(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch
) -> AsyncIterator[Front]:
    async with front_of(s3_server.endpoint) as front:
        use_server(s3_environment, front.endpoint)
        yield front


async def test_pages_are_objects_with_all_that_is_known_of_them(s3_url: str) -> None:
    sink = sink_of(s3_url)
    await sink.open()
    one = page(1, crawled_at=AT, body=b"\xff", title="One", links=["http://a.test/2"], text="t")
    one.items = [{"price": 3}]
    two = page(2, crawled_at=AT, body="grün".encode(), charset="utf-8")
    places = await write(sink, one, two)
    await sink.close()
    name = f"web/a.test/2026/01/02/{one.url_hash}.json.gz"
    assert places[0] == {"object": f"{s3_url}/{name}"}
    found = await documents(s3_url)
    assert len(found) == 2
    document = found[name]
    assert document["body"] == b"\xff"
    assert document["crawled_at"] == AT.isoformat()
    expected = {"title": "One", "domain": "a.test", "links_count": 1, "items": [{"price": 3}]}
    expected |= {"crawl": "web", "url": one.url, "url_hash": one.url_hash, "text": "t"}
    assert document.items() >= expected.items()


async def test_only_pages_whose_content_is_kept_have_an_object(tmp_path: Path) -> None:
    sink = sink_of(f"file://{tmp_path}")
    await sink.open()
    not_modified = page(2, status=304, stored=False, flags=[NOT_MODIFIED])
    gone = page(3, status=404, stored=False, reason="status_404")
    assert await write(sink, page(1, duplicate_of="ab"), not_modified, gone) == {}
    assert await write(sink) == {}
    assert await documents(f"file://{tmp_path}") == {}


async def test_a_page_that_is_written_again_replaces_itself(s3_url: str) -> None:
    sink = sink_of(s3_url)
    for body in (b"first", b"second"):
        await write(sink, page(1, body=body))
    (document,) = (await documents(s3_url)).values()
    assert document["body"] == b"second"


async def test_a_store_that_fails_gets_the_whole_batch_again(front: Front, s3_url: str) -> None:
    sink = sink_of(s3_url)
    pages = [page(number) for number in range(50)]
    front.answer = (503, "SlowDown")
    with pytest.raises(SinkAway) as found:
        await write(sink, *pages)
    assert sink.is_away(found.value)
    # Without an answer for some, the others are not asked for.
    assert len(front.requests) < 150
    front.answer = None
    assert len(await write(sink, *pages)) == 50


async def test_wrong_credentials_cost_no_page_an_attempt(front: Front, s3_url: str) -> None:
    sink = sink_of(s3_url)
    front.answer = (403, "ExpiredToken")
    with pytest.raises(ConfigurationError) as found:
        await write(sink, page(1))
    assert sink.is_away(found.value)


async def test_a_page_that_the_store_refuses_is_refused_alone(front: Front, s3_url: str) -> None:
    sink = sink_of(s3_url)
    front.answers = [(413, "EntityTooLarge")]
    results = await write(sink, page(1), page(2), page(3))
    refused = [result for result in results.values() if isinstance(result, CrawlerError)]
    assert len(refused) == 1
    assert len(await documents(s3_url)) == 2


async def test_places_are_in_the_records_of_mongodb(
    s3_url: str, mongo_uri: str, database: AsyncDatabase[dict[str, Any]], front: Front
) -> None:
    settings = project_crawler(
        MONGO_URI=mongo_uri, MONGO_DATABASE=database.name, SINKS=f"mongo {s3_url}"
    ).settings
    servers = Servers.from_settings(settings)
    sinks = {named.name: named.make("web", settings, servers) for named in named_sinks(settings)}
    storage = Storage(
        *(sinks, MemoryStatsCollector(get_crawler()), BatchLimits(linger_s=0.0)),
        is_closing=lambda: False,
    )
    await storage.open()
    # The store is away for a while: pages wait, and are written once.
    front.answer = (503, "SlowDown")
    asked = len(front.requests)
    puts = [asyncio.create_task(storage.put(page(number, crawled_at=AT))) for number in range(20)]
    await until(lambda: len(front.requests) > asked, "the store was asked")
    front.answer = None
    async with asyncio.timeout(60):
        await asyncio.gather(*puts)
    await storage.close()
    await servers.close()
    found = await documents(s3_url)
    assert len(found) == 20
    records = [each async for each in database[METADATA].find()]
    places = {each["places"]["s3"]["object"] for each in records}
    assert places == {f"{s3_url}/{name}" for name in found}


async def test_the_doctor_is_told_that_the_store_takes_objects(s3_url: str) -> None:
    report = await sink_of(s3_url).check()
    assert report.text.startswith(f"{s3_url}, ")
    assert await documents(s3_url) == {}
