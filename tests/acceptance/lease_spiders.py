"""Spiders that end their requests in every way there is; run by lease_runs.py, one crawl each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider, DontCloseSpider, DropItem, IgnoreRequest
from scrapy.http import HtmlResponse, Response

SPIDERS: list[type[Spider]] = []
_HERE = "tests.acceptance.lease_spiders"


class Scenario(Spider):
    """Crawls its own host, `<name>.test`."""

    name = ""
    start_paths = ("/",)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.start_urls = [cls.url(path) for path in cls.start_paths]
        SPIDERS.append(cls)

    @classmethod
    def url(cls, path: str) -> str:
        return f"http://{cls.name}.test{path}"

    def leaf(self, response: Response) -> Iterator[Any]:
        yield {"leaf": response.url}

    def parse(self, response: Response) -> Any:
        return self.leaf(response)


# --- what callbacks may return ------------------------------------------------------------------


class Nothing(Scenario):
    name = "nothing"

    def parse(self, response: Response) -> None:
        return None


class SeveralItems(Scenario):
    name = "several-items"

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(5):
            yield {"number": number}


class YieldsNone(Scenario):
    name = "yields-none"

    def parse(self, response: Response) -> Iterator[Any]:
        yield None
        yield {"number": 1}
        yield None


class OneItem(Scenario):
    name = "one-item"

    def parse(self, response: Response) -> Any:
        return {"number": 1}


class RequestsOnly(Scenario):
    name = "requests-only"

    def parse(self, response: Response) -> Iterator[Any]:
        for path in "abc":
            yield Request(self.url(f"/{path}"), callback=self.leaf)


class ManyRequests(Scenario):
    name = "many-requests"
    options = {"max_pages": 3}  # noqa: RUF012

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(5000):
            yield Request(self.url(f"/page/{number}"), callback=self.leaf)


class PlainList(Scenario):
    name = "plain-list"

    def parse(self, response: Response) -> Any:
        return [{"number": 1}, Request(self.url("/a"), self.leaf)]


class AsyncGenerator(Scenario):
    name = "async-generator"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"number": 1}
        await asyncio.sleep(0.01)
        yield Request(self.url("/a"), self.leaf)


class Coroutine(Scenario):
    name = "coroutine"

    async def parse(self, response: Response) -> Any:
        await asyncio.sleep(0.01)
        return [{"number": 1}, Request(self.url("/a"), self.leaf)]


# --- callbacks that fail ------------------------------------------------------------------------


class RaisesAtOnce(Scenario):
    name = "raises-at-once"

    def parse(self, response: Response) -> Any:
        raise ValueError("no")


class RaisesInTheMiddle(Scenario):
    name = "raises-in-the-middle"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"number": 1}
        yield Request(self.url("/child"), self.leaf)
        raise ValueError("no")


class RaisesOnce(Scenario):
    name = "raises-once"
    raised = False

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.url("/child"), self.leaf)
        if not self.raised:
            self.raised = True
            raise ValueError("no")


class RaisesInCoroutine(Scenario):
    name = "raises-in-coroutine"

    async def parse(self, response: Response) -> Any:
        await asyncio.sleep(0.01)
        raise ValueError("no")


class Closes(Scenario):
    name = "closes"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.url("/later"), self.leaf)
        yield {"number": 1}
        raise CloseSpider("enough")


class ClosesAtOnce(Scenario):
    name = "closes-at-once"

    def parse(self, response: Response) -> Any:
        raise CloseSpider("enough")


class AsksAgain(Scenario):
    name = "asks-again"

    def parse(self, response: Response) -> Iterator[Any]:
        again = get_retry_request(response.request, spider=self, reason="x", max_retry_times=2)
        if again is not None:
            yield again
        else:
            yield {"tries": 3}


class SameRequest(Scenario):
    """Yields the very object that its response came from."""

    name = "same-request"
    times = 0

    def parse(self, response: Response) -> Iterator[Any]:
        self.times += 1
        if self.times < 3:
            response.request.dont_filter = True
            yield response.request
        yield {"time": self.times}


# --- pipelines ----------------------------------------------------------------------------------


class Dropping:
    def process_item(self, item: Any) -> Any:
        raise DropItem("not this one")


class Raising:
    def process_item(self, item: Any) -> Any:
        raise ValueError("no")


class Slow:
    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0.2)
        return item


class DropsItems(SeveralItems):
    name = "drops-items"
    custom_settings = {"ITEM_PIPELINES": {f"{_HERE}.Dropping": 1}}  # noqa: RUF012


class PipelineRaises(SeveralItems):
    name = "pipeline-raises"
    custom_settings = {"ITEM_PIPELINES": {f"{_HERE}.Raising": 1}}  # noqa: RUF012


class SlowPipeline(SeveralItems):
    name = "slow-pipeline"
    custom_settings = {"ITEM_PIPELINES": {f"{_HERE}.Slow": 1}}  # noqa: RUF012


# --- errbacks -----------------------------------------------------------------------------------


class Errback(Scenario):
    """Two failures with an errback: an error status, and a host that does not answer."""

    name = "errback-yields"
    custom_settings = {"RETRY_TIMES": 0}  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/status/404"), errback=self.on_error)
        refused = f"http://{self.name}.refused/"
        yield Request(refused, errback=self.on_error, meta={"dont_obey_robotstxt": True})

    def on_error(self, failure: Any) -> Any:
        kind = "status" if hasattr(failure.value, "response") else "refused"
        yield {"failed": kind}
        yield Request(self.url(f"/after/{kind}"), self.leaf)


class ErrbackAsync(Errback):
    name = "errback-async"

    async def on_error(self, failure: Any) -> Any:
        await asyncio.sleep(0.01)
        return list(super().on_error(failure))


class ErrbackAsyncGenerator(Errback):
    name = "errback-async-generator"

    async def on_error(self, failure: Any) -> Any:
        await asyncio.sleep(0.01)
        for output in super().on_error(failure):
            yield output


class ErrbackOne(Errback):
    name = "errback-one"

    def on_error(self, failure: Any) -> Any:
        return list(super().on_error(failure))[1]


class ErrbackNone(Errback):
    name = "errback-none"

    def on_error(self, failure: Any) -> None:
        return None


class ErrbackRaises(Errback):
    name = "errback-raises"

    def on_error(self, failure: Any) -> Any:
        raise ValueError("no")


class ErrbackRaisesLater(Errback):
    name = "errback-raises-later"

    def on_error(self, failure: Any) -> Any:
        yield from super().on_error(failure)
        raise ValueError("no")


# --- statuses and redirects ---------------------------------------------------------------------


class Statuses(Scenario):
    name = "statuses"
    start_paths = ("/status/404", "/status/500")


class StatusesHandled(Scenario):
    name = "statuses-handled"
    handle_httpstatus_list = [404]  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/status/404"))
        yield Request(self.url("/status/500"), meta={"handle_httpstatus_list": [500]})


class Redirects(Scenario):
    name = "redirects"
    custom_settings = {"REDIRECT_MAX_TIMES": 3}  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/to/target"), callback=self.leaf)
        yield Request(self.url("/chain/1"), callback=self.leaf)
        yield Request(self.url("/ping"), callback=self.leaf)
        yield Request(self.url("/to/other-host"), callback=self.leaf)


class RedirectsForced(Scenario):
    """A loop of requests that no filter stops."""

    name = "redirects-forced"
    custom_settings = {"REDIRECT_MAX_TIMES": 3}  # noqa: RUF012

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/"), callback=self.parse)

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.url("/ping"), callback=self.leaf, dont_filter=True)


class RedirectsOffsite(Scenario):
    name = "redirects-offsite"
    allowed_domains = ["redirects-offsite.test"]  # noqa: RUF012
    start_paths = ("/to/offsite", "/here")

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request("http://elsewhere.test/", self.leaf)
        yield Request(self.url("/child-offsite"), self.leaf)


# --- downloader middlewares ---------------------------------------------------------------------


class Meddler:
    """Does to /bad what the spider says."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> Meddler:
        return cls(crawler)

    def process_request(self, request: Request) -> Any:
        if not request.url.endswith("/bad"):
            return None
        how = self.crawler.spider.how
        if how == "raise":
            raise ValueError("no")
        if how == "ignore":
            raise IgnoreRequest("no")
        if how == "answer":
            return HtmlResponse(request.url, body=b"mine", encoding="utf-8")
        if how == "replace":
            return request.replace(url=request.url.replace("/bad", "/instead"))
        if how == "new":
            return Request(request.url.replace("/bad", "/instead"))
        return None

    def process_response(self, request: Request, response: Response) -> Any:
        if request.url.endswith("/bad") and self.crawler.spider.how == "raise-response":
            raise ValueError("no")
        return response


class Meddled(Scenario):
    """Three URLs of one host: the slot of the first must be free again for the others."""

    name = "middleware-raises"
    how = "raise"
    start_paths = ("/bad", "/good/1", "/good/2")
    custom_settings = {  # noqa: RUF012
        "DOWNLOADER_MIDDLEWARES": {f"{_HERE}.Meddler": 543},
        "LEASE_TTL": 2.5,
    }


class MeddledResponse(Meddled):
    name = "middleware-raises-on-response"
    how = "raise-response"


class MeddledIgnore(Meddled):
    name = "middleware-ignores"
    how = "ignore"


class MeddledAnswer(Meddled):
    name = "middleware-answers"
    how = "answer"


class MeddledReplace(Meddled):
    name = "middleware-replaces"
    how = "replace"


class MeddledNew(Meddled):
    name = "middleware-gives-a-new-one"
    how = "new"


# --- spider middlewares -------------------------------------------------------------------------


class RefusesInput:
    def process_spider_input(self, response: Response) -> None:
        raise ValueError("no")


class InputRefused(Scenario):
    name = "input-refused"
    custom_settings = {"SPIDER_MIDDLEWARES": {f"{_HERE}.RefusesInput": 543}}  # noqa: RUF012


class InputRefusedErrback(InputRefused):
    name = "input-refused-errback"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/"), errback=self.on_error)

    def on_error(self, failure: Any) -> Iterator[Any]:
        yield {"failed": "input"}
        yield Request(self.url("/after"))


class Recovers:
    def process_spider_exception(self, response: Response, exception: Exception) -> Any:
        return [{"recovered": response.url}]


class Recovered(RaisesInTheMiddle):
    name = "recovered"
    custom_settings = {"SPIDER_MIDDLEWARES": {f"{_HERE}.Recovers": 543}}  # noqa: RUF012


# --- requests that cannot travel, limits --------------------------------------------------------


class NotCarried(Scenario):
    name = "not-carried"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.url("/meta"), meta={"thing": object()})
        yield Request(self.url("/kwargs"), cb_kwargs={"thing": {1: 2}})
        yield Request(self.url("/lambda"), callback=lambda response: None)
        yield Request(self.url("/good"), self.leaf, meta={"thing": [1, "two", b"3", {"4": None}]})


class NotCarriedStart(Scenario):
    name = "not-carried-start"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.url("/meta"), meta={"thing": object()})
        yield Request(self.url("/good"), self.leaf)


class Fan(Scenario):
    """Ten hosts at once."""

    name = "fan"

    async def start(self) -> AsyncIterator[Any]:
        for number in range(10):
            yield Request(f"http://{number}.{self.name}.test/")


class PageCount(Fan):
    name = "page-count"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 2}  # noqa: RUF012


class ItemCount(Fan):
    name = "item-count"
    custom_settings = {"CLOSESPIDER_ITEMCOUNT": 2}  # noqa: RUF012


class TimeOut(Scenario):
    name = "time-out"
    custom_settings = {"CLOSESPIDER_TIMEOUT": 2}  # noqa: RUF012
    start_paths = tuple(f"/slow/{number}" for number in range(10))


class AsksWhenIdle(Scenario):
    """Has more work when nothing is left, as spiders that read from a queue do."""

    name = "asks-when-idle"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.more = ["/second", "/third"]
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def idle(self) -> None:
        if self.more:
            self.crawler.engine.crawl(Request(self.url(self.more.pop())))
            raise DontCloseSpider


class DepthLimit(Scenario):
    name = "depth-limit"
    custom_settings = {"DEPTH_LIMIT": 2}  # noqa: RUF012
    start_paths = ("/1",)

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(self.url(f"/{int(response.url.rpartition('/')[2]) + 1}"))
        yield {"depth": response.meta["depth"]}
