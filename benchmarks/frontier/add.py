"""How many URLs a second does one process add, and what does a page cost Redis?

Pages of 60 links, 85% of them known; objects are made beforehand on both sides, since making them
is the link extractor's work. Client and server have a core each, as in a crawl. On one core the
peer, which waits for each answer, wakes no other core and is up to three times as fast: that is
measured too.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import chain

from scrapy_redis.scheduler import Scheduler as PeerScheduler

from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, Skipped, Target, at_least, at_most
from benchmarks.frontier import scrapy_redis_peer as peer
from benchmarks.frontier.client import (
    BATCH,
    Spent,
    Stopwatch,
    add_all,
    batched,
    fill,
    open_frontier,
)
from benchmarks.frontier.links import KNOWN_SHARE, LINKS_A_PAGE, entry, page_links, url
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier.outbox import Outbox, SeenCache, UrlAdder
from crawler.servers.health import redis_health
from crawler.settings import KNOWN_CACHE_SIZE

_HOSTS = 10_000
_ROUNDS = 5
# Its cost does not depend on how many it knows.
_PEER_KNOWN = 3_000
# Pages of one process that wait for their links to be taken, at the same time.
_CONCURRENT_PAGES = 10
_GIVE_UP_S = 60


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """URLs a second beside scrapy-redis, and Redis time with the client's cache."""
    pages, peer_pages, known = (1_000, 30, 100_000) if quick else (4_000, 100, 1_000_000)
    cores = Cores.found()
    ours, theirs = _side_by_side(pages, peer_pages, known, cores)
    yield _rate("frontier.add_per_s", ours, theirs, at_least(120_000), at_least(50))
    # How far to trust the two rates: the best round over the worst.
    yield Figure("frontier.add_spread", _spread(ours), "×")
    yield Figure("frontier.add_peer_spread", _spread(theirs), "×")
    redis_us = min(spent.redis_us for spent in ours)
    peer_us = min(spent.redis_us for spent in theirs)
    yield Figure("frontier.add_redis_us_per_url", redis_us, "µs", peer.NAME, redis_us / peer_us)
    client_us = min(spent.client_us for spent in ours)
    peer_client_us = min(spent.client_us for spent in theirs)
    yield Figure(
        "frontier.add_client_us_per_url", client_us, "µs", peer.NAME, client_us / peer_client_us
    )
    if cores.client is None:
        yield Skipped("frontier.add_one_core_per_s", "processes cannot be bound to a core here")
    else:
        one = Cores(cores.client, cores.client)
        yield _rate("frontier.add_one_core_per_s", *_side_by_side(pages, peer_pages, known, one))
    with private_redis() as server:
        ms = asyncio.run(_redis_ms_with_cache(server, pages))
    yield Figure("frontier.add_redis_ms_per_page", ms, "ms", target=at_most(0.15))


def _side_by_side(
    pages: int, peer_pages: int, known: int, cores: Cores
) -> tuple[list[Spent], list[Spent]]:
    """Rounds of ours and of the peer in turns, so that a busy moment of the machine hits both."""
    ours, theirs = [], []
    with (
        private_redis(cores=cores.servers) as server,
        private_redis(cores=cores.servers) as peer_server,
        running_on(cores.client),
    ):
        asyncio.run(_fill(server, known))
        scheduler = peer.open_scheduler(peer_server)
        peer.enqueue(scheduler, peer.requests(url(n, _HOSTS) for n in range(_PEER_KNOWN)))
        for number in range(_ROUNDS):
            ours.append(asyncio.run(_add(server, known, pages, number)))
            theirs.append(_peer_add(peer_server, scheduler, peer_pages, number))
    return ours, theirs


def _rate(
    name: str,
    ours: list[Spent],
    theirs: list[Spent],
    target: Target | None = None,
    ratio_target: Target | None = None,
) -> Figure:
    """The best rounds: whatever else the machine does can only make one slower."""
    rate = max(spent.per_s for spent in ours)
    ratio = rate / max(spent.per_s for spent in theirs)
    return Figure(name, rate, "1/s", peer.NAME, ratio, target, ratio_target)


def _spread(rounds: list[Spent]) -> float:
    rates = [spent.per_s for spent in rounds]
    return max(rates) / min(rates)


async def _fill(server: PrivateRedis, known: int) -> None:
    async with open_frontier(server) as frontier:
        await fill(frontier, 0, known, _HOSTS)


async def _add(server: PrivateRedis, known: int, pages: int, number: int) -> Spent:
    # Every round finds other new URLs.
    links = page_links(known, pages, first=known + number * pages * LINKS_A_PAGE, seed=number)
    entries = [entry(link, _HOSTS) for link in chain.from_iterable(links)]
    batches = list(batched(entries, BATCH))
    async with open_frontier(server) as frontier:
        # The collector would walk through the prepared objects again and again.
        gc.collect()
        gc.freeze()
        watch = Stopwatch(server)
        added = await add_all(frontier, batches)
        spent = watch.stop(len(entries))
        # A fingerprint is shortened in Redis, so that one URL in millions is taken for another.
        assert abs(added - len(entries) * (1 - KNOWN_SHARE)) <= 3, added
        gc.unfreeze()
    return spent


def _peer_add(server: PrivateRedis, scheduler: PeerScheduler, pages: int, number: int) -> Spent:
    first = _PEER_KNOWN + number * pages * LINKS_A_PAGE
    links = page_links(_PEER_KNOWN, pages, first=first, seed=number)
    requests = peer.requests(url(link, _HOSTS) for link in chain.from_iterable(links))
    gc.collect()
    gc.freeze()
    watch = Stopwatch(server)
    peer.enqueue(scheduler, requests)
    spent = watch.stop(len(requests))
    gc.unfreeze()
    return spent


async def _redis_ms_with_cache(server: PrivateRedis, pages: int) -> float:
    """Past the memory of known URLs and through the outbox, as a crawl's discoveries go."""
    async with open_frontier(server) as frontier:
        outbox = Outbox(frontier, redis_health(_GIVE_UP_S), lambda: None)
        adder = UrlAdder(outbox, SeenCache(KNOWN_CACHE_SIZE), lambda _name, _by: None)
        known = KNOWN_CACHE_SIZE // 2
        for batch in batched((entry(number, _HOSTS) for number in range(known)), 1000):
            await adder.add(batch, "new")
        found = [[entry(link, _HOSTS) for link in links] for links in page_links(known, pages)]
        watch = Stopwatch(server)
        for start in range(0, pages, _CONCURRENT_PAGES):
            now = found[start : start + _CONCURRENT_PAGES]
            await asyncio.gather(*(adder.add(links, "new") for links in now))
        return watch.stop(pages).redis_cpu_s / pages * 1000
