"""The recrawl pipeline: when a page is visited again, and what its record says of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from itemadapter import ItemAdapter

from crawler.frontier import Again, Lease
from crawler.frontier.entry import DOCUMENTS, MEDIA
from crawler.items import NOT_MODIFIED, Page
from crawler.pipelines.recrawl import Recrawl
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
URL = "http://h.test/a/b"


class Crawl:
    """The pipeline of a crawl that recrawls."""

    def __init__(self, recrawl: str = "adaptive") -> None:
        self.scheduler = WritingScheduler()
        self.scheduler.recrawls.use(recrawl)
        self.crawler = crawler_with(self.scheduler)
        self._pipeline = Recrawl.from_crawler(self.crawler)

    def visit(self, lease: Lease | None, **fields: Any) -> tuple[Page, Again | None]:
        values = {"status": 200, "content_hash": "00" * 32, "simhash": "", **fields}
        page = Page(url=URL, final_url=URL, crawled_at=AT, **values)
        page.lease = lease
        assert self._pipeline.process_item(page) is page
        again = self.scheduler.recrawls.take(lease) if lease is not None else None
        return page, again

    def count(self, name: str) -> int:
        return int(self.crawler.stats.get_value(f"recrawl/{name}", 0))


@pytest.fixture
def crawl() -> Crawl:
    return Crawl()


def next_lease(again: Again | None) -> Lease:
    assert again is not None
    return Lease(0, b"2", again.entry)


def told(page: Page) -> tuple[int, int, datetime | None]:
    return page.visits, page.changes, page.next_crawl


def test_a_page_knows_when_it_is_due(crawl: Crawl) -> None:
    page, again = crawl.visit(lease_of(URL, depth=1, queue=4))
    assert told(page) == (1, 0, AT + WEEK)
    assert page.recrawl_interval_s == WEEK.total_seconds()
    # 100 - 15 for its depth - 40 for its path: no less for a page seen once.
    assert next_lease(again).entry.queue == 4
    same, again = crawl.visit(next_lease(again))
    assert told(same) == (2, 0, AT + 1.5 * WEEK)
    # Known and unchanged: ten points less.
    assert next_lease(again).entry.queue == 5
    changed, again = crawl.visit(next_lease(again), content_hash="11" * 32)
    assert told(changed) == (3, 1, AT + 1.05 * WEEK)
    assert next_lease(again).entry.queue == 4
    assert (crawl.count("unchanged"), crawl.count("changed")) == (1, 1)


def test_a_duplicate_is_fetched_whole_again_since_its_original_may_change(crawl: Crawl) -> None:
    headers = {"etag": '"1"', "last-modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
    _, again = crawl.visit(lease_of(URL), headers=headers)
    assert next_lease(again).entry.tail["etag"] == '"1"'
    _, again = crawl.visit(next_lease(again), headers=headers, duplicate_of="0" * 15 + "1")
    assert not {"etag", "last_modified"} & set(next_lease(again).entry.tail)


def test_a_304_is_unchanged(crawl: Crawl) -> None:
    _, again = crawl.visit(lease_of(URL), headers={"etag": '"1"'})
    page, again = crawl.visit(
        next_lease(again), status=304, flags=[NOT_MODIFIED], content_hash="", stored=False
    )
    assert told(page) == (2, 0, AT + 1.5 * WEEK)
    assert next_lease(again).entry.tail["etag"] == '"1"'


def test_a_changed_clock_is_no_change(crawl: Crawl) -> None:
    _, again = crawl.visit(lease_of(URL), simhash="00000000000000ff")
    page, _ = crawl.visit(next_lease(again), content_hash="11" * 32, simhash="00000000000000f8")
    assert told(page) == (2, 0, AT + 1.5 * WEEK)


def test_a_page_with_other_content_says_what_it_had(crawl: Crawl) -> None:
    first, again = crawl.visit(lease_of(URL), content_hash="00" * 32, simhash="00000000000000ff")
    same, again = crawl.visit(next_lease(again), content_hash="00" * 32, simhash="00000000000000ff")
    assert (first.earlier, same.earlier) == (None, None)
    clock, again = crawl.visit(
        next_lease(again), content_hash="11" * 32, simhash="00000000000000fe"
    )
    assert clock.earlier == ("00" * 12, "00000000000000ff")
    # What was seen last, though that was no change.
    other, _ = crawl.visit(next_lease(again), content_hash="22" * 32)
    assert other.earlier == ("11" * 12, "00000000000000fe")


def test_an_error_of_a_known_page_backs_off(crawl: Crawl) -> None:
    _, again = crawl.visit(lease_of(URL))
    page, again = crawl.visit(next_lease(again), status=404, content_hash="", stored=False)
    assert told(page) == (2, 0, AT + 2 * WEEK)
    assert again is not None
    assert crawl.count("failed") == 1
    page, again = crawl.visit(next_lease(again), status=410, content_hash="", stored=False)
    assert (told(page), again) == ((3, 0, None), None)


@pytest.mark.parametrize("status", [200, 404, 500])
def test_what_is_no_page_at_its_first_visit_is_not_visited_again(crawl: Crawl, status: int) -> None:
    page, again = crawl.visit(lease_of(URL), status=status, content_hash="", stored=False)
    assert (told(page), again) == ((1, 0, None), None)


def test_without_recrawls_nothing_is_due(crawl: Crawl) -> None:
    page, again = Crawl("off").visit(lease_of(URL))
    assert (told(page), again) == ((1, 0, None), None)
    _, again = crawl.visit(lease_of(URL))
    page, last = Crawl("off").visit(next_lease(again))
    assert (told(page), last) == ((2, 0, None), None)


def test_a_body_that_was_cut_off_is_wanted_whole_the_next_time(crawl: Crawl) -> None:
    _, again = crawl.visit(lease_of(URL), headers={"etag": '"1"'}, flags=["truncated"])
    assert "etag" not in next_lease(again).entry.tail


def test_a_page_without_a_lease_is_left_alone(crawl: Crawl) -> None:
    assert told(crawl.visit(None)[0]) == (1, 0, None)


def test_a_decision_for_a_settled_lease_is_for_the_record_only(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first = crawl.visit(lease_of(URL))
    monkeypatch.setattr(crawl.scheduler.leases, "holds", lambda lease: False)
    page, again = crawl.visit(next_lease(first), status=503, content_hash="", stored=False)
    assert (told(page), again) == ((2, 0, AT + 2 * WEEK), None)


def test_feeds_do_not_write_the_lease(crawl: Crawl) -> None:
    page, _ = crawl.visit(lease_of(URL))
    assert "lease" not in ItemAdapter(page).asdict()


@pytest.mark.parametrize(
    ("before", "media_type", "after"),
    [
        (1, "application/pdf", DOCUMENTS),
        (1, "image/png", MEDIA),
        (DOCUMENTS, "application/pdf", DOCUMENTS),
        # A page whose URL ends like that of a file.
        (DOCUMENTS, "text/html", 3),
    ],
)
def test_a_recrawl_waits_in_the_queue_of_its_type(
    crawl: Crawl, before: int, media_type: str, after: int
) -> None:
    lease = lease_of("http://h.test/a", depth=2, queue=before)
    _, again = crawl.visit(lease, media_type=media_type)
    assert next_lease(again).entry.queue == after
    # The response to its next visit has no type.
    same = {"status": 304, "flags": [NOT_MODIFIED], "content_hash": "", "stored": False}
    _, again = crawl.visit(next_lease(again), **same)
    assert next_lease(again).entry.queue == after
