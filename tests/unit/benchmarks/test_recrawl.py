"""The simulation behind recrawl.freshness_ratio."""

import pytest

from benchmarks.recrawl import USUAL, SimulatedWeb, simulate
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


def test_a_budget_is_kept_and_spent_nearly_as_well_as_with_known_rates() -> None:
    web = SimulatedWeb.changing_at_random(USUAL, 100)
    crawled = web.crawled_within(1 / 8)
    assert crawled.visits_a_page <= 1 / 8
    assert crawled.fresh >= 0.97 * web.freshness(web.best_intervals(1 / 8))
    fixed = web.freshness([1 / crawled.visits_a_page] * len(web.rates))
    assert 1 - crawled.fresh <= 0.75 * (1 - fixed)


def test_the_optimum_spends_its_budget_on_what_can_be_kept_fresh() -> None:
    rates = [0.0, 0.1, 0.5, 100.0]
    web = SimulatedWeb(["h.test"] * 4, rates, [[]] * 4)
    never, slow, quick, hopeless = web.best_intervals(0.25)
    assert (never, hopeless) == (float("inf"), float("inf"))
    assert quick < slow
    assert 1 / slow + 1 / quick == pytest.approx(1.0, rel=1e-3)
