"""Pages that are known are asked for only if they changed."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawler.items import NOT_MODIFIED
from crawler.middlewares.conditional import Conditional
from crawler.util.request_meta import LEASE
from tests.support.schedulers import lease_of

URL = "http://h.test/a"
DATE = "Sun, 09 Sep 2001 01:46:40 GMT"


@pytest.fixture
def conditional() -> Conditional:
    return Conditional()


def leased(tail: dict[str, Any], **fields: Any) -> Request:
    return Request(URL, meta={LEASE: lease_of(URL, tail=tail)}, **fields)


@pytest.mark.parametrize(
    ("tail", "headers"),
    [
        ({}, {}),
        ({"callback": "parse"}, {}),
        ({"etag": '"1"'}, {"If-None-Match": b'"1"'}),
        ({"last_modified": DATE}, {"If-Modified-Since": DATE.encode()}),
        (
            {"etag": 'W/"1"', "last_modified": DATE},
            {"If-None-Match": b'W/"1"', "If-Modified-Since": DATE.encode()},
        ),
        ({"etag": ""}, {}),
    ],
)
def test_validators_of_the_entry_become_headers(
    conditional: Conditional, tail: dict[str, Any], headers: dict[str, bytes]
) -> None:
    request = leased(tail)
    conditional.process_request(request)
    for name in ("If-None-Match", "If-Modified-Since"):
        assert request.headers.get(name) == headers.get(name)


def test_a_header_of_the_users_own_stays(conditional: Conditional) -> None:
    request = leased({"etag": '"1"'}, headers={"If-None-Match": '"mine"'})
    conditional.process_request(request)
    assert request.headers["If-None-Match"] == b'"mine"'


def test_an_answer_without_a_body_is_marked(conditional: Conditional) -> None:
    request = leased({"etag": '"1"'})
    conditional.process_request(request)
    found = conditional.process_response(request, Response(URL, status=304))
    assert (found.status, found.flags) == (304, [NOT_MODIFIED])


def test_an_answer_to_a_question_that_nobody_asked_is_not(conditional: Conditional) -> None:
    request, response = leased({}), Response(URL, status=304)
    conditional.process_request(request)
    assert conditional.process_response(request, response) is response


@pytest.mark.parametrize("status", [200, 301, 404])
def test_any_other_answer_is_as_it_is(conditional: Conditional, status: int) -> None:
    response = Response(URL, status=status)
    assert conditional.process_response(leased({"etag": '"1"'}), response) is response


def test_a_request_without_a_lease_is_none_of_its_business(conditional: Conditional) -> None:
    request, response = Request(URL), Response(URL, status=304)
    conditional.process_request(request)
    assert conditional.process_response(request, response) is response
