"""Redirects become requests of their own for the frontier."""

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.middlewares.redirects import LOOP, TOO_MANY, Redirects
from tests.support.crawlers import project_crawler

URL = "http://h.test/a"


@pytest.fixture
def redirects() -> Redirects:
    found = Redirects.from_crawler(project_crawler(REDIRECT_MAX_TIMES=2))
    assert isinstance(found, Redirects)
    return found


def redirect(status: int, location: str | bytes) -> Response:
    return Response(URL, status=status, headers={"Location": location})


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/b", "http://h.test/b"),
        ("http://other.test/", "http://other.test/"),
        (b"/\xc3\xbc", "http://h.test/%C3%BC"),
    ],
)
def test_a_redirect_is_another_request(
    redirects: Redirects, status: int, location: str | bytes, target: str
) -> None:
    request = Request(URL, headers={"Referer": "http://from.test/", "X-Mine": "1"})
    found = redirects.process_response(request, redirect(status, location))
    assert isinstance(found, Request)
    assert found.url == target
    assert "Referer" not in found.headers
    assert found.meta["redirect_urls"] == [URL]


def test_a_redirect_without_a_target_is_an_answer(redirects: Redirects) -> None:
    response = Response(URL, status=302)
    assert redirects.process_response(Request(URL), response) is response


@pytest.mark.parametrize(
    "location",
    [
        *(b"http://[bad", b"http://[::1]x/", b"http://h.test:99999/", b"http://h.test:x/"),
        *(b"javascript:void(0)", b"mailto:a@h.test", b"x:y", b"ftp://h.test/"),
    ],
)
def test_a_redirect_to_nowhere_is_an_answer(redirects: Redirects, location: bytes) -> None:
    request = Request(URL, headers={"Authorization": "x"})
    response = redirect(302, location)
    assert redirects.process_response(request, response) is response


def test_there_is_an_end_to_redirects(redirects: Redirects) -> None:
    request: Request | Response = Request(URL)
    for step in range(2):
        assert isinstance(request, Request)
        request = redirects.process_response(request, redirect(302, f"/{step}"))
    assert isinstance(request, Request)
    found = redirects.process_response(request, redirect(302, "/3"))
    assert isinstance(found, Response)
    assert found.flags == [TOO_MANY]
    assert redirects.crawler.stats is not None
    assert redirects.crawler.stats.get_value("redirects/too_many_redirects") == 1
    assert redirects.crawler.stats.get_value("redirects/302") == 2


@pytest.mark.parametrize("way", [["/a"], ["/b", "/a"], ["/a#part"]])
def test_a_loop_ends_as_the_answer_it_is(redirects: Redirects, way: list[str]) -> None:
    found: Request | Response = Request(URL)
    for location in way:
        assert isinstance(found, Request)
        found = redirects.process_response(found, redirect(302, location))
    assert isinstance(found, Response)
    assert (found.status, found.flags) == (302, [LOOP])


def test_a_loop_is_seen_though_its_request_names_a_part_of_the_page(redirects: Redirects) -> None:
    found = redirects.process_response(Request(f"{URL}#part"), redirect(302, "/a"))
    assert isinstance(found, Response)
    assert found.flags == [LOOP]


def test_an_unfiltered_request_may_come_back_to_itself(redirects: Redirects) -> None:
    request = Request(URL, dont_filter=True)
    assert isinstance(redirects.process_response(request, redirect(302, "/a")), Request)


def test_the_way_is_kept_with_its_statuses(redirects: Redirects) -> None:
    found = redirects.process_response(Request(URL), redirect(301, "/b"))
    assert isinstance(found, Request)
    assert found.meta["redirect_urls"] == [URL]
    assert found.meta["redirect_reasons"] == [301]


def test_a_spider_may_want_the_redirect_itself(redirects: Redirects) -> None:
    request = Request(URL, meta={"dont_redirect": True})
    response = redirect(302, "/b")
    assert redirects.process_response(request, response) is response
