"""Count requests, responses and their bytes, as Scrapy does. Downloader middleware.

Scrapy's own writes each request down to see how long it is, which takes 15 µs.
"""

from __future__ import annotations

from scrapy import Request
from scrapy.downloadermiddlewares.stats import DownloaderStats, get_status_size
from scrapy.http import Headers, Response
from scrapy.utils.httpobj import urlparse_cached

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
