"""How much of a web's importance the first fifth of a crawl holds, beside breadth-first order.

All home pages are seeds. The order is simulated with the real scores, thresholds and turns of the
queues; each host is fetched from at most every few steps, as politeness has it. The turns are those
under load, which large crawls have; with those of small crawls the queues are served more evenly.
"""

from __future__ import annotations

import heapq
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from crawler import settings
from crawler.discovery.priority import HostFacts, Scorer, front_queue
from crawler.discovery.traps import Tally
from crawler.frontier.tuning import turns
from crawler.urls import host_of, registered_domain
from demo.importance import LinkedWeb, importance, linked_web

_FIRST = 0.2
_SLOTS = settings.CONCURRENT_REQUESTS
_REST_STEPS = 4
_HOSTS_KEPT = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    return run("benchmarks.priority", __doc__, {"order": measure, "speed": measure_speed}, argv)


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """The ratio of importance."""
    web = linked_web(200 if quick else 500)
    worth = importance(web)
    first = round(_FIRST * len(web.urls))
    breadth = sum(worth[page] for page in _breadth_first(web, first))
    for name, weights, target in (
        ("priority.importance_ratio", settings.FRONTIER_LOAD_WEIGHTS, at_least(2)),
        ("priority.importance_ratio_small_crawl", settings.FRONTIER_WEIGHTS, None),
    ):
        ours = sum(worth[page] for page in Simulation(web, weights).crawl(first))
        yield Figure(name, ours / breadth, "", peer="breadth first", target=target)


def measure_speed(quick: bool) -> Iterator[Figure | Skipped]:
    """The time that a score takes."""
    scorer, url = Scorer(), "http://www.example.com/news/some-title-of-an-article-12345.html"
    count = 20_000 if quick else 200_000
    best = float("inf")
    for _ in range(5):
        started = time.process_time()
        for _ in range(count):
            scorer.score(url, 2)
        best = min(best, time.process_time() - started)
    yield Figure("priority.score_us", best / count * 1e6, "µs", target=at_most(2))


def _breadth_first(web: LinkedWeb, count: int) -> list[int]:
    order, known = list(web.seeds), set(web.seeds)
    for page in order:
        if len(order) >= count:
            break
        new = [target for target in web.links[page] if target not in known]
        order += new
        known.update(new)
    return order[:count]


class _Queues:
    """Five lists that take turns, as in the frontier."""

    def __init__(self, weights: Sequence[int]) -> None:
        self._lists: list[deque[int]] = [deque() for _ in range(5)]
        self._order = turns(weights)
        self._turn = 0

    def add(self, queue: int, page: int) -> None:
        self._lists[queue - 1].append(page)

    def take(self) -> tuple[int, int] | None:
        """The next queue and page, or None."""
        if not any(self._lists):
            return None
        for _ in range(len(self._order)):
            queue = int(self._order[self._turn % len(self._order)])
            self._turn += 1
            if self._lists[queue - 1]:
                return queue, self._lists[queue - 1].popleft()
        queue = next(number for number, pages in enumerate(self._lists, 1) if pages)
        return queue, self._lists[queue - 1].popleft()


class Simulation:
    """A crawl of a web in the order of its scores."""

    def __init__(self, web: LinkedWeb, weights: Sequence[int]) -> None:
        self._web = web
        self._weights = weights
        self._scorer = Scorer(settings.PRIORITY_WEIGHTS)
        self._found, self._inbound = Tally(_HOSTS_KEPT), Tally(_HOSTS_KEPT)
        self._front = _Queues(weights)
        self._back: dict[str, _Queues] = {}
        self._heap: list[tuple[int, str]] = []
        self._known: set[int] = set()

    def crawl(self, count: int) -> list[int]:
        """The first pages that are fetched."""
        for seed in self._web.seeds:
            self._known.add(seed)
            self._front.add(1, seed)
        fetched: list[int] = []
        depths = dict.fromkeys(self._web.seeds, 0)
        step = 0
        while len(fetched) < count:
            self._route(step)
            taken = [
                heapq.heappop(self._heap)[1]
                for _ in range(_SLOTS)
                if self._heap and self._heap[0][0] <= step
            ]
            for host in taken:
                found = self._back[host].take()
                if found is None:
                    del self._back[host]
                    continue
                heapq.heappush(self._heap, (step + _REST_STEPS, host))
                fetched.append(found[1])
                self._follow(found[1], depths)
            step += 1
        return fetched[:count]

    def _route(self, step: int) -> None:
        """Move pages to their hosts while fewer hosts are ready than could be fetched from."""
        ready = sum(clock <= step for clock, _ in self._heap)
        while ready < _SLOTS and (found := self._front.take()) is not None:
            queue, page = found
            host = host_of(self._web.urls[page])
            if host not in self._back:
                self._back[host] = _Queues(self._weights)
                heapq.heappush(self._heap, (step, host))
                ready += 1
            self._back[host].add(queue, page)

    def _follow(self, page: int, depths: dict[int, int]) -> None:
        urls, depth = self._web.urls, depths[page] + 1
        domain = registered_domain(host_of(urls[page]))
        points: dict[str, int] = {}
        for target in self._web.links[page]:
            url = urls[target]
            host = host_of(url)
            if host not in points:
                if registered_domain(host) != domain:
                    self._inbound.add(host)
                points[host] = self._scorer.host_points(
                    host, HostFacts(self._found[host], self._inbound[host])
                )
            if target not in self._known:
                self._known.add(target)
                depths[target] = depth
                self._found.add(host)
                score = self._scorer.score(url, depth, points[host])
                self._front.add(front_queue(score, settings.FRONTIER_THRESHOLDS), target)


if __name__ == "__main__":
    sys.exit(main())
