"""Scrapy's engine: the output of a callback is taken in turn, and there is room for fetches."""

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.core.scraper import Slot
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError
from crawler.scheduling.engine import Engine
from tests.support.crawlers import project_crawler


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


# --- room for fetches -----------------------------------------------------------------------------


class Wakes:
    """Scrapy's `nextcall`: it writes down how often the engine is to ask for requests."""

    def __init__(self) -> None:
        self.count = 0

    def schedule(self) -> None:
        self.count += 1


class RunningEngine:
    """Scrapy's engine as far as its room is concerned; the downloader is Scrapy's own."""

    def __init__(self, crawler: Crawler) -> None:
        self.downloader = Downloader(crawler)
        self.scraper = SimpleNamespace(slot=Slot())
        self.paused = False
        self._slot = SimpleNamespace(closing=None, nextcall=Wakes())


def running(concurrency: int) -> tuple[Crawler, Engine, Any]:
    """A crawl with so many fetches at a time, its engine as the scheduler sees it, and as it is."""
    crawler = project_crawler(CONCURRENT_REQUESTS=concurrency, DOWNLOADER_MIDDLEWARES={})
    engine: Any = RunningEngine(crawler)
    crawler.engine = engine
    return crawler, Engine(crawler, concurrency), engine


async def test_a_page_that_is_rendered_leaves_its_place_to_another_fetch() -> None:
    crawler, ours, engine = running(2)
    downloader = engine.downloader
    downloader.active |= {Request("http://h.test/1"), Request("http://h.test/2")}
    assert ours.room() == 0
    assert downloader.needs_backout()
    with Engine.not_fetching(crawler):
        assert ours.room() == 1
        assert not downloader.needs_backout()
        # The engine fills the place at once.
        assert engine._slot.nextcall.count == 1
        with Engine.not_fetching(crawler):
            assert ours.room() == 2
        assert ours.room() == 1
        downloader.active.add(Request("http://h.test/3"))
        assert ours.room() == 0
    # One more than there are places, until one of them ends.
    assert ours.room() == -1
    assert downloader.needs_backout()


async def test_the_place_of_a_page_that_cannot_be_rendered_is_given_back() -> None:
    crawler, ours, _ = running(2)

    def fail() -> None:
        with Engine.not_fetching(crawler):
            raise KeyError("a browser")

    with pytest.raises(KeyError, match="a browser"):
        fail()
    assert ours.room() == 2


async def test_after_a_shortage_of_sockets_pages_that_are_rendered_take_no_place_either() -> None:
    crawler, ours, engine = running(4)
    engine.downloader.active |= {Request(f"http://h.test/{number}") for number in range(4)}
    ours.run_fewer(OSError("too many open files"))
    assert ours.room() == -4
    with Engine.not_fetching(crawler):
        assert ours.room() == -3


async def test_an_engine_that_closes_or_waits_has_no_room() -> None:
    crawler, ours, engine = running(2)
    engine.paused = True
    with Engine.not_fetching(crawler):
        assert ours.room() == 0
    engine._slot = None
    with Engine.not_fetching(crawler):
        assert ours.room() is None
