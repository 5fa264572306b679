"""Read whatever was fetched by its type: HTML, feeds, plain text. Pure.

Other types are no text that people read, and have no links: they are kept as they came.
"""

from __future__ import annotations

from crawler.links.document import Document
from crawler.links.encoding import decode
from crawler.links.feeds import read_feed
from crawler.links.html import HtmlReader
from crawler.urls import DEFAULT, Urls

# Reading a page takes about 10 µs a KB, and more with many tags.
_SMALL_BYTES = 50_000
_LIGHT_BYTES = 200_000
_LIGHT_TAGS = 3_000
_HTML = frozenset({"", "text/html", "application/xhtml+xml"})
_SNIFFED = 1024


class Reader:
    """Reads bodies as one crawl wants them read."""

    def __init__(self, html: HtmlReader, *, max_links: int, urls: Urls = DEFAULT) -> None:
        self._html = html
        self._max_links = max_links
        self._urls = urls

    def read(
        self, body: bytes, url: str, *, content_type: str = "", nofollow: bool = False
    ) -> Document:
        """Read what came from `url`; with `nofollow` its links are not wanted."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind.endswith(("/xml", "+xml")) and kind not in _HTML:
            max_links = 0 if nofollow else self._max_links
            feed = read_feed(body, url, max_links=max_links, urls=self._urls)
            if feed is not None or b"<html" not in body[:_SNIFFED].lower():
                return feed or Document()
        elif kind not in _HTML and kind != "text/plain":
            return Document()
        text, charset = decode(body, content_type, url)
        if kind == "text/plain":
            return Document(charset=charset, text=" ".join(text.split()))
        document = self._html.read(text, url, charset=charset, nofollow=nofollow)
        document.charset = charset
        return document


def is_light(body: bytes) -> bool:
    """Is it read in no more than a few milliseconds?"""
    if len(body) <= _SMALL_BYTES:
        return True
    return len(body) <= _LIGHT_BYTES and body.count(b"<") <= _LIGHT_TAGS
