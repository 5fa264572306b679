"""Request pages only if they changed since the last visit. Downloader middleware.

The frontier entry of a recrawl has the keys `etag` and `last_modified` in its tail. A response of
304 is a success without a body; it gets the flag `not_modified`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.items import NOT_MODIFIED
from crawler.util.request_meta import LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

    from crawler.frontier import Lease


HEADERS = {"etag": "If-None-Match", "last_modified": "If-Modified-Since"}


class Conditional:
    """Conditional headers of requests, and the flag of responses that say "not modified"."""

    def process_request(self, request: Request) -> None:
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or not lease.entry.tail:
            return
        for key, header in HEADERS.items():
            value = lease.entry.tail.get(key)
            if value and header not in request.headers:
                request.headers[header] = value

    def process_response(self, request: Request, response: Response) -> Response:
        if response.status != 304 or request.meta.get(LEASE) is None:
            return response
        if not any(header in request.headers for header in HEADERS.values()):
            # The request was unconditional: there is no earlier page to fall back on.
            return response
        return response.replace(flags=[*response.flags, NOT_MODIFIED])
