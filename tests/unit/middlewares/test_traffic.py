"""What goes over the wire is counted as Scrapy counts it."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.http import Response

from crawler.fastpath.stats import Stats
from crawler.middlewares.scrapy_twins import Traffic
from tests.support.crawlers import project_crawler


def counted(kind: type[DownloaderStats], request: Request, response: Response) -> dict[str, Any]:
    stats = Stats(project_crawler())
    middleware = kind(stats)
    middleware.process_request(request)
    assert middleware.process_response(request, response) is response
    middleware.process_exception(request, OSError("x"))
    return stats.get_stats()


@pytest.mark.parametrize(
    "request_",
    [
        Request("http://h.test"),
        Request("http://h.test:8080/path;params?a=1&b=%C3%BC#fragment"),
        Request("https://bücher.test/ü?q"),
        Request("http://h.test/?"),
        Request("http://h.test/", method="POST", body="körper", headers={"A": "1", "B-C": "22"}),
        Request("http://h.test/", headers={"Cookie": ["a=1", "b=2"], "Empty": ""}),
        Request("http://h.test/", headers={"None": None}),
        Request("http://[::1]:80/a"),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "response",
    [
        Response("http://h.test"),
        Response("http://h.test", status=404, body=b"four", headers={"Server": "x"}),
        Response("http://h.test", status=799, headers={"Set-Cookie": ["a", "bb"], "Via": "1.1 x"}),
    ],
    ids=str,
)
def test_requests_responses_and_bytes_are_scrapys(request_: Request, response: Response) -> None:
    theirs = counted(DownloaderStats, request_, response)
    assert counted(Traffic, request_, response) == theirs
    assert theirs["downloader/request_count"] == theirs["downloader/response_count"] == 1
