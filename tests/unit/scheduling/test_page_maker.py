"""Pages of visits: what the frontier and the response headers say of them."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.discovery.parents import ParentUrls
from crawler.frontier import Lease
from crawler.items import Page, Rendering
from crawler.scheduling.page_maker import MAX_BYTES, MAX_NAMES, MAX_VALUE_BYTES, PageMaker
from crawler.urls import DEFAULT, fingerprint
from crawler.util.request_meta import LEASE, RENDERING
from tests.support.crawlers import project_crawler
from tests.support.schedulers import lease_of

URL = "http://h.test/a"
HOME = "http://h.test/"
NOW_S = 1_800_000_000


def page_of(headers: dict[str, Any], maker: PageMaker | None = None) -> Page:
    """The page of a response that belongs to no lease."""
    response = Response(URL, headers=headers, request=Request(URL))
    return (maker or PageMaker()).page_of(response)


def both_pages(lease: Lease, parents: ParentUrls | None = None) -> list[Page]:
    """The page of a response, and that of a failure."""
    maker = PageMaker(parents=parents)
    response = Response(URL, request=Request(URL, meta={LEASE: lease}))
    return [maker.page_of(response), maker.page_without_response(lease, "timeout")]


def test_a_page_says_when_its_url_was_discovered() -> None:
    for page in both_pages(lease_of(URL, discovered_s=NOW_S)):
        assert page.discovered_at == datetime.fromtimestamp(NOW_S, UTC)
        assert page.discovered_at.tzinfo is UTC


def test_entries_of_earlier_releases_do_not_say_it() -> None:
    for page in both_pages(lease_of(URL)):
        assert page.discovered_at is None


def test_a_plain_get_has_the_hash_of_its_url() -> None:
    for page in both_pages(lease_of(URL, tail={"etag": '"1"'})):
        assert page.url_hash == f"{fingerprint(URL):016x}"


@pytest.mark.parametrize(
    "tail", [{"method": "POST", "body": b"a"}, {"method": "HEAD"}, {"body": b"a"}]
)
def test_another_request_has_the_hash_of_its_entry(tail: dict[str, Any]) -> None:
    lease = lease_of(URL, tail=tail)
    id_ = DEFAULT.fingerprint(URL, tail.get("method", "GET"), tail.get("body", b""))
    lease.entry.id = id_
    for page in both_pages(lease):
        assert page.url_hash == f"{id_:016x}" != f"{fingerprint(URL):016x}"


def test_a_page_has_the_url_of_its_parent_where_it_is_known() -> None:
    parents = ParentUrls()
    parents.remember(7, HOME)
    for page in both_pages(lease_of(URL, parent=7), parents):
        assert (page.parent, page.parent_url) == (f"{7:016x}", HOME)
    for page in both_pages(lease_of(URL, parent=8), parents):
        assert (page.parent, page.parent_url) == (f"{8:016x}", None)
    for page in both_pages(lease_of(URL), parents):
        assert (page.parent, page.parent_url) == ("", None)


def test_all_headers_are_kept_with_their_bytes() -> None:
    page = page_of({"X-Any": b"\xe4\xff", "Content-Type": "text/html", "Set-Cookie": ["a", "b"]})
    assert page.headers == {
        "x-any": "\xe4\xff",
        "content-type": "text/html",
        "set-cookie": "a\nb",
    }


def test_the_last_value_counts_where_the_crawler_reads_it() -> None:
    values = {"Content-Type": ["text/plain", "Text/HTML; charset=x"], "ETag": ['"1"', '"2"']}
    page = page_of(
        {**values, "Last-Modified": ["a", "b"], "Cache-Control": ["no-cache", "private"]}
    )
    assert (page.content_type, page.etag, page.last_modified) == ("text/html", '"2"', "b")
    assert page.headers["cache-control"] == "private"


def test_a_header_without_a_value_is_not_kept() -> None:
    assert page_of({"X-None": [], "X-Empty": ""}).headers == {"x-empty": ""}


def test_long_values_are_cut() -> None:
    page = page_of({"X-Long": "x" * 10_000, "ETag": "y" * 10_000})
    assert {len(value) for value in page.headers.values()} == {MAX_VALUE_BYTES}
    assert len(page_of({"X-Many": ["x" * 99] * 1000}).headers["x-many"]) == MAX_VALUE_BYTES


def test_headers_are_bounded_and_the_needed_ones_come_first() -> None:
    many = {f"X-{number}": "x" for number in range(300)}
    headers = page_of({**many, "Content-Type": "text/html"}).headers
    assert len(headers) == MAX_NAMES
    assert next(iter(headers)) == "content-type"
    large = {f"X-{number}": "x" * 3000 for number in range(10)}
    headers = page_of({**large, "ETag": '"1"'}).headers
    assert 5 <= len(headers) <= 6
    assert headers["etag"] == '"1"'
    assert sum(len(name) + len(value) for name, value in headers.items()) <= MAX_BYTES
    needed = ("Content-Type", "Content-Language", "Cache-Control", "ETag", "Last-Modified")
    assert [*page_of(dict.fromkeys(needed, "x" * 9999)).headers] == [
        "content-type",
        "content-language",
        "cache-control",
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, {"server", "vary", "x-any"}),
        ([], {"server"}),
        ("", {"server"}),
        (["VARY"], {"server", "vary"}),
        ("vary, x-any", {"server", "vary", "x-any"}),
        (["x-missing"], {"server"}),
    ],
)
def test_the_setting_says_which_headers_are_kept(given: Any, kept: set[str]) -> None:
    maker = PageMaker.of(project_crawler(PAGES_HEADERS=given))
    headers = {"Server": "s", "Vary": "v", "X-Any": "a"}
    assert page_of(headers, maker).headers.keys() == kept


def test_a_page_that_was_rendered_says_so_and_how() -> None:
    how = Rendering(
        ms=1200,
        settled=True,
        parts=3,
        parts_cached=0,
        parts_left_out=Counter(image=2),
        console_errors=0,
        routes=["/a"],
        screenshot=b"webp",
    )
    response = Response(URL, request=Request(URL, meta={RENDERING: how}))
    page = PageMaker().page_of(response)
    assert page.rendered
    assert page.extra == {"rendering": how.record()}
    # Neither the picture nor what became links.
    assert how.record().keys().isdisjoint({"routes", "screenshot"})
    assert type(how.record()["parts_left_out"]) is dict
    other = page_of({})
    assert (other.rendered, other.extra) == (False, {})


@pytest.mark.parametrize(("method", "body"), [("GET", b""), ("POST", b"a=1"), ("POST", b"a=2")])
def test_a_response_without_a_lease_is_known_by_its_request(method: str, body: bytes) -> None:
    response = Response(URL, request=Request(URL, method=method, body=body))
    page = PageMaker().page_of(response)
    assert page.url == URL
    assert page.url_hash == f"{fingerprint(URL, method, body):016x}"
