"""What was fetched is read by its type."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.parsing.document import Document
from crawler.parsing.html import HtmlReader
from crawler.parsing.reader import DocumentReader, ReaderOptions, is_large, is_light
from crawler.urls import UrlRules
from crawler.urls.canonical import dropped_parameters

URL = "http://h.test/dir/feed"
READER = DocumentReader(HtmlReader(max_links=100), max_links=100)
RSS = b"""<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title> News </title>
<link>/home</link><image><link>/logo</link></image>
<item><title>One</title><link> http://h.test/1?utm_source=rss </link></item>
<item><link>2</link></item><item><link/></item></channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link rel="self" href="/f"/>
<link href="/home"/><entry><link rel="alternate" href="a"/><link rel="edit" href="/e"/></entry>
</feed>"""
RDF = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
xmlns="http://purl.org/rss/1.0/"><item><link>/r</link></item></rdf:RDF>"""


@pytest.mark.parametrize(
    ("body", "content_type", "links"),
    [
        (RSS, "application/rss+xml", ["/home", "/1", "/dir/2"]),
        (RSS, "text/xml; charset=utf-8", ["/home", "/1", "/dir/2"]),
        (ATOM, "application/atom+xml", ["/home", "/dir/a"]),
        (RDF, "application/rdf+xml", ["/r"]),
        (b"<urlset><url><loc>http://h.test/x</loc></url></urlset>", "application/xml", []),
        (b"<rss><channel><item><link>/cut</link>", "text/xml", ["/cut"]),
        (b"no xml", "text/xml", []),
        (b"", "text/xml", []),
        (b"<html xmlns='x'><body><a href='/a'>x</a></body></html>", "application/xml", ["/a"]),
        (b"<a href=/a>x</a>", "text/html", ["/a"]),
        (b"<a href=/a>x</a>", "", ["/a"]),
        (b"<a href=/a>x</a>", "text/plain", []),
        (b'{"a": "<a href=/a>"}', "application/json", []),
        (b"%PDF-1.7 <a href=/a>", "application/pdf", []),
    ],
)
def test_links_by_type(body: bytes, content_type: str, links: list[str]) -> None:
    found = READER.read(body, URL, content_type=content_type)
    assert found.links == [f"http://h.test{link}" for link in links]
    assert READER.read(body, URL, content_type=content_type, nofollow=True).links == []


def test_a_feed_has_a_title_and_entities_stay_unread(tmp_path: object) -> None:
    assert READER.read(RSS, URL, content_type="text/xml").title == "News"
    bomb = b"""<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;"><!ENTITY f SYSTEM
    "file:///etc/passwd">]><rss><channel><title>&b;&f;</title></channel></rss>"""
    assert READER.read(bomb, URL, content_type="text/xml").title == ""


@pytest.mark.parametrize(
    ("item", "links"),
    [
        ("<guid>http://h.test/a</guid>", ["/a"]),
        ("<link/><guid isPermaLink='true'>\nhttp://h.test/a</guid>", ["/a"]),
        ("<guid>http://h.test/a</guid><link>/b</link>", ["/b"]),
        ("<guid isPermaLink='false'>http://h.test/a</guid>", []),
        ("<guid>a-1</guid>", []),
        ("<x><guid>http://h.test/a</guid></x>", []),
    ],
)
def test_an_item_without_a_link_is_where_its_guid_says(item: str, links: list[str]) -> None:
    body = f"<rss><channel><item>{item}</item></channel></rss>".encode()
    found = READER.read(body, URL, content_type="text/xml")
    assert found.links == [f"http://h.test{link}" for link in links]


def test_plain_text_is_text() -> None:
    found = READER.read(b"some \n text <b>", URL, content_type="text/plain")
    assert (found.text, found.title, found.charset) == ("some text <b>", "", "utf-8")


def test_a_query_is_escaped_in_the_encoding_of_its_page() -> None:
    body = "<a href='/é?é=€&x=語'>x</a>".encode("cp1252", "xmlcharrefreplace")
    found = READER.read(body, URL, content_type="text/html; charset=latin1")
    assert found.links == ["http://h.test/%C3%A9?%E9=%80&x=%26%2335486%3B"]


@given(st.binary(), st.sampled_from(["text/html", "text/xml", "text/plain", "", "x"]))
def test_any_body_is_read(body: bytes, content_type: str) -> None:
    assert isinstance(READER.read(body, URL, content_type=content_type), Document)


@given(st.text(st.sampled_from("<>/=\"' \nabpdivtrsxlinkhref!-&;")))
def test_any_mixture_of_tags_is_read(html: str) -> None:
    assert isinstance(READER.read(html.encode(), URL), Document)


@pytest.mark.parametrize("url", ["about:blank", "", "http://u:p@h.test/", "nonsense"])
def test_a_page_from_nowhere_has_no_links(url: str) -> None:
    assert READER.read(b"<title>T</title><a href=http://h.test/>x</a>", url).links == []


def test_pages_of_many_bytes_or_tags_are_not_light() -> None:
    assert is_light(b"<p>" * 3_400)
    assert is_light(b"word " * 7_000)
    assert not is_light(b"word " * 9_000)
    assert not is_large(b"word " * 70_000)
    assert is_large(b"word " * 90_000)
    assert not is_light(b"<p>" * 3_600)
    # Finding the main text takes longer.
    assert not is_light(b"<p>" * 3_400, with_main_text=True)
    assert not is_light(b"<p>" * 1_600, with_main_text=True)
    assert is_light(b"<p>" * 1_400, with_main_text=True)
    assert is_light(b"", with_main_text=True)
    # Text and JSON show no tags, and may take long.
    assert not is_light(b"word " * 7_000, "application/json")
    assert is_light(b"word " * 2_000, "application/json")


def test_another_process_makes_the_same_reader_of_the_options() -> None:
    rules = UrlRules(dropped=dropped_parameters(("own*", "sid=id")), fold=frozenset({"www"}))
    options = ReaderOptions({"max_links": 3, "unread": ["nav"], "main_text": True}, rules)
    sent = json.loads(json.dumps(options.to_record()))
    assert ReaderOptions.from_record(sent) == options
    page = (
        b"<nav>Menu</nav><p>Text<a href='/b?own1=x&y=z'>x</a><a href=/c>x</a>" + b"<a href=/d>" * 9
    )
    mine, theirs = options.reader(), ReaderOptions.from_record(sent).reader()
    assert mine.read(page, URL) == theirs.read(page, URL)
    assert mine.read(page, URL).links[0] == "http://h.test/b?y=z"
