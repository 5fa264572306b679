"""Both event loops that a crawl may have: their transports differ where it matters."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from crawler.download.handler import DownloadHandler
from tests.support.http_server import handler_with


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def handler() -> AsyncIterator[DownloadHandler]:
    async with handler_with() as handler:
        yield handler
