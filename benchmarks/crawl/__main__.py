"""Measure the whole way of a page: our crawl beside plain Scrapy, scrapy-redis and a bare client.

All fetch the same pages, of 26 KB with 60 links, from a web in memory, and stop as a broad crawl
does: with links waiting. Each run is checked to have fetched the seeds, and no page twice. The
crawler has one core for itself, the servers have the others. The contenders take turns, and medians
count; what is compared is pages per CPU-second of the crawler.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator

from benchmarks import command
from benchmarks.crawl.contenders import ALL, Contender
from benchmarks.crawl.ground import Ground, Run, ground
from benchmarks.crawl.pages import Size
from benchmarks.figures import Figure, Skipped, Target, at_least

_FULL, _FULL_ROUNDS = Size(seeds=2000, hosts=250), 3
_QUICK, _QUICK_ROUNDS = Size(seeds=640, hosts=80), 2


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Let them crawl in turns."""
    size, rounds = (_QUICK, _QUICK_ROUNDS) if quick else (_FULL, _FULL_ROUNDS)
    runs: dict[str, list[Run]] = defaultdict(list)
    with ground(size) as place:
        for number in range(rounds):
            for contender in ALL:
                runs[contender.key].append(_crawl(place, contender, number))
    yield from figures(runs)


def _crawl(place: Ground, contender: Contender, number: int) -> Run:
    run = place.crawl(contender)
    print(
        f"round {number + 1}: {contender.name}: {run.cpu_ms:.2f} ms of CPU a page, "
        f"{run.pages_per_s:.0f} pages/s, {run.redis_ms:.2f} ms of Redis",
        file=sys.stderr,
    )
    return run


def figures(runs: dict[str, list[Run]]) -> Iterator[Figure]:
    """What the runs of all contenders say."""
    names = {contender.key: contender.name for contender in ALL}
    for key, name in names.items():
        costs = [run.cpu_ms for run in runs[key]]
        yield Figure(f"crawl.{key}.cpu_ms_per_page", statistics.median(costs), "ms", peer=name)
        yield Figure(f"crawl.{key}.cpu_spread", (max(costs) - min(costs)) / min(costs), "")
        speed = statistics.median(run.pages_per_s for run in runs[key])
        yield Figure(f"crawl.{key}.pages_per_s", speed, "pages/s")
    ratios: tuple[tuple[str, str, str, Target | None], ...] = (
        ("crawl.ratio_to_scrapy", "ours", "scrapy", at_least(8)),
        ("crawl.ratio_to_scrapy_redis", "ours", "scrapy_redis", at_least(16)),
        ("crawl.no_store_ratio_to_scrapy", "ours_no_store", "scrapy", at_least(12)),
        ("crawl.share_of_bare_client", "ours", "bare", None),
    )
    for figure, key, peer, target in ratios:
        ratio = _median_cost(runs[peer]) / _median_cost(runs[key])
        yield Figure(figure, ratio, "pages per CPU-second", peer=names[peer], target=target)
    redis_ms = statistics.median(run.redis_ms for run in runs["ours"])
    yield Figure("crawl.redis_ms_per_page", redis_ms, "ms")


def _median_cost(runs: list[Run]) -> float:
    return statistics.median(run.cpu_ms for run in runs)


if __name__ == "__main__":
    sys.exit(command.run("benchmarks.crawl", __doc__, {"crawl": measure}))
