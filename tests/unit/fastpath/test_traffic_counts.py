"""Traffic is counted as Scrapy counts it."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.http import Response

from crawler.fastpath.middleware_chains import counted
from tests.support.crawlers import project_crawler

URLS = [
    "http://h.test/a",
    "https://H.test:8443/a/b.html?c=1&d=/e",
    "http://h.test",
    "http://h.test?query/with/slashes",
    "http://h.test/a?",
    "http://h.test/a#fragment",
    "http://h.test/a;",
    "http://h.test/a;b=1?c",
    "http://h.test//a",
    "http://user:secret@h.test/a",
    "http://[::1]:8000/a",
    "http://bücher.test/ä?ö",
    "file:///etc/hosts",
]
REQUESTS: list[dict[str, Any]] = [
    {},
    {"headers": {"Accept": "text/html", "X-Many": ["a", "bc"], "X-None": []}},
    {"headers": {"X-None": []}},
    {"method": "POST", "body": b"1234"},
]
RESPONSES: list[dict[str, Any]] = [
    {},
    {"status": 404, "body": b"<html></html>"},
    {"status": 599, "headers": {"Set-Cookie": ["a=1", "b=2"], "Server": "s"}},
    {"status": 304, "headers": {"X-None": []}},
]


class OwnStats(DownloaderStats):
    """A project's own that derives from Scrapy's."""


def traffic(stats: Any, request: Request, response: Response, *, quick: bool) -> dict[str, Any]:
    theirs = DownloaderStats(stats)
    methods: Any = (theirs.process_request, theirs.process_response)
    on_request, on_response = map(counted, methods) if quick else methods
    on_request(request=request)
    assert on_response(request=request, response=response) is response
    found: dict[str, Any] = stats.get_stats()
    return found


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("more", REQUESTS, ids=str)
def test_requests_count_as_scrapy_writes_them(url: str, more: dict[str, Any]) -> None:
    request, response = Request(url, **more), Response(url)
    ours, theirs = (
        traffic(project_crawler().stats, request, response, quick=quick) for quick in (True, False)
    )
    assert ours == theirs


@pytest.mark.parametrize("more", RESPONSES, ids=str)
def test_responses_count_as_scrapy_would_write_them(more: dict[str, Any]) -> None:
    request, response = Request(URLS[0]), Response(URLS[0], **more)
    ours, theirs = (
        traffic(project_crawler().stats, request, response, quick=quick) for quick in (True, False)
    )
    assert ours == theirs


def test_a_projects_own_stats_stay() -> None:
    method: Any = OwnStats(project_crawler().stats).process_request
    assert counted(method) is method
    assert counted(None) is None
