"""Targets that read documents: pages, feeds, sitemaps, robots.txt, text, encodings, dates."""

from __future__ import annotations

import zipfile
from io import BytesIO

from crawler.dedup import content, minhash
from crawler.parsing import feeds, language, limits, rights, sitemap, sniff
from crawler.parsing.byline import date_of
from crawler.parsing.document import (
    Document,
    DocumentLimits,
    Unreadable,
    of_headers,
    of_meta,
    time_of,
)
from crawler.parsing.documents import read_document
from crawler.parsing.encoding import as_utf8, decode
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader, is_light
from crawler.robots import rules
from crawler.urls import DEFAULT
from fuzzing.target import Target, expect, text_of

_URL = "http://example.com/dir/page.html?a=1"
_TYPES = (
    *("", "text/html", "text/html; charset=utf-16", "text/plain", "text/markdown"),
    *("application/json", "application/feed+json", "application/xml", "application/rss+xml"),
    *("application/xhtml+xml; charset=gbk", "application/octet-stream", "image/svg+xml"),
)
_READER = DocumentReader(
    HtmlReader(max_links=1000, media=True, anchors=True, main_text=True, markdown=True,
               article=True, unread=("aside",)),
    max_links=1000,
)  # fmt: skip
_FAST = DocumentReader(HtmlReader(max_links=1000, blocks=False), max_links=1000)


def _checked(document: Document) -> None:
    for url in [*document.links, *document.feeds, *document.languages.values()]:
        expect(DEFAULT.canonical(url) == url, url)
    for text in (document.text, document.title, document.main_text, document.markdown):
        text.encode()


def _page(data: bytes) -> None:
    """Read a body of any type; the first byte chooses which one is declared."""
    declared = _TYPES[data[0] % len(_TYPES)] if data else ""
    body = data[1:]
    is_light(body, sniff.declared_type(declared), with_main_text=True)
    found = _READER.read(body, _URL, content_type=declared)
    _checked(found)
    language.of_document(found)
    texts = found.blocks if found.blocks is not None else [found.text]
    content.simhashes(texts or [""], 3)
    minhash.sketches([part for part in content.shingles_of(texts or [""], 3) if part is not None])
    content.words_digest(found.text)
    fast = _FAST.read(body, _URL, content_type=declared)
    expect(fast.title == found.title, (fast.title, found.title))


def _limits(data: bytes) -> None:
    found = limits.bounded(data)
    expect(len(found) <= 4 * len(data) + 1000, (len(data), len(found)))
    limits.number_of_tags(data)


def _encoding(data: bytes) -> None:
    """Decode a body; its first line is the Content-Type."""
    declared, _, body = data.partition(b"\n")
    content_type = declared.decode("latin-1")
    text, name = decode(body, content_type, _URL)
    text.encode("utf-8", "surrogatepass")
    utf8, same = as_utf8(body, content_type, "http://example.jp/")
    utf8.decode("utf-8", "replace")
    "".encode(name)
    "".encode(same)
    sniff.sniff(body, content_type, _URL)
    sniff.says_nothing(content_type)


def _dates(data: bytes) -> None:
    text = text_of(data)
    for read in (date_of, time_of, feeds.feed_time):
        found = read(text)
        if found is not None:
            expect(found.tzinfo is not None, (text, found))
            found.timestamp()
            found.isoformat()
    directives = of_meta(text) | of_headers(text.split("\n"), "crawler")
    expect(isinstance(directives.nofollow, bool), text)
    rights.by_headers({b"Tdm-Reservation": [data], b"X-Robots-Tag": data.split(b"\n")})
    rights.by_meta("tdm-reservation", text)
    language.detect(text, text[:10])


def _robots(data: bytes) -> None:
    body, _, url = data.rpartition(b"\n#url ")
    found = rules.RobotsRules(body, "Crawler")
    lines = rules.lines_for(body, "Crawler")
    canonical = DEFAULT.canonical(f"http://example.com/{text_of(url)}")
    url_text = canonical if isinstance(canonical, str) else "http://example.com/a"
    allowed = found.allows(url_text)
    for statement in found.usage(url_text):
        expect(len(statement) <= rights.MAX_CHARS, statement)
    expect(found.crawl_delay_s >= 0, found.crawl_delay_s)
    if len(lines) <= 200:
        rules.deciding_line(lines, url_text)
    if not body.strip():
        expect(allowed, body)
    rules.rules_ttl_s(3600.0, data[:200])
    rules.product_token(text_of(data[:200]))


def _sitemap(data: bytes) -> None:
    found = sitemap.read(data, "http://example.com/sitemap.xml")
    expect(len(found.pages) <= sitemap.MAX_URLS, len(found.pages))
    for page in found.pages:
        expect(DEFAULT.canonical(page.url) == page.url, page)
        expect(0 <= page.priority <= 1, page)
        if page.modified is not None:
            page.modified.timestamp()


def _feed(data: bytes) -> None:
    found = feeds.read_feed(data, "http://example.com/feed", max_links=1000)
    if found is not None:
        _checked(found)
    whole = feeds.repaired(data)
    ampersands, pieces = feeds.Ampersands(), b""
    for at in range(0, len(data), 7):
        pieces += ampersands.feed(data[at : at + 7])
    pieces += ampersands.feed(b"", last=True)
    expect(pieces == whole, (pieces, whole))


_KINDS = (
    *(sniff.PLAIN, sniff.MARKDOWN, sniff.JSON, sniff.JSON_FEED, sniff.DOCX, sniff.XLSX, sniff.PPTX),
    *(sniff.ODT, sniff.ODS, sniff.ODP, sniff.EPUB, sniff.OLE),
)
_SMALL = DocumentLimits(max_pages=10, max_text_chars=10_000, max_links=100, max_entries=50,
                        max_unpacked_bytes=200_000)  # fmt: skip


def _file(data: bytes) -> None:
    """Read a file; the first byte chooses its type. PDF is read by a library in a sandbox."""
    if not data:
        return
    try:
        found = read_document(_KINDS[data[0] % len(_KINDS)], data[1:], _URL, limits=_SMALL)
    except Unreadable:
        return
    _READER.with_canonical_links(found, _URL)
    _checked(found)


def _zipped(kind: str, **parts: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, body in parts.items():
            archive.writestr(zipfile.ZipInfo(name.replace("__", "/").replace("_dot_", ".")), body)
    return bytes((_KINDS.index(kind),)) + file.getvalue()


_DOCX = _zipped(
    sniff.DOCX,
    word__document_dot_xml=b'<w:document xmlns:w="http://schemas.openxmlformats.org/'
    b'wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>Text</w:t></w:r></w:p></w:body>'
    b"</w:document>",
    _rels__dot_rels=b"<Relationships/>",
)
_HTML = (
    b"\0<!doctype html><html lang=en><head><title>T</title><base href=/b/><meta name=robots "
    b"content='noindex, max-snippet:3'><link rel=alternate hreflang=de href=/de><link rel=canonical"
    b" href=/c></head><body><nav><a href=a>A</a></nav><article><h1>H</h1><p>Some words of an "
    b"article, that has enough of them.<time datetime=2026-01-02>Jan 2</time></p><table><tr><td>1"
    b"</table><ul><li>x</ul><pre>y</pre></article><script type=application/ld+json>"
    b'{"author": {"name": "A"}, "datePublished": "2026-01-02"}</script></body></html>'
)
_RSS = (
    b'<?xml version="1.0"?><rss version="2.0"><channel><title>T</title><item><link>/a?b&c</link>'
    b"<pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate><guid isPermaLink='true'>http://a.test/g"
    b"</guid></item></channel></rss>"
)
_ATOM = (
    b"<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><link href='/a'/>"
    b"<updated>2026-11-02T10:00:00Z</updated></entry></feed>"
)
_SITEMAP = (
    b"<?xml version='1.0' encoding='UTF-8'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/"
    b"0.9'><url><loc>http://example.com/a</loc><lastmod>2026-11-02</lastmod><priority>0.8</priority>"
    b"<changefreq>daily</changefreq></url></urlset>"
)
_ROBOTS = (
    b"User-agent: crawler\nUser-agent: other\nDisallow: /a*b$\nAllow: /a\nCrawl-delay: 3\n"
    b"Sitemap: http://example.com/s.xml\nContent-Signal: /x search=yes\n\nUser-agent: *\n"
    b"Disallow: /\n#url a/b?c=d"
)
_TAGS = (
    *(
        b"<a href=",
        b"<p>",
        b"</p>",
        b"<table>",
        b"<tr><td>",
        b"<title>",
        b"<script>",
        b"<!--",
        b"-->",
    ),
    *(b"<svg>", b"<math>", b"<template>", b"<select><option>", b"<b><i>", b"<meta name=", b"&amp;"),
    *(b"&#x110000;", b"<![CDATA[", b"<!doctype html>", b"<frameset>", b"\xff\xfe", b"\xef\xbb\xbf"),
    *(b"<plaintext>", b"<textarea>", b"<noscript>", b"<time datetime=", b"<h1>", b"<nav>"),
)
_XML = (
    *(
        b"<item>",
        b"<entry>",
        b"<link>",
        b"<loc>",
        b"<url>",
        b"&",
        b"&amp;",
        b"<!DOCTYPE a [",
        b"]>",
    ),
    *(b"<!ENTITY a '", b"&a;", b"<![CDATA[", b"]]>", b"<?xml encoding='utf-16'?>", b"xmlns:a='b'"),
    *(b"<priority>", b"<lastmod>", b"1e309", b"nan", b"<guid>", b"<sitemapindex>", b"\x1f\x8b\x08"),
)
_TIMES = (
    *(b"2026-11-02T10:00:00Z", b"Mon, 02 Nov 2026 10:00:00 -0500", b"January 2, 2026 at 3:04 pm"),
    *(b"02.11.2026", b"20261102", b"noindex, nofollow, max-snippet: 5", b"otherbot: none"),
)
TARGETS = (
    Target(
        "page",
        _page,
        (_HTML, b"\7" + _RSS, b"\3plain text\n\nmore", b"\4# Title\n\n[a](b)\n"),
        _TAGS,
        large_s=1.5,
    ),
    Target("html_limits", _limits, (_HTML[1:],), _TAGS),
    Target(
        "encoding",
        _encoding,
        (
            b"text/html; charset=gbk\n" + _HTML[1:],
            b"\n\xff\xfea\0",
            b"text/html\n<meta charset=iso-2022-jp>\x1b$B",
            b"\n\x82\xa0\x82\xa2 <?xml encoding='koi8-r'?>",
        ),
        (
            *_TAGS,
            b"charset=",
            b"utf-7",
            b"hz-gb-2312",
            b"iso-2022-kr",
            b"x-user-defined",
            b"\x1b$B",
        ),
    ),
    Target(
        "dates",
        _dates,
        _TIMES,
        (
            b"2026",
            b"GMT",
            b"+99:99",
            b"-0000",
            b"T",
            b"Z",
            b"9999-12-31",
            b"0001-01-01",
            b":",
            b",",
            b"none",
            b"unavailable_after:",
        ),
    ),
    Target(
        "robots",
        _robots,
        (_ROBOTS, b"\xff\xfeU\0s\0e\0r\0-\0a\0g\0e\0n\0t\0:\0*\0"),
        (
            b"User-agent: ",
            b"User-agent: crawler\n",
            b"Disallow: ",
            b"Allow: ",
            b"Crawl-delay: ",
            b"Sitemap: ",
            b"Request-rate: ",
            b"Visit-time: ",
            b"Content-Usage: ",
            b"*",
            b"$",
            b"%2F",
            b"\n#url ",
            b"\r",
            b"\xe2\x80\xa8",
            b"1e400",
            b"nan",
        ),
        large_s=2.0,
    ),
    Target(
        "sitemap",
        _sitemap,
        (_SITEMAP, _RSS, _ATOM, b"http://example.com/a\nhttp://example.com/b\n"),
        _XML,
    ),
    Target("feed", _feed, (_RSS, _ATOM), _XML),
    Target(
        "file",
        _file,
        (
            _DOCX,
            b"\0text",
            b"\1# T\n\n- [a](b)\n```\n",
            b'\2{"a": [1, "http://b.test/"]}',
            b'\3{"version": "https://jsonfeed.org/version/1", "items": [{"url": "/a"}]}',
            b"\x0b\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        ),
        (
            b"PK\3\4",
            b"PK\1\2",
            b"PK\5\6",
            b"<w:p>",
            b"word/document.xml",
            b"[",
            b"{",
            b'":',
            b"](",
            b"```",
            b"\n#",
            b"\n- ",
            b"\n> ",
            b"|--|",
        ),
        large_s=2.0,
    ),
)
