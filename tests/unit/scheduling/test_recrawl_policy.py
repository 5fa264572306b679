"""When pages are visited again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest

from crawler.scheduling.change_rate import ChangeRate
from crawler.scheduling.recrawl_plan import Prices, rank_of
from crawler.scheduling.recrawl_policy import (
    ADAPTIVE,
    OFF,
    Hints,
    RecrawlPolicy,
    RecrawlTuning,
    Visit,
    VisitAgain,
    VisitResult,
    is_immutable,
    max_age_s,
    policy_of,
)

HOUR, DAY = 3600.0, 86_400.0
MIDNIGHT, ONE = "Thu, 01 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 2026 01:00:00 GMT"
NOW = 1_700_000_000.0
ADAPT = RecrawlPolicy()
WEEKLY = RecrawlPolicy(7 * DAY)
SAME = VisitResult(b"one", 0)


def after(policy: RecrawlPolicy, visits: str, **known: Any) -> Visit:
    """What is known after visits of which each found a change ("c") or none ("u")."""
    visit = Visit(**{"interval_s": 7 * DAY, "digest": b"0", **known})
    for number, kind in enumerate(visits):
        digest = b"%d" % (number + 1) if kind == "c" else visit.digest
        visit = policy.visited(visit, VisitResult(digest), now_s=NOW).visit
    return visit


@pytest.mark.parametrize(
    ("visits", "interval_s"),
    [
        ("", 7 * DAY),
        ("u", 10.5 * DAY),
        ("c", 4.9 * DAY),
        ("uc", 7.35 * DAY),
        ("uuuu", 30 * DAY),
        ("u" * 50, 30 * DAY),
        ("ccccc", 7 * DAY * 0.7**5),
        # More than five in a row: daily, and from there on as ever.
        ("cccccc", 7 * DAY * 0.7**6),
        ("c" * 7, 7 * DAY * 0.7**7),
        # More than ten in a row: hourly.
        ("c" * 10, 7 * DAY * 0.7**10),
        ("c" * 11, HOUR),
        ("c" * 50, HOUR),
        ("c" * 11 + "u", 1.5 * HOUR),
        ("c" * 11 + "uc", 1.05 * HOUR),
    ],
)
def test_the_interval_follows_the_changes(visits: str, interval_s: float) -> None:
    assert after(ADAPT, visits).interval_s == pytest.approx(interval_s)


def test_more_than_five_changes_in_a_row_make_a_rare_page_daily() -> None:
    assert after(ADAPT, "ccccc", interval_s=30 * DAY).interval_s > 5 * DAY
    assert after(ADAPT, "cccccc", interval_s=30 * DAY).interval_s == DAY
    assert after(ADAPT, "ccccucc", interval_s=30 * DAY).interval_s > 5 * DAY


def test_the_numbers_in_a_row_are_settings() -> None:
    policy = RecrawlPolicy(tuning=RecrawlTuning(daily_after=1, hourly_after=2))
    assert [after(policy, "c" * count).interval_s for count in (1, 2, 3)] == [
        pytest.approx(4.9 * DAY),
        DAY,
        HOUR,
    ]


def test_visits_and_changes_are_counted() -> None:
    visit = after(ADAPT, "cuccu")
    assert (visit.visits, visit.changes, visit.changes_in_a_row) == (6, 3, 0)
    assert after(ADAPT, "ucc").changes_in_a_row == 2


@pytest.mark.parametrize("visits", ["", "u", "c", "cccccccccccc", "uuuuuuu"])
def test_a_fixed_interval_stays(visits: str) -> None:
    assert after(WEEKLY, visits).interval_s == 7 * DAY
    assert WEEKLY.visited(None, SAME, Hints(HOUR, NOW, 30 * DAY), now_s=NOW).wait_s == 7 * DAY


def test_a_fixed_interval_is_no_shorter_than_the_least() -> None:
    assert RecrawlPolicy(1.0).visited(None, SAME, now_s=NOW).wait_s == HOUR
    assert RecrawlPolicy(1.0, RecrawlTuning(min_s=0.5)).visited(None, SAME, now_s=NOW).wait_s == 1.0
    assert RecrawlPolicy(90 * DAY).visited(None, SAME, now_s=NOW).wait_s == 90 * DAY


# --- what a change is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (VisitResult(b"one", 0), False),
        # Not modified, says the server.
        (VisitResult(), False),
        # The bytes differ, the text hardly: a clock.
        (VisitResult(b"two", 0), False),
        (VisitResult(b"two", 0b111), False),
        (VisitResult(b"two", 0b1111), True),
        # A text too short to be compared.
        (VisitResult(b"two", None), True),
    ],
)
def test_a_change_is_judged_by_hash_and_distance(found: VisitResult, changed: bool) -> None:
    before = Visit(DAY, b"one", 0)
    decision = ADAPT.visited(before, found, now_s=NOW)
    assert decision.changed is changed
    assert decision.visit.interval_s == pytest.approx(DAY * (0.7 if changed else 1.5))


@pytest.mark.parametrize("simhash", [2**20 - 1, None])
def test_where_only_numbers_differ_nothing_changed(simhash: int | None) -> None:
    before = Visit(DAY, b"one", 0, b"words")
    assert not ADAPT.visited(before, VisitResult(b"two", simhash, b"words"), now_s=NOW).changed
    assert ADAPT.visited(before, VisitResult(b"two", simhash, b"others"), now_s=NOW).changed
    # A page that is numbers for the most part has no such hash.
    assert ADAPT.visited(Visit(DAY, b"one", 0), VisitResult(b"two", simhash), now_s=NOW).changed


def test_small_changes_that_add_up_are_a_change() -> None:
    visit = Visit(DAY, b"0", 0)
    changes = []
    for bits in range(1, 6):
        decision = ADAPT.visited(visit, VisitResult(b"%d" % bits, 2**bits - 1), now_s=NOW)
        visit = decision.visit
        changes.append(decision.changed)
    assert changes == [False, False, False, True, False]
    # The last version is remembered all the same: that is what others are compared with.
    assert (visit.digest, visit.simhash, visit.since) == (b"5", 0b11111, 0b1111)


def test_the_distance_is_a_setting() -> None:
    exact = RecrawlPolicy(tuning=RecrawlTuning(distance=0))
    assert exact.visited(Visit(DAY, b"one", 0), VisitResult(b"two", 1), now_s=NOW).changed


# --- hints ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hints", "first_s"),
    [
        (Hints(), 7 * DAY),
        (Hints(changefreq_s=DAY), DAY),
        (Hints(changefreq_s=1), HOUR),
        (Hints(changefreq_s=365 * DAY), 30 * DAY),
        (Hints(modified_at_s=NOW - 2 * DAY), 2 * DAY),
        (Hints(modified_at_s=NOW - 400 * DAY), 7 * DAY),
        (Hints(modified_at_s=NOW + DAY), HOUR),
        # What it says of changes counts more than when the last was.
        (Hints(changefreq_s=DAY, modified_at_s=NOW - 3 * DAY), DAY),
        (Hints(changefreq_s=HOUR, max_age_s=6 * HOUR), 6 * HOUR),
        # A year in Cache-Control is a habit of servers, not a promise.
        (Hints(max_age_s=365 * DAY), 7 * DAY),
    ],
)
def test_the_site_has_a_say_in_the_first_interval(hints: Hints, first_s: float) -> None:
    assert ADAPT.visited(None, SAME, hints, now_s=NOW).wait_s == first_s


def test_later_only_cache_control_counts_and_is_not_learnt() -> None:
    decision = ADAPT.visited(
        Visit(2 * HOUR, b"one"), VisitResult(b"two"), Hints(DAY, NOW, 5 * HOUR), now_s=NOW
    )
    assert decision.wait_s == 5 * HOUR
    assert decision.visit.interval_s == pytest.approx(1.4 * HOUR)


@pytest.mark.parametrize(
    ("header", "age_s"),
    [
        ("", None),
        ("no-cache", None),
        ("max-age=0", None),
        ("public, max-age=600", 600),
        ('MAX-AGE="60", private', 60),
        ("s-maxage=60", None),
        ("max-age=x", None),
    ],
)
def test_cache_control_is_read(header: str, age_s: float | None) -> None:
    assert max_age_s({"cache-control": header}) == age_s


@pytest.mark.parametrize(
    ("headers", "age_s"),
    [
        ({"expires": "Thu, 01 Jan 2026 01:00:00 GMT"}, None),
        (
            {"expires": "Thu, 01 Jan 2026 01:00:00 GMT", "date": "Thu, 01 Jan 2026 00:00:00 GMT"},
            HOUR,
        ),
        ({"expires": "0", "date": "Thu, 01 Jan 2026 00:00:00 GMT"}, None),
        (
            {
                "expires": "Thu, 01 Jan 2026 01:00:00 GMT",
                "date": "Thu, 01 Jan 2026 00:00:00 GMT",
                "cache-control": "max-age=60",
            },
            60,
        ),
    ],
)
def test_expires_is_read_where_there_is_no_max_age(
    headers: dict[str, str], age_s: float | None
) -> None:
    assert max_age_s(headers) == age_s


def test_what_is_immutable_may_wait_longer_than_what_is_only_fresh() -> None:
    year = 365 * DAY
    fresh, immutable = Hints(max_age_s=year), Hints(max_age_s=year, immutable=True)
    assert ADAPT.visited(None, SAME, fresh, now_s=NOW).wait_s == 7 * DAY
    assert ADAPT.visited(None, SAME, immutable, now_s=NOW).wait_s == 30 * DAY
    assert is_immutable({"cache-control": "public, max-age=1, immutable"})
    assert not is_immutable({"cache-control": "public, max-age=1"})


# --- a budget ------------------------------------------------------------------------------------


def budgeted(text: str = "budget:100/d") -> RecrawlPolicy:
    policy = policy_of(text)
    assert policy is not None
    return policy


def visited(policy: RecrawlPolicy, visits: str, every_s: float = DAY, **hints: Any) -> Visit:
    """What is known after a first visit and others, of which each found a change ("c") or none."""
    visit, version, now_s = None, 0, NOW
    for kind in f"u{visits}":
        version += kind == "c"
        digest = b"%012d" % version
        found = policy.visited(visit, VisitResult(digest), Hints(**hints), now_s=now_s, host="h")
        visit, now_s = found.visit, now_s + every_s
        # As if it had been due.
        visit = replace(visit, interval_s=every_s)
    assert visit is not None
    return visit


def rate_after(visits: str, every_s: float = DAY, **hints: Any) -> ChangeRate:
    policy = budgeted()
    assert policy.plan is not None
    evidence = visited(policy, visits, every_s, **hints).evidence
    assert evidence is not None
    return evidence.rate(policy.plan.before("h"))


def test_visits_teach_how_often_a_page_changes() -> None:
    assert rate_after("uuuuuuuuu").mean < rate_after("uuucuuuuc").mean < rate_after("cccc").mean
    # It is seen changed at half of its daily visits: 0.69 changes a day, less what others teach.
    assert 0.5 < rate_after("uc" * 50).mean * DAY < 0.7


def test_old_observations_fade() -> None:
    assert rate_after("c" * 500).shape < 32
    # It changed for years and then stopped: that shows within months.
    assert rate_after("c" * 500 + "u" * 60).mean < rate_after("c" * 500).mean / 2


def test_what_a_site_says_counts_at_the_first_visit() -> None:
    nothing = rate_after("")
    assert rate_after("", changefreq_s=HOUR).mean > 1.9 * nothing.mean
    assert rate_after("", modified_at_s=NOW - 300 * DAY).mean < nothing.mean
    assert rate_after("", modified_at_s=NOW) == nothing


def test_a_site_that_says_something_wrong_is_found_out_within_some_visits() -> None:
    # It changed between all visits, though its sitemap says that it has not changed for years.
    told = rate_after("c" * 12, 7 * DAY, modified_at_s=NOW - 1000 * DAY)
    assert told.mean > 0.4 * rate_after("c" * 12, 7 * DAY).mean
    assert rate_after("c" * 12, 7 * DAY, changefreq_s=3650 * DAY) == told


def test_a_change_that_brought_a_page_forward_does_not_seem_to_come_all_the_time() -> None:
    policy = budgeted()
    assert policy.plan is not None
    visit, now_s = None, NOW
    for version in range(20):
        content = VisitResult(b"%012d" % version)
        visit = policy.visited(visit, content, now_s=now_s, host="h").visit
        visit = replace(visit, interval_s=30 * DAY)
        now_s += 2 * DAY
    assert visit.evidence is not None
    rate = visit.evidence.rate(policy.plan.before("h"))
    assert rate.mean * DAY == pytest.approx(0.5, rel=0.3)


def test_pages_found_together_are_not_due_together() -> None:
    policy = budgeted()
    assert policy.plan is not None
    policy.plan.prices = Prices(price=256)
    waits = [
        policy.visited(None, VisitResult(bytes([number]) * 12), now_s=NOW, host="h").wait_s
        for number in range(256)
    ]
    assert max(waits) == pytest.approx(3 * min(waits), rel=0.01)
    # None comes sooner than it may.
    policy.plan.prices = Prices()
    assert policy.visited(None, VisitResult(bytes(12)), now_s=NOW, host="h").wait_s == HOUR


def test_max_age_is_the_least_interval_within_a_budget_too() -> None:
    policy = budgeted()
    found = policy.visited(None, SAME, Hints(max_age_s=5 * DAY), now_s=NOW, host="h")
    assert found.wait_s == 5 * DAY
    assert found.visit.evidence is not None
    # It comes then, whatever the price is.
    assert found.visit.evidence.number < 0


@pytest.mark.parametrize("max_age_s", [None, 5 * DAY])
def test_a_feed_that_is_not_modified_stays_one(max_age_s: float | None) -> None:
    policy = budgeted()
    first = policy.visited(None, SAME, Hints(max_age_s=max_age_s, rank=1), now_s=NOW, host="h")
    later = Hints(max_age_s=max_age_s)
    same = policy.visited(first.visit, VisitResult(), later, now_s=NOW + 9 * DAY, host="h")
    assert same.visit.evidence is not None
    assert rank_of(same.visit.evidence.number) == 1
    # Now it is another page.
    page = policy.visited(same.visit, VisitResult(b"two"), now_s=NOW + 20 * DAY, host="h")
    assert page.visit.evidence is not None
    assert rank_of(page.visit.evidence.number) == 0


def test_a_sitemap_is_visited_as_often_as_it_changes_whatever_the_budget() -> None:
    policy = budgeted("budget:1/w")
    first = policy.visited(None, SAME, Hints(changefreq_s=DAY), now_s=NOW)
    assert first.wait_s == DAY
    other = VisitResult(b"two")
    second = policy.visited(first.visit, other, Hints(changefreq_s=DAY), now_s=NOW + DAY)
    assert second.wait_s == pytest.approx(0.7 * DAY)
    assert second.visit.evidence is not None
    assert second.visit.evidence.number < 0


def test_a_page_of_an_adaptive_crawl_goes_on_within_a_budget_and_back() -> None:
    adaptive = after(ADAPT, "ccu")
    policy = budgeted()
    found = policy.visited(adaptive, VisitResult(b"new"), now_s=NOW + DAY, host="h")
    assert found.changed
    assert found.visit.evidence is not None
    back = ADAPT.visited(found.visit, VisitResult(), now_s=NOW + 2 * DAY)
    assert back.visit.evidence is None


def test_the_evidence_travels_in_sixteen_bytes() -> None:
    visit = visited(budgeted(), "cuc")
    assert visit.evidence is not None
    packed = visit.packed()
    found = Visit.unpacked(msgpack.unpackb(msgpack.packb(packed)), visit.at_s)
    assert found is not None
    assert found.evidence == pytest.approx(visit.evidence, rel=1e-6)
    assert replace(found, evidence=None) == replace(visit, evidence=None)
    without = msgpack.packb(replace(visit, evidence=None).packed())
    assert len(msgpack.packb(packed)) - len(without) <= 16


# --- errors --------------------------------------------------------------------------------------


def test_errors_back_off_and_end() -> None:
    visit = Visit(2 * DAY, b"one")
    waits = []
    while isinstance(decision := ADAPT.failed(visit), VisitAgain):
        visit = decision.visit
        waits.append(decision.wait_s)
    assert waits == [4 * DAY, 8 * DAY, 16 * DAY]
    assert decision is None
    assert (visit.visits, visit.changes, visit.interval_s) == (4, 0, 2 * DAY)


def test_the_wait_after_an_error_is_bounded() -> None:
    assert ADAPT.failed(Visit(20 * DAY, b"one")) == VisitAgain(
        30 * DAY, Visit(20 * DAY, b"one", visits=2, failures_in_a_row=1)
    )
    yearly = ADAPT.failed(Visit(365 * DAY, b"one"))
    assert isinstance(yearly, VisitAgain)
    assert yearly.wait_s == 365 * DAY


def test_a_page_that_is_back_goes_on_where_it_was() -> None:
    failed = ADAPT.failed(Visit(2 * DAY, b"one", changes=3))
    assert isinstance(failed, VisitAgain)
    back = ADAPT.visited(failed.visit, VisitResult(b"one"), now_s=NOW).visit
    assert (back.failures_in_a_row, back.interval_s, back.visits) == (0, 3 * DAY, 3)


def test_what_is_gone_for_good_ends_at_once() -> None:
    assert ADAPT.failed(Visit(DAY, b"one"), gone=True) is None


# --- as people write it, and as entries carry it -------------------------------------------------


@pytest.mark.parametrize(
    ("text", "interval_s"),
    [
        ("fixed:7d", 7 * DAY),
        ("fixed:12h", 12 * HOUR),
        ("fixed:30m", 1800),
        ("fixed:1s", 1),
        ("fixed:90", 90),
        (ADAPTIVE, None),
    ],
)
def test_a_policy_is_read(text: str, interval_s: float | None) -> None:
    policy = policy_of(text)
    assert policy is not None
    assert policy.fixed_s == interval_s


def test_off_is_no_policy() -> None:
    assert policy_of(OFF) is None


@pytest.mark.parametrize("text", ["", "fixed", "fixed:", "fixed:0", "fixed:-1d", "7d", "weekly"])
def test_what_is_no_policy_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"fixed:7d, fixed:12h"):
        policy_of(text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"mins": 1}, "no 'mins'; it has start_s, min_s"),
        ({"min_s": 0}, "0 < min_s"),
        ({"min_s": 40 * DAY}, "min_s <= max_s"),
        ({"changed": 1.2}, "a factor up to 1"),
        ({"unchanged": 0.5}, "one from 1 on"),
        ({"start_s": "7d"}, "start_s '7d'; give a number"),
        ({"daily_after": 1.5}, "daily_after 1.5; give a whole number"),
        ({"failures": True}, "failures True"),
        ({"max_s": float("nan")}, "max_s nan"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RecrawlTuning.from_mapping(given)


@pytest.mark.parametrize(
    "visit",
    [
        Visit(HOUR, b"12345678", 2**64 - 1, b"words", 7, 5, 2, 1),
        Visit(HOUR, b"12345678", 2**64 - 1, b"words", 7, 5, 2, 1, 12),
        Visit(HOUR, b"12345678"),
    ],
)
def test_a_visit_travels_as_a_list(visit: Visit) -> None:
    assert Visit.unpacked(visit.packed()) == visit


@pytest.mark.parametrize(
    "values", [None, [], 7, [1], ["x", b"", None, b"", 1, 0, 0, 0], [1, b"", "s", b""]]
)
def test_a_damaged_visit_is_none(values: Any) -> None:
    assert Visit.unpacked(values) is None
