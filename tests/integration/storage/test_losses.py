"""Stores that were dropped or made anew, and frontiers that do not know their pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pymongo
import pytest
from pymongo import AsyncMongoClient

from crawler.errors import DataLost
from crawler.frontier.stores import KnownStores
from crawler.items import Page
from crawler.servers.redis.connection import Client
from crawler.storage.losses import Losses
from crawler.storage.mongo.schema import METADATA
from crawler.storage.mongo.sink import MongoSink
from crawler.storage.postgres.sink import PostgresSink
from crawler.storage.sink import Sink

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CRAWL = "shop"


class Store:
    """A store of pages that can be dropped."""

    def __init__(self, mongo_uri: str, database: str, postgres_url: str) -> None:
        self._mongo = mongo_uri, database
        self._postgres = postgres_url

    async def sink(self) -> Sink:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def drop(self) -> None:
        raise NotImplementedError

    def drop_pages(self) -> None:
        raise NotImplementedError


class _Mongo(Store):
    async def sink(self) -> Sink:
        uri, database = self._mongo
        self._client = AsyncMongoClient[dict[str, Any]](uri)

        async def connect() -> AsyncMongoClient[dict[str, Any]]:
            return self._client

        return MongoSink(
            connect, database, crawl=CRAWL, codec="none", concern={"w": 1}, timeout_s=20.0
        )

    async def close(self) -> None:
        await self._client.close()

    def drop(self) -> None:
        uri, database = self._mongo
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            client.drop_database(database)

    def drop_pages(self) -> None:
        uri, database = self._mongo
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            client[database].drop_collection(METADATA)


class _Postgres(Store):
    async def sink(self) -> Sink:
        return PostgresSink(self._postgres, timeout_s=20.0)

    def drop(self) -> None:
        self._execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def drop_pages(self) -> None:
        self._execute("DROP TABLE crawled_urls CASCADE")

    def _execute(self, statements: str) -> None:
        with psycopg.connect(self._postgres) as connection:
            connection.execute(statements)


@pytest.fixture(params=[_Mongo, _Postgres])
def store(
    request: pytest.FixtureRequest, mongo_uri: str, mongo_db_name: str, postgres_url: str
) -> Store:
    found: Store = request.param(mongo_uri, mongo_db_name, postgres_url)
    return found


@pytest.fixture
async def sink(store: Store) -> AsyncIterator[Sink]:
    sink = await store.sink()
    await sink.open()
    yield sink
    await sink.close()
    await store.close()


async def begun() -> bool:
    return True


async def not_begun() -> bool:
    return False


async def write(sink: Sink) -> None:
    page = Page("http://a.test/", "http://a.test/", 200, AT, CRAWL, content_hash="c1")
    await sink.write([sink.prepare(page)])


def losses(redis_client: Client, sink: Sink) -> Losses:
    return Losses(CRAWL, KnownStores(redis_client, CRAWL), {"pages": sink})


async def test_nothing_is_lost_while_pages_are_written(redis_client: Client, sink: Sink) -> None:
    first, later = losses(redis_client, sink), losses(redis_client, sink)
    await first.check_start(not_begun)
    await write(sink)
    # Another process, before and after the first URL is done.
    await later.check_start(not_begun)
    await later.check_start(begun)
    assert await first.found() == await later.found() == ""


async def test_a_store_that_is_dropped_is_noticed(
    redis_client: Client, sink: Sink, store: Store
) -> None:
    running = losses(redis_client, sink)
    await running.check_start(not_begun)
    await write(sink)
    store.drop()
    assert f"{sink.store_name} has lost pages of the crawl 'shop'" in await running.found()
    # Another process has made the tables anew.
    await sink.open()
    assert "was dropped or made anew while the crawl ran" in await running.found()


async def test_pages_that_are_dropped_alone_are_noticed(
    redis_client: Client, sink: Sink, store: Store
) -> None:
    running = losses(redis_client, sink)
    await running.check_start(not_begun)
    store.drop_pages()
    if store.__class__ is _Mongo:
        # MongoDB makes the collection anew with the next page.
        await write(sink)
    assert "has lost pages" in await running.found()


async def test_a_crawl_does_not_go_on_with_another_store(
    redis_client: Client, sink: Sink, store: Store
) -> None:
    await losses(redis_client, sink).check_start(not_begun)
    store.drop()
    await sink.open()
    with pytest.raises(DataLost, match=r"stored its pages elsewhere.*Restore a backup"):
        await losses(redis_client, sink).check_start(begun)
    # A crawl without a page has lost none.
    await losses(redis_client, sink).check_start(not_begun)
    await losses(redis_client, sink).check_start(begun)


async def test_a_frontier_that_does_not_know_the_pages_is_not_used(
    redis_client: Client, sink: Sink
) -> None:
    known = KnownStores(redis_client, CRAWL)
    await losses(redis_client, sink).check_start(not_begun)
    await write(sink)
    await redis_client.flushdb()
    with pytest.raises(DataLost, match="scrapy frontier rebuild --crawl shop"):
        await losses(redis_client, sink).check_start(not_begun)
    # One that an earlier version began has pages, and noted no store.
    await losses(redis_client, sink).check_start(begun)
    await redis_client.flushdb()
    await known.begin_anew()
    await losses(redis_client, sink).check_start(not_begun)


async def test_nobody_crawls_while_the_frontier_is_made_anew(
    redis_client: Client, sink: Sink
) -> None:
    known = KnownStores(redis_client, CRAWL)
    await known.begin_rebuild()
    with pytest.raises(DataLost, match="is being made anew, or that was interrupted"):
        await losses(redis_client, sink).check_start(begun)
    await known.end_rebuild()
    await losses(redis_client, sink).check_start(begun)


async def test_a_store_that_does_not_answer_has_lost_nothing(redis_client: Client) -> None:
    class Silent(Sink):
        async def open(self) -> None: ...
        async def close(self) -> None: ...
        async def write(self, batch: Any) -> None: ...

        answers = True

        async def identity(self) -> str:
            if not self.answers:
                raise ConnectionError("nobody listens")
            return "made at noon"

    sink = Silent()
    running = losses(redis_client, sink)
    await running.check_start(begun)
    sink.answers = False
    assert await running.found() == ""
