"""Output of callbacks goes the short way where nobody else is in it, and means the same."""

import asyncio
from collections.abc import AsyncIterator
from inspect import isawaitable
from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from crawler.fastpath.middleware_chains import QuickSpiderMiddlewares
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"


class Watching:
    """A project's own, for output."""

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        async for output in result:
            yield output


class Saving:
    """A project's own, for exceptions."""

    def process_spider_exception(self, response: Response, exception: Exception) -> list[Any]:
        return ["saved"]


class Chain:
    """One with Scrapy's depth and our leases, and what they do with the output of a callback."""

    def __init__(self, *, middlewares: dict[Any, int] | None = None, **settings: Any) -> None:
        self.scheduler = WritingScheduler()
        ours = {"crawler.middlewares.leases.Leases": 10}
        crawler = crawler_with(
            self.scheduler, SPIDER_MIDDLEWARES={**ours, **(middlewares or {})}, **settings
        )
        crawler.spider = self.scheduler._spider = crawler._create_spider("a")
        self.stats: Any = crawler.stats
        self._signals = crawler.signals
        self._manager = SpiderMiddlewareManager.from_crawler(crawler)
        QuickSpiderMiddlewares.take_over(self._manager)
        self.is_quick = isinstance(self._manager, QuickSpiderMiddlewares)

    async def outputs(self, callback: Any, *, depth: int = 1) -> list[Any]:
        request = Request(URL, meta={LEASE: lease_of(URL), "depth": depth})
        response = self.response = Response(URL, request=request)

        async def call(*_: Any) -> Any:
            found = callback()
            return await found if isawaitable(found) else found

        try:
            found = await self._manager.scrape_response_async(call, response, request)
            return [output async for output in found]
        except asyncio.CancelledError as error:
            # As RequestTasks does.
            self._signals.send_catch_log(
                signals.spider_error, failure=Failure(error), response=response
            )
            raise

    def scraped(self, item: Any) -> None:
        """Say of an item of the last response what Scrapy says when pipelines have taken it."""
        self._signals.send_catch_log(signals.item_scraped, item=item, response=self.response)


NO_OTHERS: dict[Any, Any] = {
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,
}


async def links() -> AsyncIterator[Any]:
    yield Request("http://h.test/b")
    yield {"an": "item"}
    yield Request("http://h.test/c", meta={"depth_reset": True})


async def nothing_and_an_item() -> AsyncIterator[Any]:
    yield None
    yield {"an": "item"}
    yield None


async def failing() -> AsyncIterator[Any]:
    yield Request("http://h.test/b")
    raise ValueError("in the callback")


async def ignoring() -> AsyncIterator[Any]:
    for nothing in ():
        yield nothing
    raise HttpError(Response(URL), "ignored")


@pytest.mark.parametrize(
    ("middlewares", "is_quick"),
    [
        (NO_OTHERS, True),
        ({}, False),
        ({**NO_OTHERS, Watching: 500}, False),
        ({**NO_OTHERS, Saving: 500}, False),
    ],
)
async def test_the_short_way_is_for_chains_without_others(
    middlewares: dict[Any, int], is_quick: bool
) -> None:
    chain = Chain(middlewares=middlewares)
    assert chain.is_quick == is_quick
    assert await chain.outputs(links) == [{"an": "item"}]
    assert [(entry.url, entry.depth) for entry in chain.scheduler.added] == [
        ("http://h.test/b", 2),
        ("http://h.test/c", 0),
    ]
    assert chain.stats.get_value("request_depth_max") == 2


@pytest.mark.parametrize("middlewares", [NO_OTHERS, {**NO_OTHERS, Watching: 500}])
async def test_a_callback_that_gives_nothing_now_and_then_leaves_no_lease_open(
    middlewares: dict[Any, int],
) -> None:
    chain = Chain(middlewares=middlewares)
    [item] = await chain.outputs(nothing_and_an_item)
    assert chain.scheduler.calls == []
    chain.scraped(item)
    assert [call[0] for call in chain.scheduler.calls] == ["done"]


async def test_requests_that_are_too_deep_are_left_out_and_counted() -> None:
    chain = Chain(middlewares=NO_OTHERS, DEPTH_LIMIT=1)
    assert chain.is_quick
    await chain.outputs(links)
    assert [entry.url for entry in chain.scheduler.added] == ["http://h.test/c"]
    assert chain.stats.get_value("depth/request_ignored_count") == 1


@pytest.mark.parametrize("middlewares", [NO_OTHERS, {**NO_OTHERS, Watching: 500}])
async def test_an_error_in_a_callback_is_raised_and_fails_the_lease(
    middlewares: dict[Any, int],
) -> None:
    chain = Chain(middlewares=middlewares)
    with pytest.raises(ValueError, match="in the callback"):
        await chain.outputs(failing)
    assert [call[0] for call in chain.scheduler.calls] == ["fail"]


async def waiting_in_vain() -> AsyncIterator[Any]:
    yield Request("http://h.test/b")
    raise asyncio.CancelledError


async def waiting_in_vain_at_once() -> list[Any]:
    raise asyncio.CancelledError


@pytest.mark.parametrize("callback", [waiting_in_vain, waiting_in_vain_at_once])
async def test_a_callback_that_waited_for_what_was_cancelled_fails_the_lease(callback: Any) -> None:
    chain = Chain(middlewares=NO_OTHERS)
    with pytest.raises(asyncio.CancelledError):
        await chain.outputs(callback)
    ((verb, url, decision),) = chain.scheduler.calls
    assert (verb, url, decision.reason) == ("fail", URL, "callback_error_CancelledError")


@pytest.mark.parametrize("middlewares", [NO_OTHERS, {**NO_OTHERS, Watching: 500}])
async def test_a_callback_that_ignores_its_response_ends_well(middlewares: dict[Any, int]) -> None:
    chain = Chain(middlewares=middlewares)
    assert await chain.outputs(ignoring) == []
    # Scrapy's own way asks once more, when the lease is settled.
    assert {call[0] for call in chain.scheduler.calls} == {"done"}
