"""How fast do pages get into MongoDB and out of it, beside single inserts?

Pages of 26 KB with 60 links go through the store pipeline into a private embedded mongod, with the
write concern of a crawl (in the journal before a page counts). The peer inserts the same documents
one at a time with the same client and concern, and twice as many at once as a crawl has fetches.
Then the same with pages shaped like those of the web, of 140 KB on average. CPU time of MongoDB is
with a checkpoint at the end, which writes all pages to their files.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from statistics import median
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any, NamedTuple

import bson
from pymongo import WriteConcern
from scrapy import Spider
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from benchmarks.command import run
from benchmarks.crawl.grounds import WEB
from benchmarks.crawl.pages import Size
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.links import page as html
from benchmarks.servers import PrivateMongo, private_mongo
from crawler import settings as ours
from crawler.items import Page
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.mongo.sink import compressor, documents_of

_CONCURRENT = 128
_DIFFERENT = 24
_LARGE_DIFFERENT = 100
_PAGES, _LARGE, _SINGLE, _LOOKS = 10_000, 5_000, 2_000, 1_000
_TARGET_PAGES_S, _TARGET_FIND_MS = 1_000, 2.0


def pages(count: int, database: str, bodies: Sequence[bytes] = ()) -> Iterator[Page]:
    """As the spider makes them, by default with 26 KB and 60 links."""
    reader = DocumentReader(HtmlReader(max_links=6000), max_links=6000)
    url = "http://www.words.example/library/page"
    bodies = bodies or [html(number) for number in range(_DIFFERENT)]
    read = [reader.read(body, url, content_type="text/html; charset=utf-8") for body in bodies]
    for number in range(count):
        body, document = bodies[number % len(bodies)], read[number % len(bodies)]
        yield Page(
            url=_url(database, number),
            final_url=_url(database, number),
            status=200,
            crawled_at=datetime.now(UTC),
            headers={"content-type": "text/html", "etag": '"1"'},
            content_type="text/html",
            charset="utf-8",
            title=document.title,
            text=document.text,
            links=document.links,
            size_bytes=len(body),
            content_hash="0" * 64,
            simhash="0" * 16,
            body=body,
        )


def _url(database: str, number: int) -> str:
    return f"http://www{number % 500}.{database}.example/library/page/{number}"


@asynccontextmanager
async def _store(uri: str, database: str) -> AsyncIterator[tuple[Store, Servers]]:
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {
        "EXTENSIONS": {"crawler.servers.connections.Servers": 0},
        "TWISTED_REACTOR_ENABLED": False,
        "MONGO_URI": uri,
        "MONGO_DATABASE": database,
    }
    crawler = get_crawler(settings_dict=Settings(values))
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    crawler.spider = Spider("web")
    store, servers = Store.from_crawler(crawler), Servers.of(crawler)
    await store.open_spider()
    try:
        yield store, servers
    finally:
        await store.close_spider()
        await servers.close()


async def _all(work: Iterator[Any], do: Callable[[Any], Awaitable[Any]]) -> None:
    async def some() -> None:
        for each in work:
            await do(each)

    await asyncio.gather(*(some() for _ in range(_CONCURRENT)))


class _Stored(NamedTuple):
    """What it took to store pages, each."""

    pages_per_s: float
    cpu_ms: float
    mongo_ms: float


async def _fill(store: Store, mongo: PrivateMongo, given: list[Page]) -> _Stored:
    started_s, cpu_s, mongo_s = perf_counter(), process_time(), mongo.cpu_s()
    await _all(iter(given), store.process_item)
    spent_s, cpu_s = perf_counter() - started_s, process_time() - cpu_s
    mongo.client.admin.command("fsync")
    count = len(given)
    mongo_ms = (mongo.cpu_s() - mongo_s) / count * 1000
    return _Stored(count / spent_s, cpu_s / count * 1000, mongo_ms)


async def _measure(mongo: PrivateMongo, quick: bool) -> list[Figure]:
    count, large, single, looks = (
        n // 10 if quick else n for n in (_PAGES, _LARGE, _SINGLE, _LOOKS)
    )
    async with _store(mongo.url, "batches") as (store, servers):
        usual = await _fill(store, mongo, list(pages(count, "batches")))
        client = await servers.mongo()
        stored = MongoReader(client["batches"])
        chance, times = random.Random(1), []
        for _ in range(looks):
            url = _url("batches", chance.randrange(count))
            look_s = perf_counter()
            found = await stored.metadata(url)
            times.append(perf_counter() - look_s)
            assert found is not None
        singles_s = await _single_inserts(client["singles"], single)
    size = Size(seeds=_LARGE_DIFFERENT, hosts=10)
    bodies = [WEB.page(number, size, 443, WEB.scheme) for number in range(_LARGE_DIFFERENT)]
    async with _store(mongo.url, "large") as (store, servers):
        web = await _fill(store, mongo, list(pages(large, "large", bodies)))
    return [
        Figure(
            "store.pages_per_s",
            usual.pages_per_s,
            "pages/s",
            "single inserts",
            usual.pages_per_s / singles_s,
            target=at_least(_TARGET_PAGES_S),
        ),
        Figure("store.cpu_ms_per_page", usual.cpu_ms, "ms"),
        Figure("store.mongo_ms_per_page", usual.mongo_ms, "ms"),
        Figure("store.find_ms", median(times) * 1000, "ms", target=at_most(_TARGET_FIND_MS)),
        Figure("store.large_pages_per_s", web.pages_per_s, "pages/s"),
        Figure("store.large_cpu_ms_per_page", web.cpu_ms, "ms"),
        Figure("store.large_mongo_ms_per_page", web.mongo_ms, "ms"),
    ]


async def _single_inserts(database: Any, count: int) -> float:
    """Pages a second, one document a call, the metadata in the journal before a page counts."""
    concern = WriteConcern(**ours.STORE_WRITE_CONCERN)
    content = database["pages_content"]
    metadata = database.get_collection("pages_metadata", write_concern=concern)
    await content.create_index([("crawl", 1), ("page_id", 1)], unique=True)
    await metadata.create_index([("crawl", 1), ("url_hash", 1)], unique=True)
    compress = compressor("zstd")

    async def insert(page: Page) -> None:
        documents = documents_of(page, "zstd", compress)
        assert documents.content is not None
        await content.insert_one(bson.decode(documents.content))
        await metadata.insert_one(bson.decode(documents.metadata))

    given = iter(list(pages(count, "singles")))
    started_s = perf_counter()
    await _all(given, insert)
    return count / (perf_counter() - started_s)


def measure(quick: bool) -> Iterator[Figure]:
    with private_mongo() as mongo:
        yield from asyncio.run(_measure(mongo, quick))


if __name__ == "__main__":
    sys.exit(run("benchmarks.store", __doc__, {"store": measure}))
