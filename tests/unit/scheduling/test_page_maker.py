"""Pages of visits: what the frontier and the response headers say of them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.discovery.parents import ParentUrls
from crawler.frontier import Lease
from crawler.items import Page
from crawler.scheduling.page_maker import PageMaker
from crawler.urls import DEFAULT, fingerprint
from crawler.util.request_meta import LEASE
from tests.support.schedulers import lease_of

URL = "http://h.test/a"
HOME = "http://h.test/"
NOW_S = 1_800_000_000


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
