"""How fresh recrawls keep pages: under a budget beside the optimum, and adaptive beside fixed.

Simulated with the real policies. Each page changes with a rate of its own; freshness is the share
of time in which what was fetched last is what the page shows, staleness the rest. The first half of
the 480 days is for learning from nothing and does not count.

A budget is simulated with its plan, as two processes that share counts and turns; pages have hosts,
and are visited up to a quarter of an hour late. The optimum knows the true rates, and spends the
same budget by the condition of Cho and Garcia-Molina, at exact intervals. A fixed interval has as
many fetches.

Three webs: one on which most pages hardly change and some do often; one on which many pages change
several times a day; and the synthetic web of demo/, whose pages change by the clock.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from xxhash import xxh3_64_digest

from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from crawler.frontier.frontier import EXPRESS_SHARE
from crawler.scheduling.recrawl_plan import Budget, HostSums, RecrawlPlan
from crawler.scheduling.recrawl_policy import RecrawlPolicy, Visit, VisitResult
from crawler.scheduling.recrawls import counted
from demo.node import Behaviour
from demo.web import Web, WebOptions

_DAY_S = 86_400.0
_DAYS = 480
_LEARNING_DAYS = 240
# Visits a page a day of the budget.
_VISITS = 1 / 4
_HOSTS = 50
_LATE_DAYS = 1 / 96
# Between two looks of a process at what the others learnt: seconds in a crawl, which would change
# nothing in some hours.
_SYNC_DAYS = 1 / 4
# Shares of pages, and the least and the most days between two changes of theirs; None: never.
Mix = Sequence[tuple[float, float | None, float]]
USUAL: Mix = (
    (0.01, 0.25, 1),
    (0.06, 1, 4),
    (0.13, 4, 14),
    (0.10, 14, 60),
    (0.70, None, 0),
)
RESTLESS: Mix = (
    (0.23, 0.3, 1),
    (0.15, 1, 7),
    (0.16, 7, 30),
    (0.17, 30, 120),
    (0.29, 120, 1000),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    return run(
        "benchmarks.recrawl", __doc__, {"freshness": measure, "budget": measure_budget}, argv
    )


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Freshness of both, on the two mixes."""
    pages = 300 if quick else 2000
    for mix, suffix, target in ((USUAL, "", at_least(1)), (RESTLESS, "_restless_web", None)):
        changes = [list(_changes(rate, number)) for number, rate in enumerate(_rates(mix, pages))]
        adaptive, fetches = simulate(changes, RecrawlPolicy())
        interval_s = len(changes) * (_DAYS - _LEARNING_DAYS) * _DAY_S / fetches
        fixed, fixed_fetches = simulate(changes, RecrawlPolicy(interval_s))
        peer = f"fixed, {interval_s / _DAY_S:.1f} d"
        ratio = adaptive / fixed
        yield Figure(f"recrawl.freshness_ratio{suffix}", ratio, "", peer=peer, target=target)
        yield Figure(f"recrawl.freshness{suffix}", adaptive, "", peer=peer, ratio=ratio)
        if not suffix:
            # As many fetches, or there is nothing to compare.
            yield Figure("recrawl.fetches_ratio", fetches / fixed_fetches, "", peer=peer)


def simulate(changes: Sequence[Sequence[float]], policy: RecrawlPolicy) -> tuple[float, int]:
    """The pages' mean freshness, and the fetches; `changes` are days, of each page its own."""
    fresh = fetches = 0.0
    for number, days in enumerate(changes):
        # Pages are not found all at once.
        day = random.Random(number).uniform(0, 7)
        before: Visit | None = None
        while day < _DAYS:
            version = bisect_right(days, day)
            decision = policy.visited(before, VisitResult(b"%d" % version), now_s=day * _DAY_S)
            before = decision.visit
            until = min(day + decision.wait_s / _DAY_S, _DAYS)
            changes_at = days[version] if version < len(days) else _DAYS
            fresh += max(0.0, min(until, changes_at) - max(day, _LEARNING_DAYS))
            fetches += day >= _LEARNING_DAYS
            day = until
    return fresh / len(changes) / (_DAYS - _LEARNING_DAYS), round(fetches)


# --- a budget -------------------------------------------------------------------------------------


def measure_budget(quick: bool) -> Iterator[Figure | Skipped]:
    """Freshness under a budget, beside the optimum and a fixed interval."""
    pages = 300 if quick else 2000
    webs = {
        "": SimulatedWeb.changing_at_random(USUAL, pages),
        "_synthetic_web": SimulatedWeb.of_demo(30 if quick else 150),
        "_restless_web": SimulatedWeb.changing_at_random(RESTLESS, pages),
    }
    for suffix, web in webs.items():
        spent = web.crawled_within(_VISITS)
        best = web.freshness(web.best_intervals(_VISITS))
        fixed = web.freshness([1 / spent.visits_a_page] * len(web.rates))
        share, saved = spent.fresh / best, 1 - (1 - spent.fresh) / (1 - fixed)
        is_target = suffix != "_restless_web"
        yield Figure(
            f"recrawl.share_of_optimum{suffix}",
            share,
            "",
            peer=f"optimum, {best:.3f}",
            ratio=share,
            target=at_least(0.97) if is_target else None,
        )
        yield Figure(
            f"recrawl.staleness_saved{suffix}",
            saved,
            "",
            peer=f"fixed, {1 / spent.visits_a_page:.1f} d",
            ratio=(1 - spent.fresh) / (1 - fixed),
            target=at_least(0.25) if is_target else None,
        )
        yield Figure(
            f"recrawl.budget_spent{suffix}",
            spent.visits_a_page / _VISITS,
            "",
            target=at_most(1.0),
        )


@dataclass(frozen=True, slots=True)
class Crawled:
    """Result of the second half of a simulated crawl."""

    fresh: float
    # A day.
    visits_a_page: float


@dataclass(slots=True)
class SimulatedWeb:
    """Pages with their hosts, their true rates of changes a day, and the days of these changes."""

    hosts: Sequence[str]
    rates: Sequence[float]
    changes: Sequence[Sequence[float]]

    @classmethod
    def changing_at_random(cls, mix: Mix, pages: int) -> SimulatedWeb:
        """Pages of a mix: half of the hosts have pages of all kinds, half of one kind each."""
        rates = list(_rates(mix, pages))
        chance = random.Random(2)
        alike = [f"h{n * _HOSTS // len(rates)}.test" for n in range(len(rates))]
        mixed = [f"m{chance.randrange(_HOSTS)}.test" for _ in rates]
        return cls(
            [chance.choice(pair) for pair in zip(alike, mixed, strict=True)],
            rates,
            [list(_changes(rate, number)) for number, rate in enumerate(rates)],
        )

    @classmethod
    def of_demo(cls, hosts: int) -> SimulatedWeb:
        """Pages of the synthetic web, each of which changes when its period has passed.

        Those of seconds are as if they changed every five minutes: stale at once in any case.
        """
        web = Web(WebOptions(hosts=hosts, pages=8, seed=3))
        pages = [
            node
            for number in range(hosts)
            for node in (
                *(web.page(number, index) for index in range(web.profile(number).size)),
                *web.extras(number).values(),
            )
            if node.behaviour is Behaviour.PAGE
        ]
        periods = [max(node.period_s, 300) / _DAY_S if node.period_s else 0.0 for node in pages]
        changes = {
            period: [period * n for n in range(1, int(_DAYS / period))] if period else []
            for period in set(periods)
        }
        return cls(
            [node.host for node in pages],
            [1 / period if period else 0.0 for period in periods],
            [changes[period] for period in periods],
        )

    def freshness(self, intervals: Sequence[float]) -> float:
        """Freshness of pages that are visited at fixed intervals, in days."""
        fresh = 0.0
        for number, (days, interval) in enumerate(zip(self.changes, intervals, strict=True)):
            at = _LEARNING_DAYS - random.Random(number).random() * min(interval, _LEARNING_DAYS)
            while at < _DAYS:
                fresh += _fresh_days(days, at, min(at + interval, _DAYS))
                at += interval
        return fresh / len(self.rates) / (_DAYS - _LEARNING_DAYS)

    def best_intervals(self, visits: float) -> list[float]:
        """Intervals of the optimum with so many visits a page a day, for the true rates."""
        low, high = -40.0, 40.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            found = [_best_interval(rate, math.exp(middle)) for rate in self.rates]
            if sum(1 / interval for interval in found) > visits * len(self.rates):
                low = middle
            else:
                high = middle
        return [_best_interval(rate, math.exp(high)) for rate in self.rates]

    def crawled_within(self, visits: float, processes: int = 2) -> Crawled:
        """Crawl with the policy of a budget, with so many visits a page a day."""
        budget = Budget(round(visits * len(self.rates) * 1000), 1000 * round(_DAY_S))
        fleet = _Fleet(budget, processes)
        chance = random.Random(3)
        # Day, page, whether it has its turn.
        due = [(chance.uniform(0, 7), page, False) for page in range(len(self.rates))]
        heapq.heapify(due)
        known: dict[int, Visit] = {}
        last: dict[int, float] = {}
        fresh = fetches = 0.0
        while due and due[0][0] < _DAYS:
            day, page, has_turn = heapq.heappop(due)
            fleet.sync(day)
            before = known.get(page)
            if before is not None:
                turn = day if has_turn else fleet.turn(day)
                if turn > day:
                    heapq.heappush(due, (turn, page, True))
                    continue
                day += chance.uniform(0, _LATE_DAYS)
                fetches += _LEARNING_DAYS <= day < _DAYS
                fresh += _fresh_days(self.changes[page], last[page], min(day, _DAYS))
            version = bisect_right(self.changes[page], day)
            decision = fleet.policies[chance.randrange(processes)].visited(
                before,
                VisitResult(xxh3_64_digest(b"%d %d" % (page, version))),
                now_s=day * _DAY_S,
                host=self.hosts[page],
            )
            fleet.moved(self.hosts[page], before, decision.visit)
            known[page], last[page] = decision.visit, day
            heapq.heappush(due, (day + decision.wait_s / _DAY_S, page, False))
        fresh += sum(_fresh_days(self.changes[page], at, _DAYS) for page, at in last.items())
        counted = len(self.rates) * (_DAYS - _LEARNING_DAYS)
        return Crawled(fresh / counted, fetches / counted)


class _Fleet:
    """Processes with a plan each, and what they share: counts and turns."""

    def __init__(self, budget: Budget, processes: int) -> None:
        tuning = RecrawlPolicy().tuning
        self.policies = [
            RecrawlPolicy(plan=RecrawlPlan(budget, min_s=tuning.min_s, max_s=tuning.max_s))
            for _ in range(processes)
        ]
        self._turn_days = 1 / (budget.per_s * (1 - EXPRESS_SHARE)) / _DAY_S
        self._next_turn = self._next_sync = 0.0
        self._process = 0
        self._classes: Counter[int] = Counter()
        self._per_s = 0.0
        self._hosts: dict[str, HostSums] = {}

    def turn(self, day: float) -> float:
        """Take the next turn, as lua/promote.lua does; turns of the next hour count as now's."""
        turn = max(day, self._next_turn)
        self._next_turn = turn + self._turn_days
        return turn

    def moved(self, host: str, before: Visit | None, after: Visit) -> None:
        """Count a page that was visited, as Recrawls does."""
        plan = self.policies[self._process].plan
        assert plan is not None
        plan.moved(host, counted(before), counted(after))

    def sync(self, day: float) -> None:
        """Let each process share its news, now and then, as RecrawlBudget does."""
        if day < self._next_sync:
            return
        self._next_sync = day + _SYNC_DAYS
        for policy in self.policies:
            plan = policy.plan
            assert plan is not None
            unsent = plan.take_unsent()
            self._classes.update(unsent.classes)
            self._per_s += unsent.per_s
            for host, change in unsent.hosts.items():
                self._hosts[host] = self._hosts.get(host, HostSums()).plus(change)
            plan.learn({host: self._hosts[host] for host in unsent.hosts})
            plan.prices = plan.priced(self._classes, self._per_s)


def _fresh_days(changes: Sequence[float], start: float, end: float) -> float:
    """Days after the learning in which what was fetched at the start was what the page showed."""
    version = bisect_right(changes, start)
    changes_at = changes[version] if version < len(changes) else _DAYS
    return max(0.0, min(end, changes_at) - max(start, _LEARNING_DAYS))


def _best_interval(rate: float, price: float) -> float:
    """Days between visits to a page whose rate is known."""
    if rate == 0 or price * rate >= 1:
        return math.inf
    low, high = -30.0, 10.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        gain = -math.expm1(-math.exp(middle)) - math.exp(middle - math.exp(middle))
        low, high = (middle, high) if gain < price * rate else (low, middle)
    return math.exp(low) / rate


# --- pages ----------------------------------------------------------------------------------------


def _rates(mix: Mix, pages: int) -> Iterator[float]:
    """Changes a day of each page."""
    chance = random.Random(1)
    for share, least, most in mix:
        for _ in range(round(share * pages)):
            if least is None:
                yield 0.0
            else:
                yield 1 / math.exp(chance.uniform(math.log(least), math.log(most)))


def _changes(rate: float, number: int) -> Iterator[float]:
    """The days of a page's changes: they know nothing of each other."""
    if rate == 0:
        return
    chance = random.Random(-1 - number)
    for day in accumulate(iter(lambda: chance.expovariate(rate), None)):
        if day > _DAYS:
            return
        yield day


if __name__ == "__main__":
    sys.exit(main())
