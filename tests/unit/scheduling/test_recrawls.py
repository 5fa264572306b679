"""What is decided for a lease, and what its entry carries to the next visit."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from scrapy.http import Response

from crawler.frontier import Again, Kind, Lease
from crawler.parsing.sitemap import Located
from crawler.scheduling.recrawl_policy import RecrawlTuning, VisitResult
from crawler.scheduling.recrawls import Recrawls, last_visit_s, visit_of
from tests.support.schedulers import lease_of

DAY_MS = 86_400_000
NOW = 1_700_000_000.0


def recrawls(text: str = "adaptive", **tuning: Any) -> Recrawls:
    made = Recrawls(RecrawlTuning(**tuning))
    made.use(text)
    return made


def visit(
    made: Recrawls, lease: Lease, found: VisitResult, headers: dict[str, str] | None = None
) -> Again:
    made.visited(lease, found, headers or {}, queue_of=lambda changed: 2 + changed, now_s=NOW)
    again = made.take(lease)
    assert again is not None
    return again


def next_lease(again: Again) -> Lease:
    return Lease(0, b"2", again.entry)


def test_nothing_is_decided_while_recrawls_are_off() -> None:
    made = Recrawls()
    lease = lease_of()
    assert made.visited(lease, VisitResult(b"x"), {}, queue_of=lambda _: 1, now_s=NOW) is None
    assert made.take(lease) is None
    assert made.hints([Located("http://h.test/", datetime.now(UTC))]) == {}


def test_an_entry_carries_validators_hashes_and_counts() -> None:
    made = recrawls()
    headers = {"etag": '"1"', "last-modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
    lease = lease_of(
        attempts=2, reclaims=1, depth=3, tail={"history": [["503", 1]], "flags": ["f"]}
    )
    again = visit(made, lease, VisitResult(b"one", 7), headers)
    assert again.wait_ms == 7 * DAY_MS
    entry = again.entry
    assert (entry.id, entry.url, entry.depth) == (lease.entry.id, lease.entry.url, 3)
    assert (entry.attempts, entry.reclaims, entry.queue) == (0, 0, 2)
    assert entry.tail == {
        "flags": ["f"],
        "etag": '"1"',
        "last_modified": "Mon, 01 Jan 2024 00:00:00 GMT",
        "at": NOW,
        "visit": [7 * 86_400, b"one", 7, b"", 1, 0, 0, 0],
    }


def test_a_page_is_visited_again_as_it_is_written() -> None:
    lease = lease_of(attempts=1, written="?b&a", tail={"history": [["503", 1]]})
    again = visit(recrawls(), lease, VisitResult(b"one"))
    assert again.entry.written_url == "http://h.test/a?b&a"


def test_a_decision_is_taken_once() -> None:
    made, lease = recrawls(), lease_of()
    visit(made, lease, VisitResult(b"one"))
    assert made.take(lease) is None


def test_new_content_drops_old_validators_and_a_304_keeps_them() -> None:
    made = recrawls()
    first = visit(made, lease_of(), VisitResult(b"one"), {"etag": '"1"', "last-modified": "monday"})
    same = visit(made, next_lease(first), VisitResult(), {"etag": '"2"'})
    assert (same.entry.tail["etag"], same.entry.tail["last_modified"]) == ('"2"', "monday")
    assert same.wait_ms == 10.5 * DAY_MS
    other = visit(made, next_lease(same), VisitResult(b"two"), {})
    assert "etag" not in other.entry.tail
    assert "last_modified" not in other.entry.tail
    known = visit_of(other.entry)
    assert known is not None
    assert (known.visits, known.changes, known.digest) == (3, 1, b"two")
    assert other.entry.queue == 3


def test_a_validator_that_is_too_long_is_not_carried() -> None:
    again = visit(recrawls(), lease_of(), VisitResult(b"one"), {"etag": "x" * 201})
    assert "etag" not in again.entry.tail


def test_a_page_that_fails_backs_off_and_ends() -> None:
    made = recrawls("fixed:2h", failures=2)
    again = visit(made, lease_of(), VisitResult(b"one"), {"etag": '"1"'})
    waits = []
    while again is not None:
        waits.append(again.wait_ms // 3_600_000)
        lease = next_lease(again)
        assert lease.entry.tail["etag"] == '"1"'
        again = made.after_failures(lease)
    assert waits == [2, 4, 8]


def test_a_page_that_never_was_is_not_tried_again() -> None:
    made, lease = recrawls(), lease_of()
    assert made.gave_no_page(lease) is None
    assert made.after_failures(lease) is None


def test_what_is_gone_for_good_ends_at_once() -> None:
    made = recrawls()
    lease = next_lease(visit(made, lease_of(), VisitResult(b"one")))
    assert made.gave_no_page(lease, gone=True) is None
    assert made.take(lease) is None


def test_entries_that_wait_are_unwanted_when_recrawls_are_switched_off() -> None:
    made = recrawls()
    entry = visit(made, lease_of(), VisitResult(b"one")).entry
    assert not made.is_unwanted(entry)
    made.use("off")
    assert made.is_unwanted(entry)
    assert not made.is_unwanted(replace(entry, tail={}))


def test_an_interval_below_the_least_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    recrawls("fixed:1s")
    assert "recrawl is fixed:1s; pages are visited every 3600 s" in caplog.text


# --- sitemaps ------------------------------------------------------------------------------------


def test_what_a_sitemap_says_travels_with_the_url_to_its_first_visit() -> None:
    made = recrawls()
    modified = datetime.fromtimestamp(NOW - 2 * 86_400, UTC)
    tails = made.hints(
        [
            Located("http://h.test/a", None, changefreq="daily"),
            Located("http://h.test/b", modified),
            Located("http://h.test/c", changefreq="now and then"),
        ]
    )
    assert set(tails) == {"http://h.test/a", "http://h.test/b"}
    for path, days in (("a", 1), ("b", 2)):
        url = f"http://h.test/{path}"
        again = visit(made, lease_of(url, tail=tails[url]), VisitResult(b"one"))
        assert again.wait_ms == days * DAY_MS
        assert "hints" not in again.entry.tail


def test_changes_that_are_said_to_come_tell_nothing() -> None:
    made, tomorrow = recrawls(), datetime.now(UTC) + timedelta(days=1)
    assert made.hints([Located("http://h.test/", tomorrow)]) == {}
    assert made.hints_of_feed({"http://h.test/": tomorrow.timestamp()}) == {}


def sitemap_visit(made: Recrawls, lease: Lease, body: bytes = b"", **more: Any) -> Again | None:
    made.visited_sitemap(lease, Response(lease.entry.url, body=body, **more))
    return made.take(lease)


def test_a_sitemap_is_visited_again_after_a_day_and_judged_by_its_bytes() -> None:
    made = recrawls()
    lease = lease_of(kind=Kind.SITEMAP)
    first = sitemap_visit(made, lease, b"<urlset/>", headers={"ETag": '"1"'})
    assert first is not None
    assert first.wait_ms == DAY_MS
    assert first.entry.tail["etag"] == '"1"'
    assert first.entry.kind is Kind.SITEMAP
    same = sitemap_visit(made, next_lease(first), status=304)
    assert same is not None
    assert same.wait_ms == 1.5 * DAY_MS
    changed = sitemap_visit(made, next_lease(same), b"<urlset> </urlset>")
    assert changed is not None
    assert changed.wait_ms == 1.05 * DAY_MS
    missing = sitemap_visit(made, next_lease(changed), status=404)
    assert missing is not None
    assert missing.wait_ms == 2.1 * DAY_MS
    assert sitemap_visit(made, next_lease(missing), status=410) is None


def test_a_sitemap_that_never_was_is_not_tried_again() -> None:
    assert sitemap_visit(recrawls(), lease_of(kind=Kind.SITEMAP), status=404) is None


# --- a budget ------------------------------------------------------------------------------------


def test_a_plan_counts_a_page_when_its_lease_is_settled() -> None:
    made = recrawls("budget:100/d")
    assert made.plan is not None
    lease = lease_of()
    first = visit(made, lease, VisitResult(b"one"))
    assert not made.plan.take_unsent().classes
    made.settled(lease.entry, first)
    [(number, count)] = made.plan.take_unsent().classes.items()
    assert count == 1
    second = visit(made, next_lease(first), VisitResult(b"two"))
    made.settled(first.entry, second)
    moved = made.plan.take_unsent().classes
    assert moved[number] in (-1, 0)
    assert sum(moved.values()) == 0
    # It is gone, or redirects.
    made.settled(second.entry, None)
    gone = made.plan.take_unsent()
    assert sum(gone.classes.values()) == -1
    assert gone.hosts["h.test"].pages == -1


def test_another_budget_or_policy_may_be_set_while_a_crawl_runs() -> None:
    made = recrawls("budget:100/d")
    lease = lease_of()
    made.settled(lease.entry, visit(made, lease, VisitResult(b"one")))
    made.use("budget:5/h")
    assert made.plan is not None
    assert made.plan.budget.per_s == 5 / 3600
    assert sum(made.plan.take_unsent().classes.values()) == 1
    made.use("adaptive")
    assert made.plan is None


def test_a_page_knows_its_last_visit() -> None:
    again = visit(recrawls(), lease_of(), VisitResult(b"one"))
    assert last_visit_s(again.entry, now_s=NOW + 5) == NOW
    assert last_visit_s(replace(again.entry, tail={}, discovered_s=7), now_s=NOW) == 7
    # Earlier releases noted the interval only, here of a week.
    tail = {name: value for name, value in again.entry.tail.items() if name != "at"}
    earlier = replace(again.entry, tail=tail)
    assert last_visit_s(earlier, now_s=NOW) == NOW - 7 * 86_400


def test_a_feed_that_tells_of_changes_counts_more_than_a_page() -> None:
    numbers = []
    for is_feed in (False, True):
        made = recrawls("budget:100/d")
        decision = made.visited(
            *(lease_of(), VisitResult(b"one"), {}),
            queue_of=lambda _: 1,
            now_s=NOW,
            is_feed=is_feed,
        )
        assert decision is not None
        assert decision.visit.evidence is not None
        numbers.append(decision.visit.evidence.number)
    assert numbers[1] > numbers[0]


@pytest.mark.parametrize(("changed", "believed"), [(False, False), (True, True)])
def test_a_host_whose_news_are_false_is_not_believed_any_more(
    changed: bool, believed: bool
) -> None:
    made = recrawls()
    again = visit(made, lease_of(), VisitResult(b"one"))
    for number in range(20):
        content = VisitResult(b"%d" % number) if changed else VisitResult()
        assert made.accept_news("h.test", now_s=NOW)
        made.visited(next_lease(again), content, {}, queue_of=lambda _: 1, now_s=NOW + 3600)
    assert made.accept_news("h.test", now_s=NOW) is believed
    assert made.accept_news("other.test", now_s=NOW)


def test_a_host_that_has_told_nothing_true_yet_brings_forward_some_pages_a_day() -> None:
    made = recrawls()
    assert sum(made.accept_news("h.test", now_s=NOW) for _ in range(3000)) == 1000
    assert sum(made.accept_news("h.test", now_s=NOW + 86_400) for _ in range(3000)) == 1000
    again = visit(made, lease_of(), VisitResult(b"one"))
    for number in range(20):
        content = VisitResult(b"%d" % number)
        made.visited(next_lease(again), content, {}, queue_of=lambda _: 1, now_s=NOW + 3600)
    assert sum(made.accept_news("h.test", now_s=NOW) for _ in range(3000)) == 3000


def test_visits_that_were_due_say_nothing_of_news() -> None:
    made = recrawls()
    again = visit(made, lease_of(), VisitResult(b"one"))
    for _ in range(30):
        made.visited(
            next_lease(again), VisitResult(), {}, queue_of=lambda _: 1, now_s=NOW + 8 * 86_400
        )
    assert sum(made.accept_news("h.test", now_s=NOW) for _ in range(1500)) == 1000
