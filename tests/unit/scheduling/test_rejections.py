"""Requests that are not taken are told, in words and not without end."""

import logging

import pytest
from scrapy import Request

from crawler.scheduler import Rejections
from crawler.scheduling.request_codec import NotCarried
from crawler.urls import Rejected


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
    ("url", "reason", "text"),
    [
        (
            "https://me:secret@h.test/a",
            "credentials",
            "<GET https://me:***@h.test/a> is not fetched: a URL with a user name or",
        ),
        (
            "https://me:secret@h.test/a",
            "credentials",
            "crawled; leave them out and set HTTPAUTH_USER, HTTPAUTH_PASS and HTTPAUTH_DOMAIN.",
        ),
        ("ftp://h.test/", "scheme", "<GET ftp://h.test/> is not fetched: only http and https are"),
        (f"http://h.test/{'a' * 3000}", "too_long", "a…> is not fetched: it is too long (URL_L"),
    ],
)
def test_a_url_that_is_not_crawled_is_named_with_what_to_do(
    caplog: pytest.LogCaptureFixture, url: str, reason: str, text: str
) -> None:
    counted: list[tuple[str, int]] = []
    Rejections(lambda *facts: counted.append(facts)).add(Request(url), Rejected(reason))
    (line,) = told(caplog)
    assert text in line
    assert len(line) < 500
    assert caplog.records[0].levelno == logging.WARNING
    assert counted == [(f"scheduler/rejected/{reason}", 1)]


def test_the_first_few_of_each_kind_are_told(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []
    rejections = Rejections(lambda name, _by: counted.append(name))
    for _ in range(100):
        rejections.add(Request("ftp://h.test/"), Rejected("scheme"))
        rejections.add(Request("http://h.test/"), NotCarried("its meta has a thing in it."))
    lines = told(caplog)
    assert len(counted) == 200
    assert len(lines) == 10
    assert lines[0] == lines[2]
    assert lines[-2].endswith("More of these are only counted, as scheduler/rejected/scheme.")
    assert lines[-1] == (
        "its meta has a thing in it. More of these are only counted, as "
        "scheduler/rejected/not_carried."
    )
    assert {record.levelname for record in caplog.records} == {"WARNING", "ERROR"}
