"""Shapes of URLs that have no end."""

from collections import deque
from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.discovery.traps import PageLinks, Tally, TrapRules, Traps
from crawler.urls import Rejected, canonical
from demo.features.site import Site
from demo.features.traps import TRAPS, trap_node

TODAY = date(2026, 6, 1)
HOME = "http://h.test/"
LONG = "http://h.test/" + "x" * 250


def refused(url: str, page_url: str = HOME, **rules: Any) -> str | None:
    return Traps(TrapRules(**rules)).refuses(url, PageLinks(page_url), today=TODAY)


def followed(traps: Traps, urls: list[str], page_url: str = HOME) -> list[str]:
    """What of these URLs, each on its own on a page, is followed."""
    found = []
    for url in urls:
        if traps.refuses(url, PageLinks(page_url), today=TODAY) is None:
            found.append(url)
            traps.followed(url, page_url=page_url, today=TODAY)
    return found


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", None),
        ("a", None),
        ("a/b/a/b", None),
        ("a/b/a/b/a", "repeated"),
        ("a/a/a/", "repeated"),
        ("2024/01/01/a", None),
        ("1//2//3//4", None),
        ("/".join(map(str, range(20))), None),
        ("/".join(map(str, range(21))), "deep"),
        ("/".join(map(str, range(20))) + "/", None),
        ("?a=1&a=1", None),
        ("?a=1&a=1&a=1", "repeated"),
        ("?a=1&a=2&a=3", None),
    ],
)
def test_repeated_segments_and_deep_paths(path: str, reason: str | None) -> None:
    assert refused(HOME + path) == reason


@pytest.mark.parametrize(
    ("url", "page_url", "reason"),
    [
        (LONG + "y" * 50, HOME, None),
        (LONG + "yy" * 10, LONG + "y" * 10, "growing"),
        (LONG + "y" * 10, LONG + "y" * 10, None),
        (LONG + "?a=" + "1" * 20, LONG + "?b=1&a=1", "growing"),
        ("http://h.test/z" + "x" * 300, LONG + "y" * 10, None),
    ],
)
def test_a_long_page_may_not_link_to_itself_and_more(
    url: str, page_url: str, reason: str | None
) -> None:
    assert refused(url, page_url) == reason


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/calendar/2031/05",
        "http://h.test/calendar/2031/5/1/",
        "http://h.test/events/1999-12",
        "http://h.test/events/19991231",
        "http://h.test/cal?date=2031-05-01",
        "http://h.test/cal?date=2031-05-01&view=day",
        "http://h.test/cal?month=5&year=2031",
        "http://h.test/cal?year=1999",
    ],
)
def test_pages_of_far_dates_are_capped(url: str) -> None:
    traps = Traps(TrapRules(calendar_max=1))
    assert followed(traps, [url]) == [url]
    assert traps.refuses(url, PageLinks(HOME), today=TODAY) == "calendar"
    assert traps.refuses(url, PageLinks(HOME), today=date(1999, 1, 1)) in (None, "calendar")


@pytest.mark.parametrize(
    "url",
    [
        "http://h.test/calendar/2026/05",
        "http://h.test/calendar/2016/05",
        "http://h.test/calendar/2027/12",
        "http://h.test/1999/12/31/an-article",
        "http://h.test/item/4711/12",
        "http://h.test/part/1999",
        "http://h.test/a-1999-12.html",
    ],
)
def test_near_dates_articles_and_numbers_are_not(url: str) -> None:
    traps = Traps(TrapRules(calendar_max=1))
    assert len(followed(traps, [url, url])) == 2


def test_a_calendar_is_not_followed_from_month_to_month_but_an_archive_s_list_is() -> None:
    traps = Traps(TrapRules(calendar_max=2))
    months = [f"http://h.test/calendar/2026/{month:02}" for month in range(1, 13)]
    assert followed(traps, months, "http://h.test/calendar/") == months
    chained = [
        url for page_url, url in pairwise(months) if followed(traps, [f"{url}/"], f"{page_url}/")
    ]
    assert chained == months[1:3]
    # A redirect may have put a slash behind the page.
    assert not followed(traps, months[3:4], f"{months[2]}/")
    days = [f"{months[0]}/{day:02}" for day in range(1, 31)]
    assert followed(traps, days, months[0]) == days
    asked = "http://h.test/cal?date=2026-0{}-01"
    assert followed(traps, [asked.format(2)] * 3, asked.format(1)) == [asked.format(2)] * 2


def test_a_template_has_a_cap_whatever_its_numbers_and_values() -> None:
    traps = Traps(TrapRules(template_max=3))
    urls = [f"http://h.test/list/{number}?id={number}" for number in range(9)]
    assert followed(traps, urls) == urls[:3]
    others = ["http://other.test/list/1?id=1", "http://h.test/more?id=1", "http://h.test/list/1"]
    assert followed(traps, others) == others


def test_so_have_the_sets_of_parameter_names_of_a_path() -> None:
    traps = Traps(TrapRules(combinations_max=2))
    sets = [f"http://h.test/list?{name}=1" for name in "abc"]
    assert followed(traps, sets) == sets[:2]
    assert traps.refuses(sets[2], PageLinks(HOME), today=TODAY) == "combinations"
    assert followed(traps, ["http://h.test/list?a=2"]) == ["http://h.test/list?a=2"]


def test_so_have_filters_of_many_parameters() -> None:
    traps = Traps(TrapRules(filters_max=2))
    urls = [f"http://h.test/list?a={n}&b=1&c=1&d=1" for n in range(5)]
    assert followed(traps, urls) == urls[:2]
    assert traps.refuses(urls[4], PageLinks(HOME), today=TODAY) == "filters"
    few = [f"http://h.test/list?a={n}&b=1&c=1" for n in range(5)]
    assert followed(traps, few) == few


@pytest.mark.parametrize("name", ["sid", "PHPSESSID", "session", "session_id", "osCsid"])
def test_so_have_session_ids(name: str) -> None:
    traps = Traps(TrapRules(sessions_max=2))
    urls = [f"http://h.test/cart?{name}={n}" for n in range(5)]
    assert followed(traps, urls) == urls[:2]
    assert traps.refuses(urls[4], PageLinks(HOME), today=TODAY) == "session"


def test_a_template_that_gives_mostly_duplicates_is_left() -> None:
    traps = Traps(TrapRules(duplicates_after=4))
    url = "http://h.test/list?page=9"
    for number in range(4):
        traps.fetched(f"http://h.test/list?page={number}", duplicate=number % 2 == 0)
    assert traps.refuses(url, PageLinks(HOME), today=TODAY) is None
    traps.fetched("http://h.test/list?page=4", duplicate=True)
    assert traps.refuses(url, PageLinks(HOME), today=TODAY) == "duplicates"
    assert traps.refuses("http://h.test/list?q=9", PageLinks(HOME), today=TODAY) is None


def test_one_page_cannot_pass_a_cap_with_many_links() -> None:
    traps, page = Traps(TrapRules(template_max=3)), PageLinks(HOME)
    urls = [f"http://h.test/list?id={number}" for number in range(9)]
    assert [traps.refuses(url, page, today=TODAY) for url in urls] == [None] * 3 + ["template"] * 6
    # None of them was new: the cap is as it was.
    assert traps.refuses(urls[8], PageLinks(HOME), today=TODAY) is None


OFF = TrapRules(
    segment_repeats=0,
    path_depth=0,
    growth_length=0,
    calendar_max=0,
    template_max=0,
    combinations_max=0,
    filters_max=0,
    sessions_max=0,
    duplicates_after=0,
)


def test_every_rule_can_be_switched_off() -> None:
    traps = Traps(OFF)
    traps.fetched("http://h.test/?sid=1", duplicate=True)
    urls = [
        "http://h.test/" + "a/" * 50,
        LONG + "y" * 100,
        "http://h.test/2099/01",
        *[f"http://h.test/?sid={n}&a{n}=1&b=1&c=1&c=1&c=1" for n in range(100)],
    ]
    for url in urls:
        traps.followed(url, page_url=LONG, today=TODAY)
        assert traps.refuses(url, PageLinks(LONG), today=TODAY) is None


def walk(feature: str, *, rules: TrapRules | None = None, most: int = 400) -> int:
    """How many pages of a synthetic trap are fetched if only shapes count."""
    traps = Traps(rules)
    site = Site(0, "h.test", 1, (HOME,), HOME)
    start = TRAPS[feature][0]
    waiting, known = deque([start]), {start}
    fetched = 0
    while waiting and fetched < most:
        path = waiting.popleft()
        fetched += 1
        node = trap_node(site, feature, path)
        assert node is not None
        page = PageLinks(node.url)
        for link in node.links:
            url = canonical(link.url)
            assert not isinstance(url, Rejected)
            path = url.removeprefix("http://h.test")
            if path == "/" or traps.refuses(url, page, today=TODAY) is not None:
                continue
            if path not in known:
                known.add(path)
                waiting.append(path)
                traps.followed(url, page_url=node.url, today=TODAY)
    return fetched


@pytest.mark.parametrize("feature", TRAPS)
def test_the_synthetic_traps_end_by_their_shapes_alone(feature: str) -> None:
    assert walk(feature, rules=OFF) == 400
    assert walk(feature) <= 50


@given(st.text(), st.text())
def test_any_url_can_be_judged(text: str, page: str) -> None:
    url, page_url = canonical(f"http://h/{text}"), canonical(f"http://h/{page}")
    if isinstance(url, str) and isinstance(page_url, str):
        traps = Traps()
        assert isinstance(traps.refuses(url, PageLinks(page_url), today=TODAY), str | None)
        traps.followed(url, page_url=page_url, today=TODAY)
        traps.fetched(url, duplicate=True)


def test_a_tally_forgets_the_key_that_was_counted_longest_ago() -> None:
    tally = Tally(max_bytes=1000)
    for number in range(100):
        tally.add("a")
        tally.add(f"b{number}")
    assert (tally["a"], tally["b0"], tally["b99"]) == (100, 0, 1)
    assert len(tally) < 10
