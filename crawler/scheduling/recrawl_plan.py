"""Plan the visits of all known pages within a budget. Pure: no I/O, no clock.

Pages are counted by class, which is what is believed of their rates of changes, in steps of a
quarter of an octave: some hundred classes, however many pages there are. From these counts follows
the price of a visit (see change_rate.py) at which all planned visits together spend the budget.

A new page is believed to change as the pages of its host do, and a host that is hardly known as the
pages of the crawl do: the means of their rates and of the logarithms of these give the gamma
distribution of a page's rate before its visits. With each visit the means become better.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import log2
from typing import NamedTuple, Self

from crawler.scheduling.change_rate import ChangeRate, fitted
from crawler.util.recent import RecentDict, text_bytes

# There must be a date for the next visit.
LONGEST_S = 3650 * 86_400.0
_UNITS_S = {"h": 3600, "d": 86_400, "w": 604_800}
_BUDGET = re.compile(r"budget:(\d{1,12})/([hdw])")
# Classes are a quarter of an octave wide, and these are their largest numbers.
_STEPS = 4
_TIMES, _SHAPES, _INTERVALS = 160, 64, 256
_LOWEST_SHAPE = -24
# Prices are found in steps of 4%.
_PRICE_STEPS = 16
_LOWEST_PRICE, _HIGHEST_PRICE = -40 * _PRICE_STEPS, 40 * _PRICE_STEPS
# More is planned than the budget has, since visits are later than planned. The frontier lets no
# more through than the budget has. Intervals follow a new price only visit by visit, so that what
# is scheduled lags behind; prices make up for it, within these bounds.
_PLANNED = 1.1
_LEAST_LAG, _MOST_LAG = 0.5, 2.0
# Pages that change too fast are visited this often at least, if that takes less than this share of
# the budget.
_RARE_SHARE = 1 / 8
# What is believed before anything is known, as if so many pages had been seen: a change in a month,
# and great differences. And how many pages of the crawl count for each host.
_DAY_S = 86_400.0
_FIRST = ChangeRate(0.5, 15 * _DAY_S)
_FIRST_PAGES, _CRAWL_PAGES = 20, 8
# Memory of hosts, some 15,000 of them.
_HOSTS_MAX_BYTES = 4_000_000
# Changes of counts that wait to be sent, for so many hosts.
_UNSENT_MAX = 20_000


class Budget(NamedTuple):
    """Number of recrawls in a time."""

    visits: int
    time_s: int

    @property
    def per_s(self) -> float:
        return self.visits / self.time_s

    @classmethod
    def parsed(cls, text: str) -> Self | None:
        """Read budget:1000000/d; None for anything else."""
        found = _BUDGET.fullmatch(text)
        if found is None or int(found[1]) == 0:
            return None
        return cls(int(found[1]), _UNITS_S[found[2]])


# --- classes --------------------------------------------------------------------------------------

# How much the freshness of a page counts, by its rank: of a page, and of a feed, which tells of
# changes of many pages.
WEIGHTS = (1.0, 10.0)


def class_of(rate: ChangeRate, rank: int = 0) -> int:
    """Return the class of a page, 0 or more."""
    shape = round(_STEPS * log2(rate.shape)) - _LOWEST_SHAPE
    time = round(_STEPS * log2(max(1.0, rate.time_s)))
    shape = min(_SHAPES - 1, max(0, shape))
    return (rank * _SHAPES + shape) * _TIMES + min(_TIMES - 1, time)


def class_of_interval(interval_s: float, rank: int = 0) -> int:
    """Return the class of what is visited at an interval whatever the price is, below 0."""
    return -1 - (rank * _INTERVALS + round(_STEPS * log2(max(1.0, interval_s))))


def rank_of(number: int) -> int:
    """Return the rank of the pages of a class."""
    return number // (_SHAPES * _TIMES) if number >= 0 else (-1 - number) // _INTERVALS


@lru_cache(maxsize=4096)
def rate_of(number: int) -> ChangeRate:
    """Return the rate in the middle of a class."""
    shape, time = divmod(number % (_SHAPES * _TIMES), _TIMES)
    return ChangeRate(2 ** ((shape + _LOWEST_SHAPE) / _STEPS), 2 ** (time / _STEPS))


@lru_cache(maxsize=16_384)
def _interval_s(number: int, price: int, least_s: float, most_s: float) -> float:
    if number < 0:
        return float(2 ** ((-1 - number) % _INTERVALS / _STEPS))
    weight = WEIGHTS[rank_of(number)]
    return rate_of(number).interval_s(2 ** (price / _PRICE_STEPS) / weight, least_s, most_s)


@lru_cache(maxsize=4096)
def _means_of(number: int) -> tuple[float, float]:
    rate = rate_of(number)
    return rate.mean, rate.log_mean


# --- the plan -------------------------------------------------------------------------------------


class Counted(NamedTuple):
    """What is counted of a page: its class, and the interval to its next visit in whole seconds."""

    number: int
    interval_s: int


class HostSums(NamedTuple):
    """Number of pages of a host, and the sums of their rates and of the rates' logarithms."""

    pages: float = 0
    rates: float = 0.0
    logs: float = 0.0

    def plus(self, other: HostSums) -> HostSums:
        """Return the sums of both."""
        return HostSums(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True, slots=True)
class Prices:
    """What follows from the classes of all pages: the price of a visit, and what is usual."""

    # Logarithm of the price, in steps. The first pages of a crawl come again soon.
    price: int = _LOWEST_PRICE
    # The longest interval.
    most_s: float = 30 * _DAY_S
    # Means of the rates, and of their logarithms.
    rate: float = _FIRST.mean
    log: float = _FIRST.log_mean
    # Visits a second by the intervals that were set.
    planned_per_s: float = 0.0


@dataclass(slots=True)
class Unsent:
    """Changes of counts that the fleet does not know yet."""

    classes: Counter[int] = field(default_factory=Counter)
    # Visits a second by the intervals that were set.
    per_s: float = 0.0
    hosts: dict[str, HostSums] = field(default_factory=dict)


class RecrawlPlan:
    """Plan of one process: prices and hosts as the fleet knows them, and its own news."""

    def __init__(self, budget: Budget, *, min_s: float, max_s: float) -> None:
        self.budget = budget
        self.prices = Prices(most_s=max_s)
        self._min_s, self._max_s = min_s, max_s
        self._hosts = RecentDict[str, HostSums](_HOSTS_MAX_BYTES, text_bytes)
        self._unsent = Unsent()

    def go_on(self, other: RecrawlPlan) -> None:
        """Take over what another plan knows, as when the budget is changed."""
        self._hosts, self._unsent = other._hosts, other._unsent

    def before(self, host: str) -> ChangeRate:
        """Return what is believed of a page of a host that was not visited yet."""
        pages, rates, logs = self._hosts.get(host, HostSums())
        # Less than 0 if a process died before it had sent its counts.
        pages = max(0.0, pages)
        all_pages = pages + _CRAWL_PAGES
        return fitted(
            (max(0.0, rates) + _CRAWL_PAGES * self.prices.rate) / all_pages,
            (logs + _CRAWL_PAGES * self.prices.log) / all_pages,
        )

    def interval_s(self, number: int) -> float:
        """Return the best interval between visits to a page of a class."""
        return _interval_s(number, self.prices.price, self._min_s, self.prices.most_s)

    # --- counts --------------------------------------------------------------------------------

    def moved(self, host: str, before: Counted | None, after: Counted | None) -> None:
        """Count a page as it is now; None: it was not, or is not any more, visited again."""
        change = HostSums()
        for counted, by in ((before, -1), (after, 1)):
            if counted is None:
                continue
            self._unsent.classes[counted.number] += by
            self._unsent.per_s += by / max(1.0, counted.interval_s)
            if counted.number >= 0:
                rate, log = _means_of(counted.number)
                change = change.plus(HostSums(by, by * rate, by * log))
        if not any(change):
            return
        self._hosts[host] = self._hosts.get(host, HostSums()).plus(change)
        unsent = self._unsent.hosts
        if host in unsent or len(unsent) < _UNSENT_MAX:
            unsent[host] = unsent.get(host, HostSums()).plus(change)

    def take_unsent(self) -> Unsent:
        """Return and forget the changes to send."""
        unsent, self._unsent = self._unsent, Unsent()
        return unsent

    def put_back(self, unsent: Unsent) -> None:
        """Keep changes that could not be sent for the next time."""
        self._unsent.classes.update(unsent.classes)
        self._unsent.per_s += unsent.per_s
        for host, change in unsent.hosts.items():
            self._unsent.hosts[host] = self._unsent.hosts.get(host, HostSums()).plus(change)

    def learn(self, hosts: Mapping[str, HostSums]) -> None:
        """Take over the fleet's sums of some hosts."""
        for host, sums in hosts.items():
            self._hosts[host] = sums.plus(self._unsent.hosts.get(host, HostSums()))

    # --- prices --------------------------------------------------------------------------------

    def priced(
        self, classes: Mapping[int, int], per_s: float, *, least: int = 0, most: int = 0
    ) -> Prices:
        """Return the prices for the fleet's counts; may run in a thread, for some ms.

        `per_s` is the number of visits a second by the intervals that were set. Counts that a
        process lost when it died make a small error. `least` and `most` are bounds of the number
        of all pages; 0: none.
        """
        counts = {number: count for number, count in classes.items() if count > 0}
        counted = sum(counts.values())
        if not counted:
            return self.prices
        pages = max(least, min(counted, most or counted))
        scale = pages / counted
        learnt = [(count * scale, *_means_of(n)) for n, count in counts.items() if n >= 0]
        learnt.append((_FIRST_PAGES, _FIRST.mean, _FIRST.log_mean))
        known = sum(count for count, _, _ in learnt)
        rare_s = max(self._max_s, pages / self.budget.per_s / _RARE_SHARE)
        if rare_s > self._max_s:
            # In steps, so that intervals that were found need not be found again.
            rare_s = min(LONGEST_S, 2 ** (round(_STEPS * log2(rare_s)) / _STEPS))
        wanted = self.budget.per_s * _PLANNED
        lag = wanted / (per_s * scale) if per_s > 0 else _MOST_LAG
        target = wanted * min(_MOST_LAG, max(_LEAST_LAG, lag))
        low, high = _LOWEST_PRICE, _HIGHEST_PRICE
        while high - low > 1:
            middle = (low + high) // 2
            if self._planned_per_s(counts, middle, rare_s) * scale > target:
                low = middle
            else:
                high = middle
        return Prices(
            price=high,
            most_s=rare_s,
            rate=sum(count * rate for count, rate, _ in learnt) / known,
            log=sum(count * log for count, _, log in learnt) / known,
            planned_per_s=per_s * scale,
        )

    def _planned_per_s(self, counts: Mapping[int, int], price: int, most_s: float) -> float:
        return sum(
            count / _interval_s(number, price, self._min_s, most_s)
            for number, count in counts.items()
        )
