"""The same tests of the verbs on one server and on a cluster of three masters."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from crawler.frontier import Frontier, Steering
from crawler.frontier.connection import connect
from tests.integration.frontier.fleet import Place


@pytest.fixture(params=["server", "cluster"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    cluster = request.param == "cluster"
    url = request.getfixturevalue("redis_cluster_url" if cluster else "redis_url")
    client = await connect(url)
    yield Place(client, 12 if cluster else 1)
    await client.aclose()


@pytest.fixture
async def frontier(place: Place) -> Frontier:
    """A registered instance of an empty crawl."""
    return await place.instance()


@pytest.fixture
async def steering(frontier: Frontier, place: Place) -> Steering:
    return await place.steering()
