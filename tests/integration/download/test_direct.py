"""Requests beside those of the engine: through all middlewares, over real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.http import Response

from crawler.download.direct import DirectDownloads
from tests.support.crawlers import project_crawler
from tests.support.http_server import LOOPBACK, ok, serving, then_closed

HERE = "tests.integration.download.test_direct"
SIGNALS = (
    signals.request_reached_downloader,
    signals.response_downloaded,
    signals.request_left_downloader,
    signals.response_received,
)


class Middleware:
    """A user's own: it adds a header, sends some requests elsewhere, answers or forbids some."""

    def process_request(self, request: Request) -> Request | Response | None:
        if "forbidden" in request.url:
            raise IgnoreRequest
        if "kept" in request.url:
            return Response(request.url, body=b"kept")
        if "moved" in request.url:
            return request.replace(url=request.url.replace("moved", "here"))
        request.headers["X-By"] = "user"
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        return response.replace(flags=[*response.flags, "seen"])


class Engine:
    """What direct downloads need of Scrapy's engine: its real downloader."""

    def __init__(self, crawler: Crawler) -> None:
        self.downloader = Downloader(crawler)
        self.asked: list[str] = []

    async def download_async(self, request: Request) -> Response:
        self.asked.append(request.url)
        return Response(request.url)


class Downloads:
    """Direct downloads of a crawl, and the signals that it sent."""

    def __init__(self, crawler: Crawler) -> None:
        self.engine: Any = crawler.engine
        self.signals: list[tuple[Any, str]] = []
        self._downloads = DirectDownloads(crawler)
        self._listeners = [self._listener(signal) for signal in SIGNALS]
        for signal, listener in zip(SIGNALS, self._listeners, strict=True):
            crawler.signals.connect(listener, signal)

    def _listener(self, signal: Any) -> Any:
        return lambda request: self.signals.append((signal, request.url))

    async def get(self, url: str, **options: Any) -> Response:
        return await self._downloads.download(Request(url, **options))


@asynccontextmanager
async def downloads_with(**settings: Any) -> AsyncIterator[Downloads]:
    crawler = project_crawler(
        DOWNLOADER_MIDDLEWARES={f"{HERE}.Middleware": 500},
        DOWNLOADER_MIDDLEWARES_BASE={},
        ALLOW_NETWORKS=LOOPBACK,
        **settings,
    )
    crawler.spider = Spider("own")
    crawler.engine = Engine(crawler)  # type: ignore[assignment]
    downloads = Downloads(crawler)
    try:
        yield downloads
    finally:
        await downloads.engine.downloader.handlers._close()


@pytest.fixture
async def downloads() -> AsyncIterator[Downloads]:
    async with downloads_with() as found:
        yield found


async def test_a_request_passes_the_middlewares_and_has_no_place_in_the_downloader(
    downloads: Downloads,
) -> None:
    async with serving(ok(b"found")) as server:
        response = await downloads.get(server.url, method="POST", body=b"a=b")
        assert (response.status, response.body, response.flags) == (200, b"found", ["seen"])
        assert server.requests[0].startswith(b"POST / HTTP/1.1\r\n")
        assert b"X-By: user\r\n" in server.requests[0]
        assert server.requests[0].endswith(b"\r\n\r\na=b")
    downloader = downloads.engine.downloader
    assert (downloader.slots, downloader.active) == ({}, set())
    assert downloads.engine.asked == []
    assert response.request is not None
    assert response.request.url == server.url
    assert downloads.signals == [(signal, server.url) for signal in SIGNALS]


async def test_a_request_that_a_middleware_gives_instead_is_sent(downloads: Downloads) -> None:
    async with serving(ok(b"found")) as server:
        response = await downloads.get(f"{server.url}moved")
        assert [request.split()[1] for request in server.requests] == [b"/here"]
    assert (response.url, response.body) == (f"{server.url}here", b"found")


async def test_a_response_that_a_middleware_gives_is_the_response(downloads: Downloads) -> None:
    async with serving(ok(b"found")) as server:
        response = await downloads.get(f"{server.url}kept")
        assert (response.body, server.connections) == (b"kept", 0)


async def test_errors_are_those_of_the_middlewares_and_the_download(downloads: Downloads) -> None:
    async with serving(then_closed(b"")) as server:
        with pytest.raises(IgnoreRequest):
            await downloads.get(f"{server.url}forbidden")
        assert downloads.signals == []
        with pytest.raises(DownloadFailedError):
            await downloads.get(server.url)
    assert downloads.signals == [
        (signals.request_reached_downloader, server.url),
        (signals.request_left_downloader, server.url),
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"DOWNLOAD_DELAY": 1},
        {"AUTOTHROTTLE_ENABLED": True},
        {"DOWNLOAD_SLOTS": {"h.test": {"delay": 1}}},
    ],
    ids=lambda value: next(iter(value)),
)
async def test_where_scrapy_delays_requests_these_wait_with_the_others(
    settings: dict[str, Any],
) -> None:
    async with downloads_with(**settings) as downloads:
        await downloads.get("http://h.test/")
        assert downloads.engine.asked == ["http://h.test/"]
