"""A crawl in which each request has one task is the crawl that Scrapy would make."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadFailedError, DropItem, IgnoreRequest
from scrapy.http import HtmlResponse, Response
from scrapy.utils.test import get_crawler

from crawler.fastpath import middleware_chains
from crawler.fastpath.request_task import RequestTasks
from crawler.scheduling.engine import Engine

SITE = "http://h.test"


class Web(BaseDownloadHandler):
    """Answers without a network."""

    lazy = True

    async def download_request(self, request: Request) -> Response:
        if request.url.endswith("/broken"):
            raise DownloadFailedError("broken")
        return HtmlResponse(request.url, body=b"<html></html>", status=200)

    async def close(self) -> None:
        pass


class Wishes:
    """A downloader middleware that does all that one may do."""

    async def process_request(self, request: Request) -> Response | Request | None:
        if request.url.endswith("/refused"):
            raise IgnoreRequest("refused")
        if request.url.endswith("/cached"):
            return HtmlResponse(request.url, body=b"cached")
        return None

    def process_response(self, request: Request, response: Response) -> Any:
        if request.url.endswith("/moved"):
            return request.replace(url=f"{SITE}/target")
        return 5 if request.url.endswith("/wrong") else response


class Strict:
    """An item pipeline."""

    def process_item(self, item: Any) -> Any:
        if item["url"].endswith("/dropped"):
            raise DropItem("dropped")
        if item["url"].endswith("/fatal"):
            raise ValueError("fatal")
        return item


class Changing:
    """Another, which answers later."""

    async def process_item(self, item: Any) -> Any:
        return {**item, "changed": True}


class Pages(Spider):
    name = "pages"
    paths = (
        *("links", "broken", "refused", "cached", "moved", "wrong", "dropped", "fatal"),
        *("raises", "raises-later", "none", "returns"),
    )

    async def start(self) -> AsyncIterator[Request]:
        for path in self.paths:
            yield Request(f"{SITE}/{path}", errback=self.failed)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        path = response.url.rpartition("/")[2]
        if path == "raises":
            raise ValueError("at once")
        if path == "none":
            return
        yield {"url": response.url}
        if path == "links":
            yield Request(f"{SITE}/linked", callback=self.parse_plainly)
            yield Request(f"{SITE}/slow", meta={"download_slot": "slow"})
            yield Request(f"{SITE}/slow-too", meta={"download_slot": "slow"})
        if path == "raises-later":
            raise ValueError("later")

    def parse_plainly(self, response: Response) -> list[Any]:
        return [{"url": response.url}, {"url": response.url}]

    def failed(self, failure: Any) -> Any:
        yield {"url": failure.request.url, "failed": type(failure.value).__name__}


class Recorder:
    """Writes down what each URL met, and makes the engine ours if it is told to."""

    def __init__(self, crawler: Crawler) -> None:
        self.met: dict[str, list[Any]] = defaultdict(list)
        self._crawler = crawler
        connect = crawler.signals.connect
        connect(self._started, signals.engine_started)
        for name in ("request_reached_downloader", "request_left_downloader"):
            connect(self._of_request(name), getattr(signals, name), weak=False)
        for name in ("response_downloaded", "response_received"):
            connect(self._of_request(name), getattr(signals, name), weak=False)
        for name in ("item_scraped", "item_dropped", "item_error"):
            connect(self._of_item(name), getattr(signals, name), weak=False)
        connect(self._error, signals.spider_error)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _started(self) -> None:
        # For both: Scrapy asks for the next output while it handles one.
        Engine.take_outputs_in_turn(self._crawler)
        if self._crawler.settings.getbool("OURS"):
            RequestTasks.take_over(self._crawler)
            middleware_chains.take_over(self._crawler)

    def _of_request(self, name: str) -> Any:
        def note(request: Request) -> None:
            self.met[request.url].append(name)

        return note

    def _of_item(self, name: str) -> Any:
        def note(item: dict[str, Any]) -> None:
            self.met[item["url"]].append((name, item.get("failed"), item.get("changed")))

        return note

    def _error(self, failure: Any, response: Response) -> None:
        self.met[response.url].append(("spider_error", type(failure.value).__name__))


async def crawled(spider: type[Spider] = Pages, *, ours: bool, **settings: Any) -> Crawler:
    crawler = get_crawler(
        spider,
        {
            "OURS": ours,
            "TWISTED_REACTOR_ENABLED": False,
            "CONCURRENT_ITEMS": 1,
            "DOWNLOAD_HANDLERS": {"http": Web},
            "DOWNLOADER_MIDDLEWARES": {Wishes: 950},
            "DOWNLOAD_SLOTS": {"slow": {"concurrency": 1, "delay": 0.01, "jitter": 0}},
            "ITEM_PIPELINES": {Strict: 1, Changing: 2},
            "EXTENSIONS": {Recorder: 1},
            "LOG_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            **settings,
        },
    )
    await crawler.crawl_async()
    return crawler


def met_of(crawler: Crawler) -> dict[str, list[Any]]:
    recorder = crawler.get_extension(Recorder)
    assert recorder is not None
    return dict(recorder.met)


def counts_of(crawler: Crawler) -> dict[str, Any]:
    assert crawler.stats is not None
    unsteady = ("time", "per_minute", "memusage", "log_count")
    found = crawler.stats.get_stats()
    return {name: found[name] for name in found if not any(word in name for word in unsteady)}


async def test_what_each_url_meets_and_what_is_counted_is_as_with_scrapy() -> None:
    theirs, ours = await crawled(ours=False), await crawled(ours=True)
    assert met_of(ours) == met_of(theirs)
    assert counts_of(ours) == counts_of(theirs)
    met = met_of(ours)
    assert met[f"{SITE}/linked"][-2:] == [("item_scraped", None, True)] * 2
    assert met[f"{SITE}/broken"][-1] == ("item_scraped", "DownloadFailedError", True)
    assert met[f"{SITE}/target"][-1] == ("item_scraped", None, True)
    assert ("spider_error", "ValueError") in met[f"{SITE}/raises-later"]


async def test_requests_have_one_task_and_leave_nothing_behind() -> None:
    crawler = await crawled(ours=True)
    start: Any = crawler.engine._start_scheduled_request  # type: ignore[union-attr]
    assert isinstance(start.__self__, RequestTasks)
    assert start.__self__._tasks == {}


class Wrapped(Pages):
    """Adds to what parse() gives, as Scrapy's own spiders do by this method."""

    def _parse(self, response: Response, **arguments: Any) -> Any:
        return self.parse_more(response) if "more" in response.url else self.parse(response)

    async def parse_more(self, response: Response) -> AsyncIterator[Any]:
        yield {"url": response.url}
        yield {"url": response.url}

    paths = ("links", "more", "links-again", "more-again")


async def test_a_spider_with_a_callback_before_its_own_keeps_it() -> None:
    theirs, ours = await crawled(Wrapped, ours=False), await crawled(Wrapped, ours=True)
    assert met_of(ours) == met_of(theirs)
    assert met_of(ours)[f"{SITE}/more-again"][-2:] == [("item_scraped", None, True)] * 2


class Waiting(Pages):
    """Waits for what others have cancelled."""

    paths = ("in-callback", "in-pipeline", "in-both")

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"url": response.url}
        if not response.url.endswith("pipeline"):
            await cancelled()


class WaitingPipeline:
    async def process_item(self, item: Any) -> Any:
        if not item["url"].endswith("callback"):
            await cancelled()
        return item


async def cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def test_waiting_for_what_was_cancelled_is_an_error_as_any_other() -> None:
    async with asyncio.timeout(60):
        crawler = await crawled(Waiting, ours=True, ITEM_PIPELINES={WaitingPipeline: 1})
    met = met_of(crawler)
    assert met[f"{SITE}/in-pipeline"][-1] == ("item_error", None, None)
    assert met[f"{SITE}/in-both"][-2] == ("item_error", None, None)
    assert met[f"{SITE}/in-callback"][-2] == ("item_scraped", None, None)
    for path in ("in-callback", "in-both"):
        assert met[f"{SITE}/{path}"][-1] == ("spider_error", "CancelledError")


class OwnDownloader(Downloader):
    """A project's."""


async def test_a_project_with_a_downloader_of_its_own_keeps_it() -> None:
    crawler = await crawled(ours=True, DOWNLOADER=OwnDownloader)
    assert "_start_scheduled_request" not in vars(crawler.engine)
    assert met_of(crawler)[f"{SITE}/links"][-1] == ("item_scraped", None, True)


async def test_a_wrong_answer_of_a_middleware_is_named() -> None:
    crawler = await crawled(ours=True)
    assert met_of(crawler)[f"{SITE}/wrong"][-1] == ("item_scraped", "_InvalidOutput", True)


async def test_slots_with_a_delay_are_obeyed() -> None:
    slots = {"slow": {"concurrency": 1, "delay": 0.3, "jitter": 0}}
    crawler = await crawled(ours=True, DOWNLOAD_SLOTS=slots)
    assert crawler.stats is not None
    assert crawler.stats.get_value("elapsed_time_seconds") >= 0.3


class Weighed(Pages):
    """Notes what a page of 13 bytes counts while it is handled."""

    paths = ("none",)
    sizes: tuple[int, ...] = ()

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        Weighed.sizes += (self.crawler.engine.scraper.slot.active_size,)  # type: ignore[union-attr]
        return
        yield


async def test_a_small_page_counts_what_it_holds_beside_its_body() -> None:
    await crawled(Weighed, ours=True)
    assert Weighed.sizes == (48 * 1024,)


class ManyHosts(Pages):
    """Fetches a page of each of many hosts."""

    async def start(self) -> AsyncIterator[Request]:
        for number in range(50):
            yield Request(f"http://h{number}.test/none")


async def test_few_downloader_slots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.fastpath.request_task._SLOTS_KEPT", 10)
    crawler = await crawled(ManyHosts, ours=True)
    assert len(met_of(crawler)) == 50
    assert len(crawler.engine.downloader.slots) == 10  # type: ignore[union-attr]
