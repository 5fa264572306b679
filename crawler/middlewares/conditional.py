"""Ask only for pages that changed, where their validators are known. Downloader middleware.

Whoever puts a URL into the frontier again gives its entry the keys `etag` and `last_modified` in
the tail. An answer of 304 is a success without a body: it has the flag `not_modified`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawler.requests import LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from crawler.frontier import Lease

NOT_MODIFIED = "not_modified"
_HEADERS = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}


class Conditional:
    """Adds headers to requests, and a flag to answers."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or not lease.entry.tail:
            return
        for key, header in _HEADERS.items():
            value = lease.entry.tail.get(key)
            if value and header not in request.headers:
                request.headers[header] = value

    def process_response(self, request: Request, response: Response) -> Response:
        if response.status != 304 or request.meta.get(LEASE) is None:
            return response
        self._crawler.stats.inc_value("conditional/not_modified")
        return response.replace(flags=[*response.flags, NOT_MODIFIED])
