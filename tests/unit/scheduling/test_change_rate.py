"""What visits teach about a page's rate of changes, and which interval is best for it."""

from __future__ import annotations

from math import exp, gamma, log

import pytest

from crawler.scheduling.change_rate import ChangeRate, digamma, fitted

DAY = 86_400.0
RATES = [n / 2000 * 20 / DAY for n in range(1, 4001)]


def weights(rate: ChangeRate) -> list[float]:
    shape, time_s = rate
    return [each ** (shape - 1) * exp(-each * time_s) for each in RATES]


def expected(values: list[float], weighted: list[float]) -> float:
    both = zip(values, weighted, strict=True)
    return sum(value * weight for value, weight in both) / sum(weighted)


@pytest.mark.parametrize("elapsed_s", [0.1 * DAY, DAY, 10 * DAY])
@pytest.mark.parametrize("before", [ChangeRate(1.5, DAY), ChangeRate(4, 3 * DAY)])
def test_a_change_gives_the_mean_and_the_spread_of_the_exact_posterior(
    before: ChangeRate, elapsed_s: float
) -> None:
    exact = [
        weight * (1 - exp(-rate * elapsed_s))
        for rate, weight in zip(RATES, weights(before), strict=True)
    ]
    found = before.after(elapsed_s, changed=True)
    mean = expected(RATES, exact)
    assert found.mean == pytest.approx(mean, rel=0.01)
    variance = expected([(rate - mean) ** 2 for rate in RATES], exact)
    assert found.shape / found.time_s**2 == pytest.approx(variance, rel=0.02)


def test_no_change_and_a_change_at_a_known_time_are_exact() -> None:
    before = ChangeRate(0.5, DAY)
    assert before.after(3 * DAY, changed=False) == ChangeRate(0.5, 4 * DAY)
    assert before.after_change_at(3 * DAY) == ChangeRate(1.5, 4 * DAY)


def test_a_change_within_a_moment_counts_as_one() -> None:
    found = ChangeRate(2, DAY).after(1e-3, changed=True)
    assert found == pytest.approx(ChangeRate(3, DAY), rel=1e-3)


def test_a_rate_is_learnt_from_regular_visits() -> None:
    rate = ChangeRate(0.5, 15 * DAY)
    # A page that changes each two days at random is seen changed at 39% of its daily visits.
    for visit in range(200):
        rate = rate.after(DAY, changed=visit % 100 in range(0, 100, 5) or visit % 100 < 24)
    assert rate.mean * DAY == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("interval_s", [0.1 * DAY, 2 * DAY])
def test_the_gain_is_the_expected_one(shape: float, interval_s: float) -> None:
    rate = ChangeRate(shape, DAY)
    # In steps that are even for logarithms: much of the weight is close to 0.
    rates = [exp(log(1e-9 / DAY) + n / 100) for n in range(2400)]
    weighted = [each**shape * exp(-each * DAY) for each in rates]
    gains = [(1 - exp(-each * interval_s) * (1 + each * interval_s)) / each for each in rates]
    assert rate.gain_s(interval_s) == pytest.approx(expected(gains, weighted), rel=0.01)


def test_the_interval_is_where_one_visit_more_gains_its_price() -> None:
    rate = ChangeRate(20, 20 * DAY)
    interval_s = rate.interval_s(0.2 * DAY, 60, 365 * DAY)
    assert rate.gain_s(interval_s) == pytest.approx(0.2 * DAY, rel=0.03)
    assert rate.interval_s(0.1 * DAY, 60, 365 * DAY) < interval_s
    # Changes a day are too many for a price of more than a day.
    assert rate.interval_s(1.2 * DAY, 60, 365 * DAY) == 365 * DAY
    assert rate.interval_s(1e-9, 60, 365 * DAY) == 60


def test_more_changes_make_intervals_shorter_until_they_are_too_many() -> None:
    intervals = [
        ChangeRate(20, 20 * DAY / changes).interval_s(DAY, 60, 365 * DAY)
        for changes in (0.01, 0.1, 0.5, 2, 10)
    ]
    assert intervals[0] > intervals[1] > 2 * DAY
    assert intervals[3:] == [365 * DAY, 365 * DAY]


@pytest.mark.parametrize("shape", [0.2, 1.0, 7.0])
def test_a_distribution_is_fitted_to_its_means(shape: float) -> None:
    rate = ChangeRate(shape, 3 * DAY)
    found = fitted(rate.mean, rate.log_mean)
    assert found.shape == pytest.approx(shape, rel=0.03)
    assert found.mean == pytest.approx(rate.mean)


def test_means_that_are_all_alike_give_no_impossible_distribution() -> None:
    assert fitted(1 / DAY, log(1 / DAY)).shape == 50.0


@pytest.mark.parametrize("x", [0.05, 0.5, 1.0, 3.7, 40.0])
def test_digamma_is_the_slope_of_the_logarithm_of_gamma(x: float) -> None:
    slope = (log(gamma(x + 1e-5)) - log(gamma(x - 1e-5))) / 2e-5
    assert digamma(x) == pytest.approx(slope, rel=1e-4, abs=1e-4)
