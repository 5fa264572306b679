"""What becomes of a lease when its response was taken care of."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from twisted.python.failure import Failure

from crawler.errors import NotStored
from crawler.frontier import Kind, Lease
from crawler.middlewares.leases import Leases
from crawler.scheduling.outcome import Bury, Retry, SettlingErrback
from crawler.util.request_meta import GIVEN_UP, LEASE
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://h.test/a"


async def yields(*outputs: Any) -> AsyncIterator[Any]:
    for output in outputs:
        yield output


async def answered(
    scheduler: WritingScheduler, lease: Lease, status: int, *outputs: Any
) -> tuple[Leases, Response]:
    leases = Leases(crawler_with(scheduler))
    response = Response(URL, status=status, request=Request(URL, meta={LEASE: lease}))
    assert [item async for item in leases.process_spider_output(response, yields(*outputs))] == [
        *outputs
    ]
    return leases, response


@pytest.mark.parametrize(
    ("callback", "kind", "status", "page", "no_page"),
    [
        ("", Kind.PAGE, 200, True, ""),
        ("", Kind.PAGE, 404, False, "failed/status_404"),
        ("", Kind.PAGE, 302, False, "failed/status_302"),
        ("parse_item", Kind.PAGE, 200, True, ""),
        # Of a spider of one's own.
        ("parse_sitemap", Kind.PAGE, 200, True, ""),
        ("parse_sitemap", Kind.SITEMAP, 200, False, ""),
        ("parse_sitemap", Kind.SITEMAP, 404, False, ""),
    ],
)
async def test_good_answers_are_pages_and_sitemaps_are_none(
    callback: str, kind: Kind, status: int, page: bool, no_page: str
) -> None:
    scheduler = WritingScheduler()
    await answered(scheduler, lease_of(URL, kind=kind, tail={"callback": callback}), status)
    assert scheduler.calls == [("done", URL, page)]
    assert scheduler.leases.why_no_page == [no_page]


async def test_an_item_that_had_no_place_to_go_costs_no_attempt() -> None:
    scheduler = WritingScheduler()
    leases, response = await answered(scheduler, lease_of(URL), 200, {"an": "item"})
    leases._item_failed(response, Failure(NotStored("away")))
    assert scheduler.calls == [("hand_back", URL, 0)]


async def test_an_item_that_failed_costs_one() -> None:
    scheduler = WritingScheduler()
    leases, response = await answered(scheduler, lease_of(URL), 200, {"an": "item"})
    leases._item_failed(response, Failure(ValueError("bad")))
    ((verb, _, decision),) = scheduler.calls
    assert verb == "fail"
    assert isinstance(decision, Retry)


async def test_a_lease_whose_errback_has_spoken_waits_for_its_record() -> None:
    scheduler = WritingScheduler()
    lease = lease_of(URL)
    scheduler.leases.settling.add(lease.key)
    await answered(scheduler, lease, 404)
    assert scheduler.calls == []


async def test_what_a_callback_gave_before_it_failed_counts() -> None:
    scheduler = WritingScheduler()
    leases = Leases(crawler_with(scheduler))

    async def failing() -> AsyncIterator[Any]:
        yield Request("http://h.test/found")
        raise ValueError("late")

    response = Response(URL, request=Request(URL, meta={LEASE: lease_of(URL)}))
    with pytest.raises(ValueError, match="late"):
        _ = [item async for item in leases.process_spider_output(response, failing())]
    assert [entry.url for entry in scheduler.added] == ["http://h.test/found"]
    ((verb, _, decision),) = scheduler.calls
    assert (verb, decision.reason) == ("fail", "callback_error_ValueError")


async def test_a_url_that_was_given_up_on_is_buried_when_its_page_is_safe() -> None:
    scheduler, lease, given_up = WritingScheduler(), lease_of(URL, attempts=3), Bury("status_503")
    leases = Leases(crawler_with(scheduler))
    request = Request(URL, meta={LEASE: lease, GIVEN_UP: given_up})
    response = Response(URL, status=503, request=request)
    _ = [each async for each in leases.process_spider_output(response, yields({"an": "item"}))]
    assert scheduler.calls == []
    leases._item_scraped({"an": "item"}, response)
    assert scheduler.calls == [("fail", URL, given_up)]


def test_so_is_one_whose_spider_takes_no_such_answer() -> None:
    scheduler, lease, given_up = WritingScheduler(), lease_of(URL, attempts=3), Bury("status_503")
    request = Request(URL, meta={LEASE: lease, GIVEN_UP: given_up})
    error = HttpError(Response(URL, status=503, request=request))
    SettlingErrback(scheduler.failures, lease, None)(Failure(error))
    assert scheduler.calls == [("fail", URL, given_up)]
