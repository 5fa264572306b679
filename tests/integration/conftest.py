"""A crawler whose pages go to a database of the test's own, and that database."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler

from crawler.servers.connections import Servers
from tests.support.crawlers import project_crawler

Database = AsyncDatabase[dict[str, Any]]


@pytest.fixture
async def crawler(mongo_uri: str, mongo_db_name: str) -> AsyncIterator[Crawler]:
    crawler = project_crawler(MONGO_URI=mongo_uri, MONGO_DATABASE=mongo_db_name)
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    yield crawler
    await Servers.of(crawler).close()


@pytest.fixture
async def database(mongo_uri: str, mongo_db_name: str) -> AsyncIterator[Database]:
    async with AsyncMongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as client:
        yield client[mongo_db_name]
