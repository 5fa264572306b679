"""Requests leave with the headers and time-outs that Scrapy's middlewares would give them."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.defaultheaders import DefaultHeadersMiddleware
from scrapy.downloadermiddlewares.downloadtimeout import DownloadTimeoutMiddleware
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware

from crawler.fastpath.decompression import Decompression
from crawler.fastpath.middleware_chains import RequestDefaults, merged
from tests.support.crawlers import project_crawler


def methods(compression: Any = Decompression, **settings: Any) -> list[Any]:
    crawler = project_crawler(**settings)
    kinds: tuple[Any, ...] = (
        DownloadTimeoutMiddleware,
        DefaultHeadersMiddleware,
        UserAgentMiddleware,
        compression,
    )
    return [kind.from_crawler(crawler).process_request for kind in kinds]


class Theirs:
    """A project's own."""

    def process_request(self, request: Request) -> None:
        request.headers["User-Agent"] = "theirs"


class OwnAgent(UserAgentMiddleware):
    """A project's own that derives from Scrapy's."""


SETTINGS: list[dict[str, Any]] = [
    {},
    {"USER_AGENT": "me/1.0", "DOWNLOAD_TIMEOUT": 7},
    {"USER_AGENT": None, "DOWNLOAD_TIMEOUT": 0},
    {"DEFAULT_REQUEST_HEADERS": {"Accept": None, "X-Many": ["a", "b"]}},
]
REQUESTS: list[dict[str, Any]] = [
    {},
    {"headers": {"user-agent": "own", "X-Own": "1"}},
    {"meta": {"download_timeout": 3}},
    {"meta": {"depth": 1, "other": None}},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_headers_and_meta_are_those_of_scrapy(
    settings: dict[str, Any], request_: dict[str, Any]
) -> None:
    theirs, ours = (Request("http://h.test/", **request_) for _ in range(2))
    for method in methods(HttpCompressionMiddleware, **settings):
        method(request=theirs)
    (quick,) = merged(methods(**settings))
    assert quick is not None
    assert quick(request=ours) is None
    assert list(dict.items(ours.headers)) == list(dict.items(theirs.headers))
    assert ours.meta == theirs.meta


def test_requests_share_no_header_with_each_other() -> None:
    (quick,) = merged(methods())
    assert quick is not None
    first, second = Request("http://h.test/1"), Request("http://h.test/2")
    quick(request=first)
    first.headers.appendlist("User-Agent", "more")
    quick(request=second)
    assert second.headers.getlist("User-Agent") != first.headers.getlist("User-Agent")


def test_what_stands_between_scrapys_middlewares_stays_there() -> None:
    timeout, headers, agent, compression = methods()
    own = Theirs().process_request
    found = merged([own, timeout, headers, own, agent, compression])
    assert [getattr(method, "__self__", None).__class__ for method in found] == [
        Theirs,
        RequestDefaults,
        Theirs,
        RequestDefaults,
    ]
    request = Request("http://h.test/")
    for method in found:
        assert method is not None
        method(request=request)
    assert request.headers.getlist("User-Agent") == [b"theirs"]
    assert request.headers.getlist("Accept-Encoding")


def test_classes_that_derive_from_scrapys_are_called_themselves() -> None:
    own = OwnAgent("own").process_request
    assert list(merged([own])) == [own]
