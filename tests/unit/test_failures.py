"""The last word on a URL that has no page is recorded before its lease is settled."""

import asyncio
from typing import Any

import pytest
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError, IgnoreRequest
from twisted.python.failure import Failure

from crawler import sitemaps
from crawler.errors import NotStored
from crawler.fetch_errors import Forbidden, Malformed, StoppedTooLong, TooBigUnpacked
from crawler.frontier import Lease
from crawler.items import Page
from crawler.policy.retry import Bury, Retry
from tests.unit.schedulers import WritingScheduler, lease_of

URL = "http://h.test/a"


class Recorder:
    """Takes pages, and says when they are durable."""

    def __init__(self) -> None:
        self.pages: list[Page] = []
        self.futures: list[asyncio.Future[None]] = []

    def __call__(self, page: Page) -> asyncio.Future[None]:
        self.pages.append(page)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


@pytest.fixture
def scheduler() -> WritingScheduler:
    return WritingScheduler()


@pytest.fixture
async def recorder(scheduler: WritingScheduler) -> Recorder:
    scheduler.failures.record = recorder = Recorder()
    return recorder


def failed(scheduler: WritingScheduler, error: Exception, lease: Lease) -> None:
    scheduler.failures.settle(lease, Failure(error))


@pytest.mark.parametrize(
    ("error", "settled", "known"),
    [
        (DownloadTimeoutError(), ("fail", URL, Bury("timeout")), ("timeout", 4, True)),
        (DownloadFailedError(), ("fail", URL, Bury("connection")), ("connection", 4, True)),
        (Malformed(), ("fail", URL, Bury("malformed")), ("malformed", 4, True)),
        (StoppedTooLong(), ("fail", URL, Bury("stood_still")), ("stood_still", 4, True)),
        (Forbidden("robots", "no"), ("done", URL, False), ("robots", 3, False)),
        (Forbidden("host_rules", "no"), ("done", URL, False), ("host_rules", 3, True)),
        (IgnoreRequest(), ("done", URL, False), ("IgnoreRequest", 4, True)),
        (TooBigUnpacked(), ("done", URL, False), ("too_big", 4, True)),
    ],
)
async def test_a_url_is_settled_when_its_record_is_durable(
    scheduler: WritingScheduler,
    recorder: Recorder,
    error: Exception,
    settled: tuple[Any, ...],
    known: tuple[Any, ...],
) -> None:
    lease = lease_of(depth=2, attempts=3, queue=4)
    failed(scheduler, error, lease)
    (page,) = recorder.pages
    assert (page.reason, page.error_count, page.robots_allowed) == known
    assert (page.url, page.status, page.depth, page.priority) == (URL, 0, 2, 4)
    assert page.last_error == ("" if isinstance(error, Forbidden) else page.reason)
    assert not page.stored
    assert scheduler.calls == []
    # A lease that waits for its record is not lost sight of.
    assert scheduler.failures.recording == {lease.key}
    recorder.futures[0].set_result(None)
    await asyncio.sleep(0)
    assert scheduler.calls == [settled]
    assert not scheduler.failures.recording


async def test_without_a_place_for_it_the_url_goes_back(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    failed(scheduler, DownloadTimeoutError(), lease_of())
    recorder.futures[0].set_exception(NotStored("away"))
    await asyncio.sleep(0)
    assert scheduler.calls == [("hand_back", URL, 0)]


async def test_a_record_that_is_refused_does_not_keep_the_url(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    failed(scheduler, DownloadTimeoutError(), lease_of())
    recorder.futures[0].set_exception(ValueError("odd"))
    await asyncio.sleep(0)
    assert scheduler.calls == [("fail", URL, Bury("timeout"))]


async def test_what_was_made_of_a_page_is_recorded_at_the_last_failure_only(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    again, last = Retry(1, "item_error"), Bury("item_error")
    scheduler.failures.fail(lease_of(), again)
    assert scheduler.calls == [("fail", URL, again)]
    scheduler.failures.fail(lease_of(), last)
    recorder.futures[0].set_result(None)
    await asyncio.sleep(0)
    assert scheduler.calls[1:] == [("fail", URL, last)]
    assert recorder.pages[0].reason == "item_error"


async def test_sitemaps_are_no_pages_and_without_a_store_nothing_waits(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    failed(scheduler, DownloadTimeoutError(), lease_of(tail={"callback": sitemaps.CALLBACK}))
    scheduler.failures.record = None
    failed(scheduler, DownloadTimeoutError(), lease_of())
    assert scheduler.calls == [("fail", URL, Bury("timeout"))] * 2
    assert recorder.pages == []


@pytest.mark.parametrize(
    ("meta", "attempts", "is_last"),
    [
        ({}, 0, False),
        ({"dont_retry": True}, 0, True),
        ({"dont_retry": False}, 0, False),
        ({"max_retry_times": 0}, 0, True),
        ({"max_retry_times": 1}, 0, False),
        ({"max_retry_times": 1}, 1, True),
        ({"max_retry_times": 5}, 4, False),
        ({"max_retry_times": 5, "dont_retry": True}, 0, True),
        ({"max_retry_times": 99}, 30, False),
        ({"max_retry_times": 99}, 31, True),
        ({"max_retry_times": None}, 2, False),
        ({"max_retry_times": None}, 3, True),
    ],
)
def test_a_request_may_say_how_often_it_is_retried(
    scheduler: WritingScheduler, meta: dict[str, Any], attempts: int, is_last: bool
) -> None:
    lease = lease_of(attempts=attempts, tail={"meta": meta})
    failures = scheduler.failures
    assert failures.is_last(lease) is is_last
    assert failures.retry(lease, Failure(DownloadTimeoutError())) is not is_last
    assert isinstance(failures.decide(lease, "status_503"), Bury if is_last else Retry)
