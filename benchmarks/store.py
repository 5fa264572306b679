"""How fast do pages get into MongoDB and out of it, beside single inserts?

Pages of 26 KB with 60 links go through the store pipeline into a private embedded mongod, with the
write concern of a crawl (in the journal before a page counts). The peer inserts the same documents
one at a time with the same client and concern, and twice as many at once as a crawl has fetches.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from statistics import median
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import bson
from pymongo import WriteConcern
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from benchmarks.command import run
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.links import page as html
from benchmarks.servers import private_mongo
from crawler import settings as ours
from crawler.items import Page
from crawler.parsing.reader import DocumentReader, HtmlReader
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.mongo.sink import compressor, documents_of

_CONCURRENT = 128
_DIFFERENT = 24
_PAGES, _SINGLE, _LOOKS = 10_000, 2_000, 1_000
_TARGET_PAGES_S, _TARGET_FIND_MS = 1_000, 2.0


def pages(count: int, database: str) -> Iterator[Page]:
    """As the spider makes them."""
    reader = DocumentReader(HtmlReader(max_links=6000), max_links=6000)
    url = "http://www.words.example/library/page"
    bodies = [html(number) for number in range(_DIFFERENT)]
    read = [reader.read(body, url, content_type="text/html; charset=utf-8") for body in bodies]
    for number in range(count):
        body, document = bodies[number % _DIFFERENT], read[number % _DIFFERENT]
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


async def _measure(uri: str, quick: bool) -> list[Figure]:
    count, single, looks = (n // 10 if quick else n for n in (_PAGES, _SINGLE, _LOOKS))
    async with _store(uri, "batches") as (store, servers):
        given = iter(list(pages(count, "batches")))
        started_s, cpu_s = perf_counter(), process_time()
        await _all(given, store.process_item)
        pages_s = count / (perf_counter() - started_s)
        cpu_ms = (process_time() - cpu_s) / count * 1000
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
    return [
        Figure(
            "store.pages_per_s",
            pages_s,
            "pages/s",
            "single inserts",
            pages_s / singles_s,
            target=at_least(_TARGET_PAGES_S),
        ),
        Figure("store.cpu_ms_per_page", cpu_ms, "ms"),
        Figure("store.find_ms", median(times) * 1000, "ms", target=at_most(_TARGET_FIND_MS)),
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
    with private_mongo() as uri:
        yield from asyncio.run(_measure(uri, quick))


if __name__ == "__main__":
    sys.exit(run("benchmarks.store", __doc__, {"store": measure}))
