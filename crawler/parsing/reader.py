"""Decode a body and read it by its type: HTML, feeds, plain text. Pure.

The encoding comes from the byte order mark, the header or a meta tag, else from a guess by the
top-level domain. Bodies of other types give an empty document.
"""

from __future__ import annotations

from functools import lru_cache

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
)

from crawler.parsing.document import Document
from crawler.parsing.feeds import read_feed
from crawler.parsing.html import HtmlReader
from crawler.urls import DEFAULT, Urls

FALLBACK = "cp1252"
# Characters that are read of a Content-Type.
_HEADER_CHARS = 200
# Python has codecs that are no encodings of pages; a page must not reach them.
_KNOWN = frozenset(
    """utf-8 utf-16 utf-16-le utf-16-be cp866 cp874 cp932 cp949 big5 big5hkscs gb18030 gbk euc_jp
    euc_kr iso2022_jp shift_jis koi8-r koi8-u mac-roman mac-cyrillic ascii""".split()
    + [f"cp{number}" for number in range(1250, 1259)]
    + [f"iso8859-{number}" for number in range(1, 17)]
)
# A page whose meta tag can be read as ASCII is in none of these.
_NOT_BY_META = ("utf-16", "utf-16-le", "utf-16-be")
# Guesses by top-level domain; the first that fits is taken.
_BY_COUNTRY = {
    country: encodings
    for countries, encodings in (
        ("jp", ("iso2022_jp", "euc_jp", "cp932")),
        ("cn sg", ("gb18030",)),
        ("tw hk mo", ("big5hkscs",)),
        ("kr", ("cp949",)),
        ("ru by ua bg kz kg mk su", ("cp1251",)),
        ("pl cz sk hu hr si ro", ("cp1250",)),
        ("gr", ("cp1253",)),
        ("tr", ("cp1254",)),
        ("il", ("cp1255",)),
        ("ae eg ir iq sa sy", ("cp1256",)),
        ("ee lt lv", ("cp1257",)),
        ("vn", ("cp1258",)),
        ("th", ("cp874",)),
    )
    for country in countries.split()
}


def decode(body: bytes, content_type: str = "", url: str = "") -> tuple[str, str]:
    """Decode a page; returns its text and encoding. Undecodable bytes are replaced."""
    encoding, mark = read_bom(body)
    if encoding is not None and mark is not None:
        return body[len(mark) :].decode(encoding, "replace"), encoding
    encoding = _by_header(content_type[:_HEADER_CHARS]) if content_type else None
    if encoding is None:
        encoding = _known(html_body_declared_encoding(body))
        if encoding in _NOT_BY_META:
            encoding = "utf-8"
    if encoding is None:
        return _guessed(body, url)
    return body.decode(encoding, "replace"), encoding


@lru_cache(maxsize=256)
def _by_header(content_type: str) -> str | None:
    return _known(http_content_type_encoding(content_type))


def _known(encoding: str | None) -> str | None:
    found = resolve_encoding(encoding) if encoding else None
    return found if found in _KNOWN else None


def _guessed(body: bytes, url: str) -> tuple[str, str]:
    host = url.partition("://")[2].partition("/")[0]
    country = host.partition(":")[0].rpartition(".")[2]
    candidates = ["utf-8", *_BY_COUNTRY.get(country, ())]
    if country == "jp" and b"\x1b$" in body:
        candidates.remove("utf-8")  # ISO-2022-JP is valid ASCII
    for encoding in candidates:
        try:
            return body.decode(encoding), encoding
        except ValueError:
            continue
    last = candidates[-1] if len(candidates) > 1 else FALLBACK
    return body.decode(last, "replace"), last


# Reading a page takes about 10 µs for each KB, and more with many tags.
_SMALL_BYTES = 50_000
_LIGHT_BYTES = 200_000
_LIGHT_TAGS = 3_000
_HTML = frozenset({"", "text/html", "application/xhtml+xml"})
_SNIFFED = 1024


class DocumentReader:
    """Reader of bodies of any type, with the options of one crawl."""

    def __init__(self, html: HtmlReader, *, max_links: int, urls: Urls = DEFAULT) -> None:
        self._html = html
        self._max_links = max_links
        self._urls = urls

    def read(
        self, body: bytes, url: str, *, content_type: str = "", nofollow: bool = False
    ) -> Document:
        """Read the body of the page at `url`; with `nofollow` its links are not wanted."""
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
    """Whether a body is read in a few milliseconds at most."""
    if len(body) <= _SMALL_BYTES:
        return True
    return len(body) <= _LIGHT_BYTES and body.count(b"<") <= _LIGHT_TAGS
