"""Cheaper twins of Scrapy's own middlewares, with the same effects, counts and order.

Traffic (DownloaderStats), HttpAuth, Offsite: downloader middlewares. Starts: spider middleware.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request
from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.downloadermiddlewares.stats import DownloaderStats, get_status_size
from scrapy.exceptions import NotConfigured
from scrapy.http import Headers, Response
from scrapy.utils.httpobj import urlparse_cached

from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


# What stands around the parts of a request, and of a response: blanks, colons and line ends.
_REQUEST_FRAME = len(b" " + b" HTTP/1.1\r\n" + b"Host: \r\n" + b"\r\n")
_RESPONSE_FRAME = len(b"\r\n\r\n")


class Traffic(DownloaderStats):
    """Scrapy's numbers under Scrapy's names, at less cost."""

    def process_request(self, request: Request) -> None:  # type: ignore[override]
        count = self.stats.inc_value
        count("downloader/request_count")
        count(f"downloader/request_method_count/{request.method}")
        count("downloader/request_bytes", _request_size(request))

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response:
        count = self.stats.inc_value
        count("downloader/response_count")
        count(f"downloader/response_status_count/{response.status}")
        size = len(response.body) + _lines_of(response.headers)[0]
        # Between the names, of which Scrapy counts each once.
        size += 2 * (len(response.headers) - 1)
        size += get_status_size(response.status) + _RESPONSE_FRAME
        count("downloader/response_bytes", size)
        return response


def _request_size(request: Request) -> int:
    parts = urlparse_cached(request)
    size = _REQUEST_FRAME + len(request.method) + len(parts.path or "/") + len(request.body)
    size += len(parts.hostname or "")
    for part in (parts.params, parts.query):
        if part:
            size += 1 + len(part)
    if request.headers:
        in_lines, lines = _lines_of(request.headers)
        size += in_lines + 2 * max(1, lines)
    return size


def _lines_of(headers: Headers) -> tuple[int, int]:
    """Bytes of the lines without their ends, and how many there are."""
    size = lines = 0
    # Headers.items() would look each name up again.
    for name, values in dict.items(headers):
        lines += len(values)
        for value in values:
            size += len(name) + 2 + len(value)
    return size, lines


class HttpAuth(HttpAuthMiddleware):
    """Scrapy's own, for crawls that have credentials: no other crawl asks for them a page."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not settings["HTTPAUTH_USER"] and not settings["HTTPAUTH_PASS"]:
            raise NotConfigured
        try:
            return super().from_crawler(crawler)
        except ValueError as error:
            # Without a domain: they would be for all hosts that pages link to.
            raise ConfigurationError(str(error)) from error


class Offsite(OffsiteMiddleware):
    """Scrapy's own, where the links pipeline does not decide on scope: it costs nothing there."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if getattr(crawler.spidercls, "is_scoped", False):
            raise NotConfigured
        return super().from_crawler(crawler)


class Starts:
    """Sets `is_start_request` in the meta of the requests that start() gives."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            if isinstance(output, Request):
                output.meta.setdefault("is_start_request", True)
            yield output
