"""A real redis-server and mongod for tests: one of each per test worker, empty for each test.

async def test_something(redis_url: str) -> None: ...
async def test_something(mongo_uri: str, mongo_db_name: str) -> None: ...
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pymongo
import pytest
import redis

from crawler.servers.embedded import EmbeddedServers
from crawler.servers.redis.connection import Client, connect


@pytest.fixture(scope="session")
def embedded_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServers]:
    servers = EmbeddedServers(tmp_path_factory.mktemp("servers"))
    yield servers
    servers.release()


@pytest.fixture(scope="session")
def redis_server(embedded_servers: EmbeddedServers) -> str:
    """The URL of this worker's Redis, with whatever earlier tests left in it."""
    return embedded_servers.redis_url()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis: no keys, no scripts, default settings."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
        client.script_flush()
    return redis_server


@pytest.fixture(scope="session")
def mongo_server(embedded_servers: EmbeddedServers) -> str:
    return embedded_servers.mongo_uri()


@pytest.fixture
def mongo_uri(mongo_server: str) -> str:
    """The URI of this worker's MongoDB; use the database `mongo_db_name` in it."""
    return mongo_server


@pytest.fixture
def mongo_db_name(mongo_server: str) -> Iterator[str]:
    """The name of a database of the test's own; dropped afterwards."""
    name = f"test_{uuid4().hex}"
    yield name
    with pymongo.MongoClient[dict[str, Any]](mongo_server) as client:
        client.drop_database(name)


@pytest.fixture
async def redis_client(redis_url: str) -> AsyncIterator[Client]:
    """A connection to an empty Redis, as the crawler's own parts get it."""
    client = await connect(redis_url)
    yield client
    await client.aclose()
