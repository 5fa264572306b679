"""Pages with the bytes that went over the wire, for tests of WARC records and files."""

from datetime import UTC, datetime
from typing import Any

from crawler.items import Exchange, Page

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: me\r\n\r\n"
AT = datetime(2026, 11, 18, 4, 25, 30, tzinfo=UTC)


def exchange(**fields: Any) -> Exchange:
    values: dict[str, Any] = {
        "request": REQUEST,
        "head": HEAD,
        "body": b"<p>body</p>" * 50,
        "began_s": AT.timestamp(),
        "address": "127.0.0.1",
        "protocols": ("http/1.1",),
        "truncated": "",
    }
    return Exchange(**{**values, **fields})


def page(url: str = "http://a.test/", wire: Exchange | None = None, **fields: Any) -> Page:
    wire = exchange() if wire is None else wire
    values: dict[str, Any] = {
        "status": 200,
        "crawled_at": AT,
        "discovered_at": AT,
        "crawl": "web",
        "content_type": "text/html",
        "body": wire.body,
        **fields,
    }
    found = Page(url=url, final_url=url, **values)
    found.exchange = wire
    return found
