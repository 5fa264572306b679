"""Learn how often a page changes, and find the best interval between its visits. Pure.

Changes are taken for a Poisson process. What is believed of its rate is a gamma distribution, which
a visit makes more precise. A visit only tells whether the page changed since the last one, not how
often: the likelihood of "it did" is 1 - exp(-rate x elapsed), and the exact posterior is replaced
by the gamma distribution with its mean and variance.

The best visits are those of Cho and Garcia-Molina: a visit a little earlier keeps each page fresh
for a little longer, and with the best intervals one more visit gains as much for every page. This
gain is the price of a visit, the same for all pages; it is as high as the budget demands. Pages
that change too fast are not worth the price: they are stale again at once.
"""

from __future__ import annotations

from math import exp, expm1, log, log1p, sqrt
from typing import NamedTuple

# Shapes of distributions of rates: below, all rates are either 0 or immense; above, all are equal.
LEAST_SHAPE, MOST_SHAPE = 0.05, 50.0
# Intervals are found to 1%.
_PRECISION = 0.01


class ChangeRate(NamedTuple):
    """Gamma distribution of a rate of changes a second.

    It is what `shape` changes within `time_s` seconds would teach.
    """

    shape: float
    time_s: float

    @property
    def mean(self) -> float:
        """Expected changes a second."""
        return self.shape / self.time_s

    @property
    def log_mean(self) -> float:
        """Expected logarithm of the rate."""
        return digamma(self.shape) - log(self.time_s)

    def after(self, elapsed_s: float, *, changed: bool) -> ChangeRate:
        """Return what is believed after a visit that found a change, or none."""
        shape, time_s = self
        if not changed:
            return ChangeRate(shape, time_s + elapsed_s)
        # Of the posterior, which is a difference of two gamma densities.
        ratio = log1p(elapsed_s / time_s)
        none, one, two = (-expm1(-(shape + more) * ratio) for more in (0, 1, 2))
        mean = shape / time_s * one / none
        square = shape * (shape + 1) / time_s**2 * two / none
        variance = square - mean**2
        return ChangeRate(mean**2 / variance, mean / variance)

    def after_change_at(self, elapsed_s: float) -> ChangeRate:
        """Return what is believed when a page is known to have changed just now."""
        return ChangeRate(self.shape + 1, self.time_s + elapsed_s)

    def gain_s(self, interval_s: float) -> float:
        """Return the time that a page is fresh for longer, by one visit more at this interval.

        It is the expected (1 - exp(-x) (1 + x)) / rate with x = rate x interval.
        """
        shape, time_s = self
        ratio = log1p(interval_s / time_s)
        less = shape - 1
        first = -expm1(-less * ratio) / less if abs(less) > 1e-9 else ratio
        return time_s * first - interval_s * exp(-shape * ratio)

    def interval_s(self, price_s: float, least_s: float, most_s: float) -> float:
        """Return the interval at which one visit more gains as much as it costs."""
        if self.gain_s(most_s) <= price_s:
            return most_s
        if self.gain_s(least_s) >= price_s:
            return least_s
        low, high = log(least_s), log(most_s)
        while high - low > _PRECISION:
            middle = (low + high) / 2
            if self.gain_s(exp(middle)) < price_s:
                low = middle
            else:
                high = middle
        return exp((low + high) / 2)


def fitted(mean: float, log_mean: float) -> ChangeRate:
    """Return the distribution of rates with these means of the rates and of their logarithms."""
    spread = max(1e-6, log(mean) - log_mean)
    # Within 1.5% of the most likely one (Minka, Estimating a Gamma distribution).
    shape = (3 - spread + sqrt((spread - 3) ** 2 + 24 * spread)) / (12 * spread)
    shape = min(MOST_SHAPE, max(LEAST_SHAPE, shape))
    return ChangeRate(shape, shape / mean)


def digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function, for x > 0."""
    below = 0.0
    while x < 6:
        below += 1 / x
        x += 1
    square = 1 / (x * x)
    return log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252)) - below
