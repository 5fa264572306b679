"""Each rule of the judge: a crawl that keeps it, and one that breaks it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from demo.access_log import Entry
from demo.judge import judge_entries
from demo.truth import Truth

PAGE = "http://s0.test/"
FLAKY = "http://s0.test/flaky"
DENIED = "http://s0.test/private/a"
TRUTH = Truth(
    must_fetch=frozenset({PAGE, FLAKY}),
    must_not_fetch=frozenset({DENIED}),
    may_fetch=frozenset({"http://s0.test/robots.txt"}),
    may_prefixes=("http://s0.test/calendar/",),
    must_store=frozenset({PAGE, FLAKY}),
    exact_groups=(),
    near_groups=(),
    statuses={PAGE: 200, FLAKY: 200},
    extra_fetches={FLAKY: 1},
    crawl_delays_s={"slow.test": 0.5},
    change_periods_s={},
)


def entry(at_s: float, target: str, status: int = 200, **fields: object) -> Entry:
    values: dict[str, object] = {"host": "s0.test", "end_s": at_s + 0.01, **fields}
    return Entry(start_s=at_s, target=target, status=status, **values)  # type: ignore[arg-type]


GOOD = [
    entry(100.0, "/robots.txt"),
    entry(100.2, "/"),
    entry(100.4, "/flaky", 503, retry_after_s=1.0),
    entry(101.5, "/flaky"),
    entry(101.7, "/calendar/2024/02"),
]


def broken(entries: list[Entry], **forgiven: int) -> set[str]:
    verdict = judge_entries(entries, TRUTH, min_delay_s=0.1, **forgiven)
    return {rule for rule, found in verdict.violations.items() if found}


def test_a_good_crawl_breaks_no_rule() -> None:
    assert broken(GOOD) == set()


def test_the_order_of_the_log_does_not_matter() -> None:
    assert broken(GOOD[::-1]) == set()


@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        ("missing", GOOD[:3] + GOOD[4:]),
        ("missing", [GOOD[0], *GOOD[2:]]),
        ("forbidden", [*GOOD, entry(102.0, "/private/a")]),
        ("unknown", [*GOOD, entry(102.0, "/invented")]),
        ("repeated", [*GOOD, entry(102.0, "/?utm_source=demo")]),
        ("repeated", [*GOOD, entry(102.0, "/")]),
        ("repeated", [*GOOD, entry(102.0, "/flaky")]),
        ("too_soon", [*GOOD, entry(101.75, "/calendar/2024/03")]),
    ],
)
def test_a_crawl_that_breaks_one_rule(rule: str, entries: list[Entry]) -> None:
    assert broken(entries) == {rule}


LOST = entry(101.9, "/calendar/x", 0, outcome="reset")


def test_a_request_that_its_connection_lost_may_be_sent_again_at_once_but_not_twice() -> None:
    again = LOST._replace(start_s=101.92, end_s=101.93)
    assert broken([*GOOD, LOST, again, entry(102.1, "/calendar/y")]) == set()
    assert "too_soon" in broken([*GOOD, LOST, again, entry(101.94, "/calendar/x")])
    assert broken([*GOOD, LOST, entry(101.92, "/calendar/y")]) == {"too_soon"}
    assert "too_soon" in broken([*GOOD, LOST._replace(outcome="ok"), again])


def test_a_url_that_always_resets_is_not_asked_for_without_end() -> None:
    times_s = [200.0, 200.2, 201.0, 201.2, 202.0, 202.2, 203.0]
    resets = [entry(time_s, "/calendar/x", 0, outcome="reset") for time_s in times_s]
    # Three contacts, each with a request that was lost.
    truth = replace(TRUTH, extra_fetches={**TRUTH.extra_fetches, resets[0].url: 2})
    for number, rules in ((6, set()), (7, {"repeated"})):
        verdict = judge_entries([*GOOD, *resets[:number]], truth, min_delay_s=0.1)
        assert {rule for rule, found in verdict.violations.items() if found} == rules


def test_a_second_request_in_flight_overlaps() -> None:
    assert "overlap" in broken([*GOOD, entry(101.705, "/calendar/2024/03")])


def test_an_overlap_with_a_long_earlier_request_is_found() -> None:
    long = entry(102.0, "/calendar/2024/03", end_s=105.0)
    short = [entry(103.0, "/calendar/2024/04"), entry(104.0, "/calendar/2024/05")]
    verdict = judge_entries([*GOOD, long, *short], TRUTH, min_delay_s=0.1)
    assert len(verdict.violations["overlap"]) == 2


def test_retry_after_is_due_from_the_whole_host() -> None:
    entries = [*GOOD, entry(100.8, "/calendar/2024/03")]
    assert broken(entries) == {"retry_after"}


def test_crawl_delay_is_due() -> None:
    host: dict[str, Callable[[], object] | str] = {"host": "slow.test"}
    entries = [entry(1.0, "/robots.txt", **host), entry(1.4, "/robots.txt", **host)]
    assert "crawl_delay" in broken(GOOD + entries)


SLOW = entry(102.0, "/calendar/2024/03", end_s=102.41)


@pytest.mark.parametrize(
    ("factor", "most_s", "gap_s", "rules"),
    [
        # Half-way from 0.01 s, the host's fastest, to 0.41 s, five times.
        (5, 60.0, 1.06, set()),
        (5, 60.0, 1.04, {"adaptive"}),
        (5, 0.5, 0.51, set()),
        (5, 0.5, 0.49, {"adaptive"}),
        (0, 60.0, 0.11, set()),
    ],
)
def test_a_slow_answer_asks_for_a_longer_rest(
    factor: float, most_s: float, gap_s: float, rules: set[str]
) -> None:
    entries = [*GOOD, SLOW, entry(SLOW.end_s + gap_s, "/calendar/2024/04")]
    verdict = judge_entries(
        entries, TRUTH, min_delay_s=0.1, delay_factor=factor, delay_max_s=most_s
    )
    assert {rule for rule, found in verdict.violations.items() if found} == rules


def test_an_answer_that_the_crawler_broke_off_says_nothing_of_its_time() -> None:
    entries = [*GOOD, SLOW._replace(outcome="aborted"), entry(102.6, "/calendar/2024/04")]
    verdict = judge_entries(entries, TRUTH, min_delay_s=0.1, delay_factor=5)
    assert not verdict.violations["adaptive"]


def test_five_milliseconds_are_tolerated() -> None:
    assert broken([*GOOD, entry(101.71 + 0.096, "/calendar/2024/03")]) == set()
    assert broken([*GOOD, entry(101.71 + 0.094, "/calendar/2024/03")]) == {"too_soon"}


@pytest.mark.parametrize("target", ["/rules/robots.txt", "/robots.txt"])
def test_a_redirected_robots_txt_is_one_exchange(target: str) -> None:
    rules = [entry(99.5, "/robots.txt", 302), entry(99.511, target)]
    known = {"unknown"} if target != "/robots.txt" else set()
    assert broken([*rules, *GOOD[1:]]) == known


def test_after_the_redirected_robots_txt_the_delay_is_due() -> None:
    rules = [entry(100.1, "/robots.txt", 302), entry(100.111, "/robots.txt")]
    assert broken([*rules, entry(100.15, "/"), *GOOD[2:]]) == {"too_soon"}


def test_a_page_after_the_redirect_of_robots_txt_is_no_part_of_it() -> None:
    rules = [entry(100.1, "/robots.txt", 302), entry(100.12, "/"), *GOOD[2:]]
    assert broken(rules) == {"too_soon"}


def test_a_page_before_robots_txt_is_found() -> None:
    moved = GOOD[0]._replace(start_s=103.0, end_s=103.1)
    assert broken([*GOOD[1:], moved]) == {"robots_first"}


def test_a_page_from_a_host_without_any_robots_request_is_found() -> None:
    assert broken(GOOD[1:]) == {"robots_first"}


def test_unchanged_pages_and_robots_may_be_asked_for_again() -> None:
    again = [entry(102.0, "/", 304), entry(103.0, "/robots.txt")]
    assert broken(GOOD + again) == set()


def test_a_number_of_repeats_can_be_forgiven() -> None:
    entries = [*GOOD, entry(102.0, "/"), entry(103.0, "/flaky")]
    assert broken(entries, allow_repeats=2) == set()
    assert broken(entries, allow_repeats=1) == {"repeated"}


def test_an_empty_log_misses_everything() -> None:
    assert broken([]) == {"missing"}


def test_what_recovers_fails_again_after_each_start_of_the_server() -> None:
    entries = [*GOOD, entry(102.0, "/flaky")]
    assert broken(entries, server_runs=2) == set()


def test_what_was_in_flight_when_a_crawl_was_killed_is_fetched_again() -> None:
    entries = [*GOOD, entry(102.0, "/")]
    assert broken(entries, faults=1) == set()
