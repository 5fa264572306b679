"""The rules of the judge for crawls that open pages in a browser, which asks for their parts."""

from dataclasses import replace

import pytest

from demo.access_log import Entry
from demo.judge import judge_entries
from tests.unit.demo.test_rules import TRUTH

PAGE, OTHER = "http://app.test/", "http://app.test/other"
ANOTHER = "http://shop.test/"
BOTH = frozenset({PAGE, OTHER})
KNOWN = replace(
    TRUTH,
    must_fetch=BOTH | {ANOTHER},
    must_not_fetch=frozenset({"http://cdn.test/closed.js", "http://app.test/image.png"}),
    may_fetch=frozenset(f"http://{host}.test/robots.txt" for host in ("app", "cdn", "shop")),
    must_store=frozenset(),
    statuses={PAGE: 200, OTHER: 200, ANOTHER: 200},
    extra_fetches={},
    parts={
        "http://app.test/app.js": BOTH,
        "http://app.test/api?1": frozenset({PAGE}),
        "http://app.test/api?2": frozenset({OTHER}),
        "http://cdn.test/lib.js": BOTH | {ANOTHER},
        "http://cdn.test/style.css": BOTH | {ANOTHER},
        "http://cdn.test/shop.css": frozenset({PAGE, ANOTHER}),
        "http://cdn.test/data?1": frozenset({PAGE}),
        "http://cdn.test/data?2": frozenset({OTHER}),
    },
    crawl_delays_s={"slow.test": 0.5},
)
DELAY_S = 0.1


def entry(at_s: float, host: str, target: str, status: int = 200, **fields: object) -> Entry:
    values: dict[str, object] = {"end_s": at_s + 0.01, **fields}
    return Entry(at_s, host=f"{host}.test", target=target, status=status, **values)  # type: ignore[arg-type]


# The parts of a page come at once; other pages and other hosts after the delay.
RULES = [entry(10.0, host, "/robots.txt") for host in ("app", "cdn", "shop")]
FIRST = [
    entry(20.00, "app", "/"),
    entry(20.02, "app", "/app.js"),
    entry(20.03, "cdn", "/lib.js"),
    entry(20.04, "app", "/api?1"),
    entry(20.05, "cdn", "/data?1"),
]
SECOND = [
    entry(20.20, "app", "/other"),
    entry(20.21, "cdn", "/lib.js"),
    entry(20.22, "app", "/api?2"),
    entry(20.24, "cdn", "/data?2"),
]
THIRD = [entry(20.30, "shop", "/"), entry(20.36, "cdn", "/shop.css")]
GOOD = RULES + FIRST + SECOND + THIRD


def broken(entries: list[Entry], delay_factor: float = 0.0, **delays_s: float) -> set[str]:
    truth = replace(KNOWN, crawl_delays_s={f"{host}.test": s for host, s in delays_s.items()})
    verdict = judge_entries(entries, truth, min_delay_s=DELAY_S, delay_factor=delay_factor)
    return {rule for rule, found in verdict.violations.items() if found}


def without(entries: list[Entry], *urls: str) -> list[Entry]:
    return [each for each in entries if each.url not in urls]


def test_parts_of_a_page_are_one_contact_with_its_host() -> None:
    assert broken(GOOD) == set()


def test_parts_need_not_be_fetched() -> None:
    assert broken(without(GOOD, *KNOWN.parts)) == set()


def test_a_crawl_without_a_browser_knows_no_parts() -> None:
    verdict = judge_entries(GOOD, replace(KNOWN, parts={}), min_delay_s=DELAY_S)
    assert len(verdict.violations["unknown"]) == len(
        {each.url for each in GOOD} & KNOWN.parts.keys()
    )


@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        # Another document after parts, or after the document.
        ("too_soon", [*RULES, *FIRST, entry(20.10, "app", "/other"), *THIRD]),
        ("too_soon", [*RULES, FIRST[0], entry(20.05, "app", "/other"), *THIRD]),
        # Parts of another page than the one that its host has just served.
        ("too_soon", [*GOOD, entry(20.26, "app", "/api?1")]),
        ("too_soon", [*GOOD, entry(20.30, "cdn", "/data?1")]),
        # The last one is of none of the pages that have all of those before.
        (
            "too_soon",
            [
                *GOOD,
                entry(20.48, "cdn", "/style.css"),
                entry(20.50, "cdn", "/data?1"),
                entry(20.52, "cdn", "/data?2"),
            ],
        ),
        # The same part again belongs to another page.
        ("too_soon", [*GOOD, entry(20.38, "cdn", "/shop.css")]),
        # A part of another host, just after its robots.txt.
        (
            "too_soon",
            [*without(GOOD, "http://cdn.test/robots.txt"), entry(20.0, "cdn", "/robots.txt")],
        ),
        ("robots_first", without(GOOD, "http://cdn.test/robots.txt")),
        ("robots_first", [*GOOD, entry(9.0, "cdn", "/style.css")]),
        ("forbidden", [*GOOD, entry(21.0, "cdn", "/closed.js")]),
        ("forbidden", [*GOOD, entry(21.0, "app", "/image.png")]),
        ("unknown", [*GOOD, entry(21.0, "cdn", "/other.js")]),
        ("missing", without(GOOD, OTHER, "http://app.test/api?2", "http://cdn.test/data?2")),
    ],
)
def test_a_crawl_with_a_browser_that_breaks_one_rule(rule: str, entries: list[Entry]) -> None:
    assert broken(entries) == {rule}


def test_requests_to_a_host_never_overlap() -> None:
    for host, target in (("app", "/app.js"), ("cdn", "/lib.js")):
        first = next(
            each for each in FIRST if each.host == f"{host}.test" and each.target == target
        )
        longer = first._replace(end_s=20.06)
        entries = [longer if each is first else each for each in GOOD]
        assert "overlap" in broken(entries)


def test_a_crawl_delay_is_for_pages_and_not_for_their_parts() -> None:
    # The other page comes 0.15 s after the last part, and one of another host 0.11 s after.
    assert broken(GOOD, app=0.14) == set()
    assert broken(GOOD, app=0.16) == {"crawl_delay"}
    assert broken(GOOD, cdn=0.10) == set()
    assert broken(GOOD, cdn=0.12) == {"crawl_delay"}


def test_a_slow_part_asks_for_a_longer_rest_of_the_next_page_and_not_of_the_next_part() -> None:
    slow = entry(20.02, "app", "/app.js", end_s=20.03)
    api = entry(20.04, "app", "/api?1", end_s=20.14)
    page = [*RULES, FIRST[0], slow, api, *THIRD]
    # Half-way from 0.01 s, the host's fastest, to 0.1 s, twice: 0.11 s.
    assert broken([*page, entry(20.26, "app", "/other")], delay_factor=2) == set()
    assert broken([*page, entry(20.24, "app", "/other")], delay_factor=2) == {"adaptive"}
    long = [slow._replace(end_s=20.12), api._replace(start_s=20.13)]
    assert broken([*RULES, FIRST[0], *long, entry(20.4, "app", "/other"), *THIRD], 2) == set()


def test_retry_after_is_due_from_parts_too() -> None:
    failed = FIRST[1]._replace(status=503, retry_after_s=0.5)
    entries = [failed if each is FIRST[1] else each for each in GOOD]
    assert broken(entries) == {"retry_after"}


def test_a_pause_within_a_page_does_not_make_the_next_part_early() -> None:
    late = [entry(20.6, "app", "/app.js"), entry(20.62, "app", "/api?2")]
    assert broken([*without(GOOD, "http://app.test/api?2"), *late]) == set()


def test_what_waited_for_its_turn_begins_another_page() -> None:
    # Of parts that several pages have, the host cannot tell whose they are.
    later = [entry(20.36, "cdn", "/style.css"), entry(20.38, "cdn", "/data?1")]
    assert broken([*without(GOOD, "http://cdn.test/shop.css"), *later]) == set()


def test_a_part_that_the_crawler_broke_off_ends_its_page() -> None:
    slow = entry(20.48, "cdn", "/data?1", end_s=20.6)
    others = [entry(20.61, "cdn", "/style.css"), entry(20.63, "cdn", "/data?2")]
    assert broken([*GOOD, slow, *others]) == {"too_soon"}
    assert broken([*GOOD, slow._replace(outcome="aborted"), *others]) == set()


def test_a_part_that_its_connection_lost_may_be_sent_again_at_once() -> None:
    lost = FIRST[1]._replace(status=0, outcome="reset")
    again = entry(20.033, "app", "/app.js", end_s=20.037)
    entries = [lost if each is FIRST[1] else each for each in GOOD]
    assert broken([*entries, again]) == set()


def test_each_fetch_of_a_page_needs_its_parts_at_most_twice() -> None:
    often = [entry(30.0 + number, "app", "/api?1") for number in range(4)]
    assert broken([*GOOD, often[0]]) == set()
    assert broken([*GOOD, *often[:2]]) == {"repeated"}
    page_again = entry(29.0, "app", "/")
    truth = replace(KNOWN, extra_fetches={PAGE: 1})
    verdict = judge_entries([*GOOD, page_again, *often[:3]], truth, min_delay_s=DELAY_S)
    assert verdict.ok, verdict.lines()


def test_parts_of_pages_that_were_not_fetched_are_too_many() -> None:
    entries = without(GOOD, OTHER)
    assert broken(entries) >= {"missing", "repeated"}
