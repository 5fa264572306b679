"""How much of a web's importance does the first fifth of a crawl have?

It is measured between breadth-first and an oracle. The importance of a page is its PageRank in the
whole web (demo/importance.py). A simulated crawl goes through the real link follower, frontier,
counts and sweeps on a Redis of its own, in virtual time: each step is a second, and a host rests
for some seconds after each fetch. All settings are the usual ones; the turns of the queues are
those of small crawls, or those under load. Chance decides much in one web, so the figures are means
over several; `importance_ratio_lowest` is that of the worst.

The oracle fetches the most important fifth of all pages, and breadth-first what it finds in order;
neither has to wait for a host. `importance_ratio_polite` compares the same crawl with two that have
its delays: one in the order in which URLs are found, and one that knows the importance of each URL
that it has found.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector

from benchmarks.command import run
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.servers import private_redis
from crawler import settings
from crawler.discovery.counts import CountSync
from crawler.discovery.follow import LinkFollower, scorer
from crawler.discovery.priority import Scorer
from crawler.discovery.scope import Scope
from crawler.discovery.traps import Traps
from crawler.frontier import Added, Entry, Frontier, Lease, Tuning
from crawler.frontier.outbox import SeenCache
from crawler.frontier.sweep import Sweeper
from crawler.servers.redis.connection import Client, connect
from crawler.storage.link_graph import LinkGraph
from crawler.urls import DEFAULT, host_of
from demo.importance import LinkedWeb, linked_web

_FIRST = 0.2
# Few enough that a host's delay is no limit in so small a web, as it is none in large ones.
_SLOTS = 16
_REST_MS = 4000
# Steps between two exchanges of counts and sweeps, as in a crawl.
_SYNC_STEPS = 2
# Far ahead of the server's clock.
_T0 = 4_000_000_000_000
# Settings of the crawls that are compared, by what their figures are called.
_CHANGES: dict[str, dict[str, object]] = {
    "": {},
    "_under_load": {"FRONTIER_WEIGHTS": settings.FRONTIER_LOAD_WEIGHTS},
    "_without_links": {"INBOUND_SKETCH_BYTES": 0},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    return run("benchmarks.priority", __doc__, {"order": measure, "speed": measure_speed}, argv)


def measure(quick: bool, hosts: int = 0) -> Iterator[Figure | Skipped]:
    """The shares of the gap on several webs, also under load, and without links to single URLs."""
    size, count = (300, 2) if quick else (1000, 3)
    webs = [measure_web(linked_web(hosts or size, seed)) for seed in range(1, count + 1)]
    for name in webs[0]:
        values = [web[name] for web in webs]
        unit = "of the gap" if name.startswith("importance_ratio") else "of all importance"
        target = at_least(0.6) if name == "importance_ratio" else None
        yield Figure(f"priority.{name}", fmean(values), unit, target=target)
        if target is not None:
            yield Figure(f"priority.{name}_lowest", min(values), unit)


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


def measure_web(web: LinkedWeb) -> dict[str, float]:
    """Return the figures of one web."""
    worth = importance(web)
    first = round(_FIRST * len(web.urls))

    def sum_of(pages: Sequence[int]) -> float:
        return sum(worth[page] for page in pages)

    breadth = sum_of(breadth_first(web, first))
    oracle = sum(sorted(worth, reverse=True)[:first])
    ours = {name: sum_of(pages) for name, pages in asyncio.run(crawls(web, first)).items()}
    figures = {"breadth_first": breadth, "oracle": oracle, "importance": ours[""]}
    for name, reached in ours.items():
        figures[f"importance_ratio{name}"] = (reached - breadth) / (oracle - breadth)
    polite = sum_of(in_order(web, first, [0.0] * len(worth)))
    best = sum_of(in_order(web, first, worth))
    figures["importance_ratio_polite"] = (ours[""] - polite) / (best - polite)
    return figures


def importance(web: LinkedWeb) -> list[float]:
    """Return the PageRank of each page; they add up to 1."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        graph = LinkGraph(Path(folder))
        for page, targets in enumerate(web.links):
            graph.add(page, targets)
        ranks = graph.rank().ranks
    return (ranks / ranks.sum()).tolist()


def in_order(web: LinkedWeb, count: int, worth: Sequence[float]) -> list[int]:
    """Return the first pages of a crawl that fetches the best of those that it has found.

    It has the slots and delays of ours. Of pages that are equal, it fetches what it found first.
    """
    waiting = _Waiting(web, worth)
    known, fetched = set(web.seeds), list[int]()
    for page in web.seeds:
        waiting.add(page)
    step = 0
    while len(fetched) < count:
        taken = waiting.take(step)
        for page in taken:
            for target in web.links[page]:
                if target not in known:
                    known.add(target)
                    waiting.add(target)
        fetched += taken
        step += 1
    return fetched[:count]


class _Waiting:
    """Pages that were found and not fetched, the best of each host first."""

    def __init__(self, web: LinkedWeb, worth: Sequence[float]) -> None:
        self._hosts = [host_of(url) for url in web.urls]
        self._worth = worth
        self._pages: dict[str, list[tuple[float, int, int]]] = defaultdict(list)
        # Hosts by their best pages; some are offered twice.
        self._ready: list[tuple[tuple[float, int, int], str]] = []
        self._resting: deque[tuple[int, str]] = deque()
        self._rests: set[str] = set()
        self._found = 0

    def add(self, page: int) -> None:
        self._found += 1
        item, host = (-self._worth[page], self._found, page), self._hosts[page]
        heapq.heappush(self._pages[host], item)
        if self._pages[host][0] is item:
            self._offer(host)

    def take(self, step: int) -> list[int]:
        """Return the pages of one step."""
        while self._resting and self._resting[0][0] <= step:
            _, host = self._resting.popleft()
            self._rests.discard(host)
            self._offer(host)
        taken: list[int] = []
        while self._ready and len(taken) < _SLOTS:
            best, host = heapq.heappop(self._ready)
            if host not in self._rests and self._pages[host][:1] == [best]:
                heapq.heappop(self._pages[host])
                taken.append(best[2])
                self._rests.add(host)
                self._resting.append((step + _REST_MS // 1000, host))
        return taken

    def _offer(self, host: str) -> None:
        if self._pages[host] and host not in self._rests:
            heapq.heappush(self._ready, (self._pages[host][0], host))


def breadth_first(web: LinkedWeb, count: int) -> list[int]:
    """Return the first pages in the order in which they are found."""
    order, known = list(web.seeds), set(web.seeds)
    for page in order:
        if len(order) >= count:
            break
        new = [target for target in web.links[page] if target not in known]
        order += new
        known.update(new)
    return order[:count]


async def crawls(web: LinkedWeb, count: int) -> dict[str, list[int]]:
    """Return the first pages of crawls with the usual settings and with others, by their names.

    They go on at the same time, since each waits for its own Redis most of the time.
    """
    with ExitStack() as servers:
        urls = [servers.enter_context(private_redis(persistent=False)).url for _ in _CHANGES]
        found = await asyncio.gather(
            *(
                crawl(web, count, url, changed)
                for url, changed in zip(urls, _CHANGES.values(), strict=True)
            )
        )
    return dict(zip(_CHANGES, found, strict=True))


async def crawl(web: LinkedWeb, count: int, url: str, changed: dict[str, object]) -> list[int]:
    """Return the first pages that are fetched with these settings."""
    redis = await connect(url)
    try:
        simulation = Simulation(web, redis, changed)
        return await simulation.crawl(count)
    finally:
        await redis.aclose()


class Simulation:
    """A crawl of a web by the usual parts, without downloads."""

    def __init__(self, web: LinkedWeb, redis: Client, changed: dict[str, object]) -> None:
        crawler = Crawler(Spider)
        crawler.settings.setmodule(settings)
        crawler.settings.update(changed)
        crawler.stats = MemoryStatsCollector(crawler)
        values = crawler.settings
        tuning = Tuning(
            weights=values["FRONTIER_WEIGHTS"],
            load_weights=values["FRONTIER_LOAD_WEIGHTS"],
            load_threshold=values["FRONTIER_LOAD_THRESHOLD"],
        )
        self._web = web
        self._page_of = {url: page for page, url in enumerate(web.urls)}
        self._frontier = Frontier(redis, "priority", tuning=tuning)
        scheduler = _Scheduler(self._frontier)
        self._follower = LinkFollower(
            *(crawler, lambda: scheduler, scorer(values), Traps())  # type: ignore[arg-type]
        )
        self._counts = CountSync(
            self._follower.hosts,
            self._frontier,
            links=self._follower.links,
            sketch_bytes=values["INBOUND_SKETCH_BYTES"],
            queue_of_linked=self._follower.queue_of_linked,
        )
        self._sweeper = Sweeper(redis, self._frontier, pause_s=0)

    async def crawl(self, count: int) -> list[int]:
        """Return the first pages that are fetched."""
        frontier = self._frontier
        await frontier.open()
        seeds = [self._web.urls[page] for page in self._web.seeds]
        ids = DEFAULT.fingerprints(seeds)
        await frontier.add([Entry(id_, url) for id_, url in zip(ids, seeds, strict=True)])
        fetched: list[int] = []
        step = 0
        while len(fetched) < count:
            now_ms = _T0 + 1000 * step
            leases = (await frontier.claim(_SLOTS, f"r{step}", now_ms=now_ms)).leases
            for lease in leases:
                fetched.append(self._page_of[lease.entry.url])
                await self._follow(fetched[-1], lease)
            await frontier.release([(lease, _REST_MS) for lease in leases], now_ms=now_ms)
            await frontier.done([(lease, True) for lease in leases])
            step += 1
            if step % _SYNC_STEPS == 0:
                await self._counts.sync()
                await self._sweeper.sweep_all()
        return fetched[:count]

    async def _follow(self, page: int, lease: Lease) -> None:
        urls, entry = self._web.urls, lease.entry
        await self._follower.follow(
            [urls[target] for target in self._web.links[page]],
            page_url=entry.url,
            depth=entry.depth + 1,
            parent=entry.id,
            parent_url=entry.url,
        )


class _Options:
    scope = Scope(scope="any")


class _Scheduler:
    """What the link follower needs of a scheduler, without Scrapy's engine."""

    thresholds = settings.FRONTIER_THRESHOLDS
    urls = DEFAULT
    options_watcher = _Options()

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self._known = SeenCache(settings.KNOWN_CACHE_SIZE)

    @property
    def adder(self) -> _Scheduler:
        return self

    def known_among(self, ids: Sequence[int]) -> set[int]:
        return self._known.among(ids)

    def met_again(self, number: int) -> None:
        pass

    async def add_links(
        self, ids: Sequence[int], entries: Sequence[bytes], _scores: Sequence[int]
    ) -> Added:
        added = await self.frontier.add(entries)
        self._known.update(ids)
        return added


if __name__ == "__main__":
    sys.exit(main())
