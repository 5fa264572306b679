"""What is recorded of URLs that gave no answer, and what becomes of pages that are known."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest
from twisted.python.failure import Failure

from crawler.frontier import Lease
from crawler.items import Page
from crawler.scheduling.outcome import Bury
from crawler.scheduling.recrawl_policy import Visit
from tests.support.schedulers import WritingScheduler, lease_of

DAY_S = 86_400


class Recording(WritingScheduler):
    """Recrawls pages, and keeps the records of those that gave no answer."""

    def __init__(self) -> None:
        super().__init__(retry_times=0)
        self.recrawls.use("adaptive")
        self.records: list[Page] = []
        self.failures.record = self._record

    def _record(self, page: Page) -> "asyncio.Future[None]":
        self.records.append(page)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


def known() -> Lease:
    visit = Visit(2 * DAY_S, b"digest", visits=4, changes=2)
    return lease_of(tail={"visit": visit.packed()})


async def settled(lease: Lease, error: Exception) -> tuple[Page, list[tuple[Any, ...]]]:
    scheduler = Recording()
    scheduler.failures.settle(lease, Failure(error))
    await asyncio.sleep(0)
    [page] = scheduler.records
    return page, scheduler.calls


async def test_a_failed_visit_of_a_known_page_says_when_it_is_tried_again() -> None:
    page, calls = await settled(known(), DownloadTimeoutError())
    assert (page.visits, page.changes, page.last_error) == (5, 2, "timeout")
    assert page.next_crawl == page.crawled_at + timedelta(days=4)
    assert page.recrawl_interval_s == 4 * DAY_S
    assert calls == [("fail", "http://h.test/a", Bury("timeout"))]


@pytest.mark.parametrize("lease", [known(), lease_of()])
async def test_what_is_forbidden_is_not_tried_again(lease: Lease) -> None:
    page, calls = await settled(lease, IgnoreRequest("robots.txt"))
    assert (page.visits, page.changes) == ((5, 2) if lease.entry.tail else (1, 0))
    assert page.next_crawl is None
    assert page.recrawl_interval_s is None
    assert calls == [("done", "http://h.test/a", False)]


async def test_a_url_that_never_gave_a_page_is_not_tried_again() -> None:
    page, _ = await settled(lease_of(), DownloadTimeoutError())
    assert (page.visits, page.next_crawl) == (1, None)
