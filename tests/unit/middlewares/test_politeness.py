"""The outcome of a fetch becomes the rest of its host."""

from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
)
from scrapy.http import Response

from crawler.download.errors import Malformed, NotRendered, RenderingFull, StoppedTooLong
from crawler.middlewares.politeness import CRAWL_DELAY, PolitenessMiddleware
from crawler.politeness.host_delays import Fetch, HostDelays
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import FETCH, FETCH_STARTED, LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"
# Status, headers, and the meta of the request.
Answer = tuple[int, dict[str, Any], dict[str, Any]]


@pytest.fixture
def scheduler() -> WritingScheduler:
    return WritingScheduler()


@pytest.fixture
def middleware(scheduler: WritingScheduler) -> PolitenessMiddleware:
    # No factor: the rest must not depend on how fast this machine is.
    crawler = crawler_with(scheduler, DELAY_FACTOR=0, DELAY_MIN=1, DELAY_MAX=60)
    return PolitenessMiddleware.from_crawler(crawler)


def leased(**meta: Any) -> Request:
    return Request(URL, meta={LEASE: lease_of(URL), **meta})


@pytest.mark.parametrize(
    ("answer", "rest_ms"),
    [
        ((200, {}, {}), 1_000),
        ((200, {}, {CRAWL_DELAY: 5.0}), 5_000),
        ((500, {}, {}), 2_000),
        ((503, {"Retry-After": "120"}, {}), 120_000),
        ((429, {}, {}), 60_000),
        ((503, {"Retry-After": b"\xb2"}, {}), 60_000),
    ],
)
async def test_the_host_rests_as_the_answer_asks(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler, answer: Answer, rest_ms: int
) -> None:
    status, headers, meta = answer
    request = leased(**meta)
    middleware.process_request(request)
    response = Response(URL, status=status, headers=headers)
    assert await middleware.process_response(request, response) is response
    ((verb, url, rests_ms),) = scheduler.calls
    # What is asked for once is not how long the host usually rests.
    assert (verb, url) == ("long_release" if status in {429, 503} else "release", URL)
    # What the host did not ask for is spread by a tenth.
    assert rest_ms <= rests_ms <= rest_ms * (1.1 if rest_ms == 60_000 else 1)
    assert request.meta["fetch_ms"] >= 0


async def test_a_failed_fetch_lets_the_host_rest_too(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = leased()
    middleware.process_request(request)
    await middleware.process_exception(request, OSError())
    assert scheduler.calls == [("release", URL, 2_000)]


class CountedHealth:
    """Of one host, without Redis."""

    def __init__(self) -> None:
        self.failures = 0

    async def count(self, kind: str, host: str) -> int:
        self.failures += 1
        return self.failures

    async def forget_after(self, kind: str, host: str, rest_s: float) -> None:
        pass

    async def worked(self, host: str) -> int:
        before, self.failures = self.failures, 0
        return before


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        (DownloadFailedError(), 2),
        (DownloadTimeoutError(), 2),
        # They say nothing about the host.
        (StoppedTooLong(), 1),
        (IgnoreRequest(), 1),
        # What came was no good, but it came.
        (Malformed(), 0),
        (ResponseDataLossError(), 0),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_only_a_host_that_is_silent_is_on_its_way_to_the_breaker(
    scheduler: WritingScheduler, error: Exception, failures: int
) -> None:
    crawler = crawler_with(scheduler)
    middleware = PolitenessMiddleware.from_crawler(crawler)
    health = CountedHealth()
    HostDelays.of(crawler).health = health  # type: ignore[assignment]
    for met in (DownloadFailedError(), error):
        request = leased()
        middleware.process_request(request)
        await middleware.process_exception(request, met)
    assert health.failures == failures


async def test_a_fetch_is_released_once(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = leased()
    middleware.process_request(request)
    await middleware.process_response(request, Response(URL))
    await middleware.process_exception(request, OSError())
    assert len(scheduler.calls) == 1


async def test_a_host_that_there_was_no_file_descriptor_for_was_not_contacted(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = leased()
    middleware.process_request(request)
    await middleware.process_exception(request, OutOfSockets())
    assert scheduler.calls == []


async def test_what_was_never_fetched_is_not_released(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    await middleware.process_exception(leased(), OSError())
    assert scheduler.calls == []


async def test_a_request_without_a_lease_is_none_of_its_business(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = Request(URL)
    middleware.process_request(request)
    await middleware.process_response(request, Response(URL))
    assert scheduler.calls == []


async def test_a_process_that_may_have_lost_its_lease_hands_it_back_unfetched(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    scheduler.leases.sure = False
    request = leased()
    assert middleware.process_request(request) is request
    assert scheduler.calls == [("hand_back", URL, 0)]


@pytest.fixture
def adaptive(scheduler: WritingScheduler) -> PolitenessMiddleware:
    """A middleware that leaves a host alone for ten times as long as a fetch takes."""
    crawler = crawler_with(scheduler, DELAY_FACTOR=10, DELAY_MIN=0.1, DELAY_MAX=60)
    return PolitenessMiddleware.from_crawler(crawler)


async def test_the_time_that_a_page_takes_to_render_is_not_its_hosts(
    adaptive: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = leased()
    adaptive.process_request(request)
    # As long ago as no fetch takes.
    request.meta[FETCH_STARTED] -= 1000
    request.meta[FETCH] = Fetch(0.5, 200)
    await adaptive.process_response(request, Response(URL))
    assert scheduler.calls == [("release", URL, 5_000)]
    assert request.meta["fetch_ms"] == 500
    assert FETCH not in request.meta


async def test_a_host_that_is_overloaded_by_the_parts_of_a_page_rests_as_it_asks(
    middleware: PolitenessMiddleware, scheduler: WritingScheduler
) -> None:
    request = leased()
    middleware.process_request(request)
    request.meta[FETCH] = Fetch(0.1, 429, 120.0)
    await middleware.process_response(request, Response(URL, status=200))
    assert scheduler.calls == [("long_release", URL, 120_000)]


@pytest.mark.parametrize(
    "error",
    [NotRendered("crashed"), RenderingFull(), OSError("in our own code")],
    ids=lambda error: type(error).__name__,
)
async def test_a_browser_that_fails_is_no_failure_of_the_host(
    scheduler: WritingScheduler, error: Exception
) -> None:
    crawler = crawler_with(scheduler, DELAY_FACTOR=0, DELAY_MIN=1)
    middleware = PolitenessMiddleware.from_crawler(crawler)
    health = CountedHealth()
    health.failures = 3
    HostDelays.of(crawler).health = health  # type: ignore[assignment]
    request = leased()
    middleware.process_request(request)
    request.meta[FETCH] = Fetch(0.1, 200)
    await middleware.process_exception(request, error)
    assert scheduler.calls == [("release", URL, 1_000)]
    assert health.failures == 0


@pytest.mark.parametrize("setting", [{"DOWNLOAD_DELAY": 1}, {"AUTOTHROTTLE_ENABLED": True}])
def test_a_second_clock_is_told(setting: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    PolitenessMiddleware.from_crawler(crawler_with(WritingScheduler()))
    assert not caplog.records
    PolitenessMiddleware.from_crawler(crawler_with(WritingScheduler(), **setting))
    assert f"{next(iter(setting))} is" in caplog.text
    assert "DELAY_MIN" in caplog.text
