"""Fetch one URL: Scrapy's download handler over our own HTTP/1.1 client.

    handler          the time limit of a fetch, and Scrapy's responses
    client           the connections of a crawl, shared by all schemes, bounded; proxies too
    direct           requests beside those of the engine, through the same middlewares
    tls              TLS inside a connection, and sessions that are resumed
    request_writer   a request as bytes, its server and its proxy
    response_parser  one response from the bytes of a connection; llhttp reads its head
    receiver         receives a response as it comes: which types, how many bytes
    address_guard    refuses private addresses, whatever name leads to them
    errors           errors of a fetch, and the table of what follows from each

Owns no keys. Politeness, robots.txt and DNS are decided before a request comes here. A fetch is
written in one piece and waits once, for the end of its response. docs/adr/0015-http-client.md has
the reasons for a client of our own.

Public: `DownloadHandler`, for DOWNLOAD_HANDLERS. It is imported lazily, since most users of the
package need only errors and limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crawler.download.handler import DownloadHandler

__all__ = ["DownloadHandler"]


def __getattr__(name: str) -> object:
    """Import the handler when it is asked for."""
    if name == "DownloadHandler":
        from crawler.download.handler import DownloadHandler  # noqa: PLC0415

        return DownloadHandler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
