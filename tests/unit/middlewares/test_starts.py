"""Start requests are marked, and nothing else is touched."""

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request

from crawler.middlewares.scrapy_twins import Starts


async def start() -> AsyncIterator[Any]:
    yield Request("http://h.test/")
    yield Request("http://h.test/", meta={"is_start_request": False})
    yield {"an": "item"}


async def test_requests_of_start_are_marked() -> None:
    marked, decided, item = [output async for output in Starts().process_start(start())]
    assert marked.meta == {"is_start_request": True}
    assert decided.meta == {"is_start_request": False}
    assert item == {"an": "item"}


def test_the_output_of_callbacks_passes_by() -> None:
    assert not hasattr(Starts, "process_spider_output")
