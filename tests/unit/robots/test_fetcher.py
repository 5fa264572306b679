"""A robots.txt passes the same middlewares and signals as a page, without a place of its own."""

from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest
from scrapy.http import Response

from crawler.robots.gate import RobotsFetcher
from crawler.util.file_limit import OutOfSockets
from tests.support.crawlers import project_crawler

HERE = "tests.unit.robots.test_fetcher"


class Handler(BaseDownloadHandler):
    """Answers with the headers that it was sent; one host never does."""

    async def download_request(self, request: Request) -> Response:
        if "silent" in request.url:
            raise DownloadTimeoutError
        if "no-file" in request.url:
            raise OutOfSockets
        return Response(request.url, body=request.headers["X-By"], headers={"X-Hop": "1"})

    async def close(self) -> None:
        pass


class Middleware:
    """A user's own: it adds a header, sends some to another place, and forbids others."""

    def process_request(self, request: Request) -> Request | None:
        if "forbidden" in request.url:
            raise IgnoreRequest
        if "moved" in request.url:
            return request.replace(url="http://there.test/robots.txt")
        request.headers["X-By"] = "user"
        return None


class Engine:
    def __init__(self, crawler: Crawler) -> None:
        self.downloader = Downloader(crawler)
        self.asked: list[str] = []

    async def download_async(self, request: Request) -> Response:
        self.asked.append(request.url)
        return Response(request.url)


def crawler_of(**settings: Any) -> Crawler:
    crawler = project_crawler(
        DOWNLOADER_MIDDLEWARES={f"{HERE}.Middleware": 500},
        DOWNLOADER_MIDDLEWARES_BASE={},
        DOWNLOAD_HANDLERS={"http": f"{HERE}.Handler", "https": f"{HERE}.Handler"},
        **settings,
    )
    crawler.spider = Spider("own")
    crawler.engine = Engine(crawler)  # type: ignore[assignment]
    return crawler


async def answer(crawler: Crawler, host: str = "h.test") -> Any:
    async def nothing() -> None:
        pass

    return await RobotsFetcher(crawler).fetch(f"http://{host}", {"download_slot": host}, nothing)


async def test_middlewares_of_the_user_see_it_and_the_downloader_has_no_place_for_it() -> None:
    crawler = crawler_of()
    found = await answer(crawler)
    assert (found.status, found.body) == (200, b"user")
    assert crawler.engine is not None
    assert crawler.engine.downloader.slots == {}


@pytest.mark.parametrize(("setting", "limit"), [(30, 10), (5, 5), (0, 10)])
async def test_it_has_a_time_limit_even_where_pages_have_none(setting: int, limit: int) -> None:
    crawler = crawler_of(DOWNLOAD_TIMEOUT=setting)
    limits: list[float] = []

    def hear(request: Request) -> None:
        limits.append(request.meta["download_timeout"])

    crawler.signals.connect(hear, signals.request_reached_downloader)
    await answer(crawler)
    assert limits == [limit]


async def test_a_middleware_may_send_it_elsewhere_or_forbid_it() -> None:
    assert (await answer(crawler_of(), "moved.test")).body == b"user"
    assert (await answer(crawler_of(), "forbidden.test")).error == "IgnoreRequest"


async def test_a_file_that_there_was_no_file_descriptor_for_is_no_silence_of_its_host() -> None:
    with pytest.raises(OutOfSockets):
        await answer(crawler_of(), "no-file.test")


@pytest.mark.parametrize("host", ["h.test", "silent.test"])
async def test_signals_tell_of_it_as_of_a_page(host: str) -> None:
    crawler = crawler_of()
    heard: list[str] = []
    names = ("request_reached_downloader", "response_downloaded", "request_left_downloader")
    for name in (*names, "response_received"):
        # By name: the handlers must live as long as the test.
        def hear(request: Request, name: str = name) -> None:
            assert request.url == f"http://{host}/robots.txt"
            heard.append(name)

        crawler.signals.connect(hear, getattr(signals, name), weak=False)
    found = await answer(crawler, host)
    if host == "h.test":
        assert heard == [*names, "response_received"]
    else:
        assert heard == [names[0], names[2]]
        assert found.error == "DownloadTimeoutError"


@pytest.mark.parametrize(
    "settings",
    [
        {"DOWNLOAD_DELAY": 1},
        {"AUTOTHROTTLE_ENABLED": True},
        {"DOWNLOAD_SLOTS": {"h.test": {"delay": 3}}},
    ],
    ids=str,
)
async def test_where_scrapy_paces_hosts_it_is_asked(settings: dict[str, Any]) -> None:
    crawler = crawler_of(**settings)
    await answer(crawler)
    assert crawler.engine.asked == ["http://h.test/robots.txt"]  # type: ignore[union-attr]


async def test_a_downloader_of_the_user_is_asked() -> None:
    class Own(Downloader):
        pass

    crawler = crawler_of()
    assert crawler.engine is not None
    crawler.engine.downloader = Own(crawler)
    await answer(crawler)
    assert crawler.engine.asked == ["http://h.test/robots.txt"]  # type: ignore[attr-defined]
