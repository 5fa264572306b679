"""The last word on a URL that has no page is recorded before its lease is settled."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError, IgnoreRequest
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from crawler.download.errors import (
    Forbidden,
    Malformed,
    NotRendered,
    RenderingFull,
    StoppedTooLong,
    TooBigUnpacked,
)
from crawler.errors import NotStored
from crawler.frontier import Added, Entry, Kind, Lease
from crawler.frontier.outbox import SeenCache, UrlAdder
from crawler.items import NOT_MODIFIED, Page
from crawler.scheduling.outcome import Bury, Retry, SettlingErrback
from crawler.servers.health import GaveUp
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, lease_of
from tests.support.waiting import until

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


def test_a_url_without_a_file_descriptor_for_it_is_not_charged_for_that(
    scheduler: WritingScheduler,
) -> None:
    # Even after its last attempt, and whatever its own errback would do.
    lease = lease_of(URL, attempts=3)
    shown: list[Failure] = []
    errback = SettlingErrback(scheduler.failures, lease, shown.append)
    assert errback(Failure(OutOfSockets("too many open files"))) is None
    assert scheduler.calls == [("hand_back", URL, 1000)]
    assert scheduler.out_of_sockets == ["too many open files"]
    assert not shown


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
    assert scheduler.leases.settling == {lease.key}
    recorder.futures[0].set_result(None)
    await asyncio.sleep(0)
    assert scheduler.calls == [settled]
    assert not scheduler.leases.settling


async def test_an_answer_that_the_spider_does_not_take_is_recorded_as_what_it_was(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    lease = lease_of(attempts=1)
    response = Response(URL, status=404, request=Request(URL, meta={LEASE: lease}))
    failed(scheduler, HttpError(response), lease)
    (page,) = recorder.pages
    assert (page.url, page.status, page.reason, page.stored) == (URL, 404, "status_404", False)
    assert (page.error_count, page.last_error) == (2, "status_404")
    recorder.futures[0].set_result(None)
    await asyncio.sleep(0)
    assert scheduler.calls == [("done", URL, False)]


@pytest.mark.parametrize(
    ("error", "stat"),
    [
        (HttpError(Response(URL, status=404, request=Request(URL))), "failed/status_404"),
        (
            HttpError(Response(URL, status=304, request=Request(URL), flags=[NOT_MODIFIED])),
            "pages/not_modified",
        ),
        (TooBigUnpacked(), "failed/too_big"),
        # Somebody's decision, and no failure.
        (Forbidden("robots", "no"), ""),
        (IgnoreRequest(), ""),
    ],
)
async def test_what_fails_is_counted_and_what_is_left_out_is_not(
    scheduler: WritingScheduler, error: Exception, stat: str
) -> None:
    failed(scheduler, error, lease_of())
    assert scheduler.leases.why_no_page == [stat]


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
    failed(scheduler, DownloadTimeoutError(), lease_of(kind=Kind.SITEMAP))
    scheduler.failures.record = None
    failed(scheduler, DownloadTimeoutError(), lease_of())
    assert scheduler.calls == [("fail", URL, Bury("timeout"))] * 2
    assert recorder.pages == []


async def test_a_spider_may_call_its_own_callback_like_that_of_sitemaps(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    failed(scheduler, DownloadTimeoutError(), lease_of(tail={"callback": "parse_sitemap"}))
    assert [page.reason for page in recorder.pages] == ["timeout"]


async def test_the_record_of_a_failure_says_how_its_url_is_written(
    scheduler: WritingScheduler, recorder: Recorder
) -> None:
    failed(scheduler, DownloadTimeoutError(), lease_of(written="?utm_id=1"))
    (page,) = recorder.pages
    assert (page.url, page.final_url) == (URL, f"{URL}?utm_id=1")


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


@pytest.mark.parametrize("attempts", [0, 3])
def test_a_page_for_which_no_browser_is_free_comes_back_without_an_attempt(
    scheduler: WritingScheduler, attempts: int
) -> None:
    lease = lease_of(attempts=attempts, queue=2)
    assert scheduler.failures.retry(lease, Failure(RenderingFull()))
    ((verb, url, delay_ms, queue),) = scheduler.calls
    assert (verb, url, queue) == ("postpone", URL, 2)
    assert 5_000 <= delay_ms <= 10_000


def test_a_page_that_its_browser_did_not_survive_is_tried_again_as_long_as_others(
    scheduler: WritingScheduler,
) -> None:
    assert scheduler.failures.retry(lease_of(attempts=2), Failure(NotRendered("crashed")))
    ((verb, url, decision),) = scheduler.calls
    assert (verb, url, decision.reason) == ("fail", URL, "rendering")
    assert isinstance(decision, Retry)
    assert not scheduler.failures.retry(lease_of(attempts=3), Failure(NotRendered("crashed")))


class SlowOutbox:
    """Says when Redis has what was added."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Added]] = []

    def add(self, entries: Sequence[Entry], *, mode: str) -> asyncio.Future[Added]:
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


async def ended(generator: AsyncIterator[Any]) -> None:
    """Take what an errback gives, until its end or its error."""
    with suppress(ValueError):
        async for _ in generator:
            pass


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    ("outcome", "verb"), [(Added("1"), "done"), (GaveUp("Redis is away"), "hand_back")]
)
async def test_a_url_is_settled_when_redis_has_what_its_errback_gave(
    scheduler: WritingScheduler, outcome: Added | Exception, verb: str, fails: bool
) -> None:
    outbox = SlowOutbox()
    scheduler.adder = UrlAdder(outbox, SeenCache(10), lambda _name, _by: None)  # type: ignore[arg-type]

    def errback(failure: Failure) -> Iterator[str]:
        # As the engine does with a request.
        scheduler.adder.send(lease_of("http://h.test/b").entry, "all", lambda: None)
        yield "a request"
        if fails:
            raise ValueError("in the errback")

    output = SettlingErrback(scheduler.failures, lease_of(), errback)(Failure(IgnoreRequest()))
    reading = asyncio.ensure_future(ended(output))
    await until(lambda: outbox.futures)
    await asyncio.wait([reading], timeout=0.05)
    assert scheduler.calls == []
    answer(outbox.futures[0], outcome)
    await reading
    assert [call[0] for call in scheduler.calls] == [verb]


def answer(future: asyncio.Future[Added], outcome: Added | Exception) -> None:
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
