"""Statuses that are worth another attempt go back to the frontier."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import default_settings

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.middlewares.retries import Retries
from crawler.scheduling.outcome import Bury, Retry
from crawler.util.request_meta import GIVEN_UP, LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"


def after(
    status: int, *, attempts: int = 0, headers: dict[str, Any] | None = None, **meta: Any
) -> tuple[Request | Response, list[tuple[Any, ...]]]:
    """What the middleware returns for an answer, and what it asked of the scheduler."""
    scheduler = WritingScheduler()
    retries = Retries.from_crawler(crawler_with(scheduler))
    request = Request(URL, meta={LEASE: lease_of(URL, attempts=attempts), **meta})
    found = retries.process_response(request, Response(URL, status=status, headers=headers))
    return found, scheduler.calls


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524])
def test_a_passing_trouble_is_tried_again_later(status: int) -> None:
    found, calls = after(status)
    assert isinstance(found, Request)
    ((verb, url, decision),) = calls
    assert (verb, url) == ("fail", URL)
    assert isinstance(decision, Retry)
    assert decision.reason == f"status_{status}"
    assert 30_000 <= decision.delay_ms <= 33_000


@pytest.mark.parametrize("status", [200, 204, 301, 304, 400, 401, 403, 404, 410, 451, 501])
def test_any_other_answer_is_the_spiders(status: int) -> None:
    found, calls = after(status)
    assert isinstance(found, Response)
    assert calls == []


def test_what_scrapy_tries_again_is_tried_again() -> None:
    assert set(default_settings.RETRY_HTTP_CODES) <= set(ours.RETRY_HTTP_CODES)


def test_the_settings_say_which_statuses_are_tried_again() -> None:
    crawler = crawler_with(WritingScheduler(), RETRY_HTTP_CODES="403, 599")
    retries = Retries.from_crawler(crawler)
    for status, kind in ((403, Request), (599, Request), (503, Response)):
        request = Request(URL, meta={LEASE: lease_of(URL)})
        found = retries.process_response(request, Response(URL, status=status))
        assert isinstance(found, kind)
    with pytest.raises(ConfigurationError, match=r"RETRY_HTTP_CODES is '5xx'; give numbers"):
        Retries.from_crawler(crawler_with(WritingScheduler(), RETRY_HTTP_CODES="5xx"))


def test_after_the_last_attempt_the_spider_sees_the_answer_before_the_url_is_buried() -> None:
    scheduler = WritingScheduler()
    request = Request(URL, meta={LEASE: lease_of(URL, attempts=3)})
    answer = Response(URL, status=503)
    found = Retries.from_crawler(crawler_with(scheduler)).process_response(request, answer)
    assert found is answer
    # Its lease is settled when sinks have the page: see Leases, and Failures for spiders that do
    # not want such answers.
    assert scheduler.calls == []
    assert request.meta[GIVEN_UP] == Bury("status_503")


def test_the_wait_that_the_host_asks_for_is_obeyed_up_to_a_day() -> None:
    for value, wait_ms in ((b"1000", 1_000_000), (b"999999999", 86_400_000)):
        _, ((_, _, decision),) = after(503, headers={"Retry-After": value})
        assert decision == Retry(wait_ms, "status_503")


@pytest.mark.parametrize(
    "meta",
    [
        {"dont_retry": True},
        {"handle_httpstatus_list": [503]},
        {"handle_httpstatus_all": True},
        {LEASE: None},
    ],
)
def test_a_request_may_want_its_answer_as_it_is(meta: dict[str, Any]) -> None:
    found, calls = after(503, **meta)
    assert isinstance(found, Response)
    assert calls == []


@pytest.mark.parametrize(("attempts", "kept"), [(0, None), (2, None), (3, False)])
def test_on_the_last_attempt_a_body_is_kept_as_far_as_it_came(
    attempts: int, kept: bool | None
) -> None:
    retries = Retries.from_crawler(crawler_with(WritingScheduler()))
    request = Request(URL, meta={LEASE: lease_of(URL, attempts=attempts)})
    retries.process_request(request)
    assert request.meta.get("download_fail_on_dataloss") is kept


@pytest.mark.parametrize("fails", [True, False])
def test_who_sets_it_decides_what_becomes_of_short_bodies(fails: bool) -> None:
    crawler = crawler_with(WritingScheduler(), DOWNLOAD_FAIL_ON_DATALOSS=fails)
    request = Request(URL, meta={LEASE: lease_of(URL, attempts=3)})
    Retries.from_crawler(crawler).process_request(request)
    assert "download_fail_on_dataloss" not in request.meta


def test_what_a_spider_said_of_short_bodies_stays() -> None:
    retries = Retries.from_crawler(crawler_with(WritingScheduler()))
    meta = {LEASE: lease_of(URL, attempts=3), "download_fail_on_dataloss": True}
    request = Request(URL, meta=meta)
    retries.process_request(request)
    assert request.meta["download_fail_on_dataloss"] is True


def test_an_entry_remembers_why_it_failed() -> None:
    entry = lease_of(URL).entry
    for number in range(20):
        entry = entry.retried(f"status_{number}", now_s=100.4 + number)
    assert entry.tail["history"][-2:] == [["status_18", 118], ["status_19", 119]]
    assert len(entry.tail["history"]) == 8
    assert entry.attempts == 20
