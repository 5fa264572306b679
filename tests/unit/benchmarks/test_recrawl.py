"""The simulation behind recrawl.freshness_ratio."""

import pytest

from benchmarks.recrawl import simulate
from crawler.scheduling.recrawl_policy import RecrawlPolicy

DAY_S = 86_400.0


def test_a_page_that_never_changes_is_always_fresh() -> None:
    fresh, fetches = simulate([[], []], RecrawlPolicy(10 * DAY_S))
    assert fresh == pytest.approx(1.0)
    assert fetches == 48


def test_a_page_that_changes_all_the_time_is_never_fresh() -> None:
    often = [day / 100 for day in range(48_000)]
    fresh, _ = simulate([often], RecrawlPolicy(10 * DAY_S))
    assert fresh < 0.01


def test_adaptive_visits_follow_the_changes() -> None:
    weekly = [float(day) for day in range(0, 480, 7)]
    both, visits = simulate([weekly, []], RecrawlPolicy())
    fixed, same = simulate([weekly, []], RecrawlPolicy(2 * 240 * DAY_S / visits))
    assert same == pytest.approx(visits, rel=0.1)
    assert both > fixed
