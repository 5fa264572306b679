"""How fresh adaptive recrawls keep pages, beside one fixed interval with as many fetches.

Simulated with the real policy. Each page changes at random with a rate of its own; freshness is the
share of time in which what was fetched last is what the page shows. The first half of the time is
for learning and does not count.

Most pages hardly change and some do often: there, what is saved on the first serves the others. On
a web where many pages change several times a day, a fixed interval is the better one: visits in
proportion to changes spend most on pages that are stale again at once.
"""

from __future__ import annotations

import math
import random
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least
from crawler.scheduling.recrawl_policy import RecrawlPolicy, Visit, VisitResult

_DAY_S = 86_400.0
_DAYS = 480
_LEARNING_DAYS = 240
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
    return run("benchmarks.recrawl", __doc__, {"freshness": measure}, argv)


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
