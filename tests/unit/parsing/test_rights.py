"""Statements about the use of pages, word for word."""

from scrapy.http import Headers

from crawler.parsing.html import HtmlReader
from crawler.parsing.rights import MAX_CHARS, MAX_STATEMENTS, by_headers

URL = "http://h.test/"


def test_headers_are_kept_as_they_were_sent() -> None:
    headers = Headers(
        {
            "Content-Type": "text/html",
            "X-Robots-Tag": ["noindex", "otherbot: noai, NoImageAI"],
            "TDM-Reservation": "1",
            "tdm-policy": " https://h.test/policy.json ",
            "Content-Usage": "train-ai=n",
        }
    )
    assert by_headers(headers) == [
        "X-Robots-Tag: otherbot: noai, NoImageAI",
        "TDM-Reservation: 1",
        "TDM-Policy: https://h.test/policy.json",
        "Content-Usage: train-ai=n",
    ]


def test_a_page_without_statements_has_none() -> None:
    assert by_headers(Headers({"X-Robots-Tag": "noindex, noarchive"})) == []
    html = '<meta name="robots" content="noindex"><meta name="keywords" content="noai">'
    assert HtmlReader(max_links=0).read(html, URL).rights == []


def test_meta_tags_are_kept_as_they_are_written() -> None:
    html = """<meta name="Robots" content="max-snippet:5, NOAI, noimageai">
    <meta name="tdm-reservation" content="1"><meta name="TDM-policy" content="/p.json">"""
    assert HtmlReader(max_links=0).read(html, URL).rights == [
        "robots: max-snippet:5, NOAI, noimageai",
        "tdm-reservation: 1",
        "tdm-policy: /p.json",
    ]


def test_statements_are_bounded_in_number_and_length() -> None:
    headers = Headers({"TDM-Policy": ["x" * 9000] * 500})
    found = by_headers(headers)
    assert len(found) == MAX_STATEMENTS
    assert {len(text) for text in found} == {MAX_CHARS}
