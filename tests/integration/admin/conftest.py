from collections.abc import AsyncIterator
from typing import Any

import pytest

from crawler.servers.redis.connection import connect
from tests.integration.admin.api import Api, open_api


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Any]:
    client = await connect(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
async def api(redis: Any) -> AsyncIterator[Api]:
    opened = await open_api(redis)
    yield opened
    await opened.http.aclose()
