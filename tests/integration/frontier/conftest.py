"""The same tests of the verbs on one server, the oldest one and a cluster of three masters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.frontier import CrawlControl, Frontier
from crawler.servers.redis.connection import connect
from tests.integration.frontier.fleet import Place

_URLS = {"server": "redis_url", "oldest": "oldest_redis_url", "cluster": "redis_cluster_url"}


@pytest.fixture(params=_URLS)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    client = await connect(request.getfixturevalue(_URLS[request.param]))
    yield Place(client, 12 if request.param == "cluster" else 1)
    await client.aclose()


@pytest.fixture
async def frontier(place: Place) -> Frontier:
    """A registered instance of an empty crawl."""
    return await place.instance()


@pytest.fixture
async def control(frontier: Frontier, place: Place) -> CrawlControl:
    return await place.control()
