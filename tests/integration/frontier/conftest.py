"""The same tests of the verbs on one server, the oldest one and a cluster of three masters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.frontier import CrawlControl, Frontier
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import Place

# The fixture with the address of each, and the number of shards; older crawls may have one.
_PLACES = {
    "server": ("redis_url", 4),
    "oldest": ("oldest_redis_url", 1),
    "cluster": ("redis_cluster_url", 12),
}


@pytest.fixture(params=_PLACES)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    fixture, shards = _PLACES[request.param]
    client = await connect(request.getfixturevalue(fixture))
    yield Place(client, shards)
    await client.aclose()


@pytest.fixture
async def frontier(place: Place) -> Frontier:
    """A registered instance of an empty crawl."""
    return await place.instance()


@pytest.fixture
async def control(frontier: Frontier, place: Place) -> CrawlControl:
    return await place.control()
