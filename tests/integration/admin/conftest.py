from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.admin.api import Api, open_api


@pytest.fixture
async def api(redis_client: Any) -> AsyncIterator[Api]:
    opened = await open_api(redis_client)
    yield opened
    await opened.http.aclose()
