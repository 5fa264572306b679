"""Sitemaps of all forms, whole, damaged and hostile."""

import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing import sitemap
from crawler.parsing.sitemap import Located, Sitemap, read

URL = "http://h.test/sitemap.xml"
SPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'

RSS = b"""<rss><channel><link>/</link><item><link>http://h.test/a</link></item>
<item><title>B</title><link>/b</link></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link href="/"/>
<entry><link rel="self" href="/x"/><link href="/a"/></entry>
<entry><link rel="alternate" href="/b"/></entry></feed>"""


def urls(found: Sitemap) -> list[str]:
    return [page.url.removeprefix("http://h.test") for page in found.pages]


def url_set(*records: str) -> bytes:
    items = "".join(f"<url>{record}</url>" for record in records)
    return f"<?xml version='1.0'?><urlset {SPACE}>{items}</urlset>".encode()


def test_a_sitemap_has_pages_with_their_times_and_priorities() -> None:
    found = read(
        url_set(
            "<loc> http://h.test/a?x=1&amp;y=2 </loc><lastmod>2024-05-01T10:00:00Z</lastmod>"
            "<priority>0.8</priority><changefreq>daily</changefreq>",
            "<priority>7</priority><loc><![CDATA[http://h.test/b]]></loc>",
            "<loc>/c</loc><lastmod>2024-05-01</lastmod><priority>high</priority>",
            "<lastmod>2024-05-01</lastmod>",
            "<loc>http://h.test/b</loc>",
            "<loc>mailto:a@h.test</loc>",
        ),
        URL,
    )
    at = datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert found.pages == [
        Located("http://h.test/a?x=1&y=2", at, 0.8, "daily"),
        Located("http://h.test/b", None, 1.0),
        Located("http://h.test/c", at.replace(hour=23, minute=59, second=59), 0.5),
    ]
    assert (found.rejected, found.cut, found.sitemaps) == (1, False, [])


def test_addresses_of_pictures_and_films_are_none_of_pages() -> None:
    record = (
        "<loc>http://h.test/a</loc><image:image xmlns:image='i'><image:loc>http://h.test/i.png"
        "</image:loc></image:image><xhtml:link xmlns:xhtml='x' href='/de'/>"
    )
    assert urls(read(url_set(record), URL)) == ["/a"]


@pytest.mark.parametrize(
    "record",
    [
        "<loc><url>http://h.test/a</url></loc><lastmod>2024-05-01</lastmod>",
        "<loc>\n<url><![CDATA[http://h.test/a]]></url>\n</loc><lastmod>2024-05-01</lastmod>",
        "<lastmod>2024-05-01</lastmod><loc><loc>/a</loc></loc>",
        "http://h.test/a<lastmod>2024-05-01</lastmod>",
    ],
)
def test_an_address_in_the_wrong_element_is_one(record: str) -> None:
    found = read(url_set(record, "<loc>/b</loc>"), URL)
    assert urls(found) == ["/a", "/b"]
    assert [page.modified is None for page in found.pages] == [False, True]


def test_a_record_may_have_several_addresses() -> None:
    record = "<loc>/a</loc><loc>/b</loc><priority>0.9</priority><loc>/a</loc><loc>/c</loc>"
    found = read(url_set(record, "<loc>/d</loc>"), URL)
    assert urls(found) == ["/a", "/b", "/c", "/d"]
    assert [page.priority for page in found.pages] == [0.9, 0.9, 0.9, 0.5]


def test_a_record_with_very_many_addresses_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_URLS", 10)
    found = read(url_set("".join(f"<loc>/{n}</loc>" for n in range(15))), URL)
    assert (len(found.pages), found.cut) == (10, True)


@pytest.mark.parametrize(
    "item",
    [
        "<guid>http://h.test/a</guid>",
        "<title>A</title><guid isPermaLink='true'> http://h.test/a </guid>",
        "<guid ispermalink='TRUE'>http://h.test/a</guid><link> </link>",
        "<guid>http://h.test/other</guid><link>/a</link>",
        "<link>/a</link><guid>http://h.test/other</guid>",
        "<link>/a</link><image><url>http://h.test/logo.png</url></image>",
    ],
)
def test_an_item_is_where_its_link_says_or_else_its_guid(item: str) -> None:
    found = read(f"<rss><channel><item>{item}</item></channel></rss>".encode(), URL)
    assert urls(found) == ["/a"]


@pytest.mark.parametrize(
    "body",
    [
        "<rss><item><guid isPermaLink='false'>http://h.test/a</guid></item></rss>",
        "<rss><item><guid isPermaLink=' False '>http://h.test/a</guid></item></rss>",
        "<rss><item><guid>123-456</guid></item></rss>",
        "<rss><item><guid>tag:h.test,2024:1</guid></item></rss>",
        "<rss><item><source><guid>http://h.test/a</guid></source></item></rss>",
        "<rss><channel><image><url>http://h.test/logo.png</url></image></channel></rss>",
        "<urlset><url>no address</url></urlset>",
        "<urlset><url><news><loc>/a</loc></news></url></urlset>",
    ],
)
def test_what_is_no_address_is_none(body: str) -> None:
    assert read(body.encode(), URL).pages == []


def test_an_index_may_lack_its_addresses_elements() -> None:
    body = (
        f"<sitemapindex {SPACE}><sitemap> http://h.test/1.xml?a=1&b=2 </sitemap>"
        "<sitemap><lastmod>2024-01-01</lastmod>http://h.test/2.xml</sitemap>"
        "<sitemap><loc><url>/3.xml</url></loc></sitemap>"
        "<sitemap><loc>/4.xml</loc><loc>/5.xml</loc></sitemap></sitemapindex>"
    )
    found = read(body.encode(), URL)
    assert [url.removeprefix("http://h.test") for url in found.sitemaps] == [
        *("/1.xml?a=1&b=2", "/2.xml", "/3.xml", "/4.xml", "/5.xml")
    ]
    assert (found.pages, found.rejected) == ([], 0)


def test_an_index_has_sitemaps() -> None:
    body = (
        f"<sitemapindex {SPACE}><sitemap><loc>http://h.test/1.xml</loc></sitemap>"
        "<sitemap><loc>http://o.test/2.xml.gz</loc><lastmod>2024-01-01</lastmod></sitemap>"
        "</sitemapindex>"
    )
    found = read(body.encode(), URL)
    assert found.sitemaps == ["http://h.test/1.xml", "http://o.test/2.xml.gz"]
    assert found.pages == []


@pytest.mark.parametrize(
    "body",
    [
        b"http://h.test/a\nhttp://h.test/b",
        b"\xef\xbb\xbfhttp://h.test/a\r\n\r\nhttp://h.test/b\r\n",
        "http://h.test/a\nhttp://h.test/b".encode("utf-16"),
        RSS,
        ATOM,
        url_set("<loc>/a</loc>", "<loc>/b</loc>").decode().encode("utf-16"),
        b" \n" + url_set("<loc>/a</loc>", "<loc>/b</loc>"),
        b"<URLSET><URL><LOC>/a</LOC></URL><url><loc>/b</loc></url></URLSET>",
    ],
    ids=["text", "text-bom", "text-utf16", "rss", "atom", "xml-utf16", "blanks", "capitals"],
)
def test_all_forms_are_read_packed_or_not(body: bytes) -> None:
    assert urls(read(body, URL)) == ["/a", "/b"]
    assert urls(read(gzip.compress(body), URL)) == ["/a", "/b"]
    whole = len(body) // 2
    assert urls(read(gzip.compress(body[:whole]) + gzip.compress(body[whole:]), URL)) == [
        "/a",
        "/b",
    ]


def test_times_of_feeds_are_those_of_mails() -> None:
    body = (
        b"<rss><item><link>/a</link><pubDate>Mon, 01 Jan 2024 10:00:00 GMT</pubDate></item></rss>"
    )
    assert read(body, URL).pages[0].modified == datetime(2024, 1, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "pages"),
    [
        *(
            (b"<urlset><url><loc>/a</loc><lastmod>%s</lastmod></url></urlset>" % time, ["/a"])
            for time in (
                b"Mon, 01 Jan 99999999999999999999 00:00:00 +0000",
                b"Mon, 01 Jan 2024 00:00:00 +99999999999999999999",
            )
        ),
        (b"<urlset><url><loc>/a?x=1&y=2</loc></url></urlset>", ["/a?x=1&y=2"]),
        (b"<urlset><url><loc>/a</loc></url><url><loc>/b</loc></ur><url><loc>/c", ["/a", "/b"]),
        (b"<urlset><url><loc>/a</loc></url><url><loc>/b</loc>", ["/a", "/b"]),
        (b"<urlset><url><loc>/a</loc><url><loc>/b</loc></url></urlset>", ["/a", "/b"]),
        (b"<urlset><url><loc>/a</url><url><loc>/b</loc></url></urlset>", ["/a", "/b"]),
        (b"<urlset><url><loc>/a<lastmod>2024-01-01</lastmod></url></urlset>", ["/a"]),
        (b"<urlset><url><loc>/a<url><loc>/b</loc></url></urlset>", ["/a", "/b"]),
        (b"<html><body>Not found</body></html>", []),
        (b"", []),
        (b"\0\0\0", []),
        (b"\x1f\x8bnonsense", []),
    ],
)
def test_of_a_damaged_file_as_much_is_read_as_can_be(body: bytes, pages: list[str]) -> None:
    assert urls(read(body, URL))[: len(pages)] == pages


def test_a_packed_file_that_ends_too_early_gives_its_beginning() -> None:
    body = gzip.compress(url_set(*[f"<loc>/page-{n}</loc>" for n in range(5000)]))
    found = read(body[: len(body) // 2], URL)
    assert found.cut
    assert 1000 < len(found.pages) < 4000


def test_a_file_of_several_packed_ones_is_read_up_to_a_thousand_of_them() -> None:
    some = gzip.compress(b"<urlset><url><loc>/a</loc></url>")
    rest = gzip.compress(b"<url><loc>/b</loc></url></urlset>")
    both = read(some + gzip.compress(b"") * 900 + rest, URL)
    assert (urls(both), both.cut) == (["/a", "/b"], False)
    cut = read(some + gzip.compress(b"") * 100_000 + rest, URL)
    assert (urls(cut), cut.cut) == (["/a"], True)


def test_there_are_limits_to_urls_bytes_and_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sitemap, "MAX_URLS", 10)
    many = url_set(*[f"<loc>/{n}</loc>" for n in range(20)])
    found = read(many, URL)
    assert (len(found.pages), found.cut) == (10, True)
    monkeypatch.setattr(sitemap, "MAX_BYTES", 300)
    assert len(read(many, URL).pages) < 10
    assert read(gzip.compress(many), URL).cut
    monkeypatch.setattr(sitemap, "_MAX_ELEMENTS", 5)
    assert len(read(many, URL).pages) == 2


def test_entities_load_nothing_and_do_not_grow() -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a0 'aaaaaaaaaa'>" + "".join(
        f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10)
    )
    read(f"{bomb}]><urlset><url><loc>/&a9;</loc></url></urlset>".encode(), URL)
    doctype = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    body = doctype + b"<urlset><url><loc>/&a;</loc></url></urlset>"
    assert urls(read(body, URL)) in ([], ["/"])


@given(st.binary() | st.text().map(str.encode))
def test_nothing_makes_it_fail(body: bytes) -> None:
    for each in (body, b"<urlset><url><loc>/a" + body, gzip.compress(body)):
        assert isinstance(read(each, URL), Sitemap)


def test_an_address_in_an_attribute_may_have_ampersands() -> None:
    body = b"<feed><entry><link href='http://h.test/?a=1&amp;b=2'/></entry></feed>"
    assert [page.url for page in read(body, "http://h.test/").pages] == ["http://h.test/?a=1&b=2"]


def test_elements_within_elements_within_elements_end_a_sitemap() -> None:
    start = b"<urlset><url><loc>http://h.test/a</loc></url>"
    for levels, is_cut in ((50, False), (100_000, True)):
        found = read(start + b"<url>" * levels, "http://h.test/sitemap.xml")
        assert ([page.url for page in found.pages], found.cut) == (["http://h.test/a"], is_cut)
