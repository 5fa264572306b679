"""What Scrapy's engine does with the output of a callback, taken in turn."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.scheduling.engine import Engine


class Scraper:
    """As much of Scrapy's as is needed: it writes down what comes."""

    def __init__(self, concurrent_items: int) -> None:
        self.concurrent_items = concurrent_items
        self.done: list[Any] = []
        self.errors: list[str] = []

    async def handle_spider_output_async(self, result: Any, request: Any, response: Any) -> None:
        self.done.append("Scrapy's own")

    def handle_spider_error(self, failure: Any, request: Any, response: Any) -> None:
        self.errors.append(str(failure.value))

    async def _process_spidermw_output_async(self, output: Any, response: Any) -> None:
        self.done.append((output, response))


def taken(scraper: Scraper) -> Scraper:
    crawler: Any = SimpleNamespace(engine=SimpleNamespace(scraper=scraper))
    Engine.take_outputs_in_turn(crawler)
    return scraper


async def generated() -> AsyncIterator[int]:
    yield 1
    yield 2
    raise ValueError("then an error")


def listed() -> Iterator[int]:
    yield 1
    yield 2
    raise ValueError("then an error")


@pytest.mark.parametrize("output", [generated, listed])
async def test_outputs_are_handled_in_order_and_errors_told(output: Any) -> None:
    scraper = taken(Scraper(1))
    await scraper.handle_spider_output_async(output(), "request", "response")
    assert scraper.done == [(1, "response"), (2, "response")]
    assert scraper.errors == ["then an error"]


async def test_where_items_may_be_handled_at_the_same_time_scrapy_does_it() -> None:
    scraper = taken(Scraper(2))
    await scraper.handle_spider_output_async(listed(), "request", "response")
    assert scraper.done == ["Scrapy's own"]


def test_without_a_number_of_fetches_there_would_be_none() -> None:
    crawler: Any = SimpleNamespace()
    with pytest.raises(ConfigurationError, match="CONCURRENT_REQUESTS is 0; set it to 1 or more"):
        Engine(crawler, 0)
