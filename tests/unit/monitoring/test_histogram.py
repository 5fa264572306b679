"""Durations are counted by size, and quantiles come from the counts."""

import random

import pytest

from crawler.monitoring.histogram import FETCH_S, Histogram


def test_a_duration_belongs_to_the_first_bound_that_is_not_below_it() -> None:
    histogram = Histogram((0.1, 1.0))
    for duration_s in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(duration_s)
    assert histogram.counts == [2, 1, 1]
    assert histogram.count == 4
    assert histogram.sum_s == pytest.approx(3.65)


def test_figures_make_the_same_histogram_again() -> None:
    histogram = Histogram(FETCH_S)
    for duration_s in (0.004, 0.2, 0.21, 77.0):
        histogram.observe(duration_s)
    again = Histogram.from_figures(histogram.figures("fetch"), "fetch", FETCH_S)
    assert again.counts == histogram.counts
    assert again.sum_s == pytest.approx(histogram.sum_s)


def test_without_durations_there_are_no_quantiles() -> None:
    assert Histogram(FETCH_S).quantiles((0.5, 0.99)) == [None, None]


def test_quantiles_are_in_the_bucket_of_the_true_ones() -> None:
    chance = random.Random(1)
    durations = sorted(chance.expovariate(2.0) for _ in range(5000))
    histogram = Histogram(FETCH_S)
    for duration_s in durations:
        histogram.observe(duration_s)
    for share, found in zip((0.5, 0.95, 0.99), histogram.quantiles((0.5, 0.95, 0.99)), strict=True):
        true_s = durations[round(share * len(durations)) - 1]
        upper = next(bound for bound in FETCH_S if bound >= true_s)
        lower = max([0.0, *(bound for bound in FETCH_S if bound < true_s)])
        assert found is not None
        assert lower <= found <= upper


def test_what_is_beyond_the_last_bound_counts_as_the_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    histogram.observe(60.0)
    assert histogram.quantiles((0.5,)) == [1.0]
