"""How many URLs a second does one process add, and what does a page cost Redis?

Pages of 60 links, 85% of them known; objects are made beforehand on both sides, since making them
is the link extractor's work.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from itertools import chain
from statistics import median

from benchmarks.figures import Figure, Skipped, at_least, at_most
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
from benchmarks.frontier.links import LINKS_A_PAGE, entry, page_links, url
from benchmarks.servers import PrivateRedis, private_redis
from crawler.known import Known
from crawler.settings import KNOWN_CACHE_SIZE

_HOSTS = 10_000
_ROUNDS = 5


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """URLs a second beside scrapy-redis, and Redis time with the client's cache."""
    pages, peer_pages, known = (1_000, 30, 100_000) if quick else (4_000, 100, 1_000_000)
    ours, theirs = [], []
    with private_redis() as server, private_redis() as peer_server:
        asyncio.run(_fill(server, known))
        for number in range(_ROUNDS):
            # Side by side, so that a busy moment of the machine hits both.
            ours.append(asyncio.run(_add(server, known, pages, number)))
            theirs.append(_peer_add(peer_server, peer_pages, number))
    rate = median(spent.per_s for spent in ours)
    peer_rate = median(spent.per_s for spent in theirs)
    yield Figure(
        "frontier.add_per_s",
        rate,
        "1/s",
        peer.NAME,
        rate / peer_rate,
        target=at_least(120_000),
        ratio_target=at_least(50),
    )
    redis_us = median(spent.redis_us for spent in ours)
    peer_us = median(spent.redis_us for spent in theirs)
    yield Figure("frontier.add_redis_us_per_url", redis_us, "µs", peer.NAME, redis_us / peer_us)
    client_us = median(spent.client_us for spent in ours)
    peer_client_us = median(spent.client_us for spent in theirs)
    yield Figure(
        "frontier.add_client_us_per_url", client_us, "µs", peer.NAME, client_us / peer_client_us
    )
    with private_redis() as server:
        ms = asyncio.run(_redis_ms_with_cache(server, pages))
    yield Figure("frontier.add_redis_ms_per_page", ms, "ms", target=at_most(0.15))


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
        await add_all(frontier, batches)
        spent = watch.stop(len(entries))
        gc.unfreeze()
    return spent


def _peer_add(server: PrivateRedis, pages: int, number: int) -> Spent:
    known = 3_000
    scheduler = peer.open_scheduler(server)
    if number == 0:
        peer.enqueue(scheduler, peer.requests(url(n, _HOSTS) for n in range(known)))
    links = page_links(known, pages, first=known + number * pages * LINKS_A_PAGE, seed=number)
    requests = peer.requests(url(link, _HOSTS) for link in chain.from_iterable(links))
    gc.collect()
    gc.freeze()
    watch = Stopwatch(server)
    peer.enqueue(scheduler, requests)
    spent = watch.stop(len(requests))
    gc.unfreeze()
    scheduler.server.close()
    return spent


async def _redis_ms_with_cache(server: PrivateRedis, pages: int) -> float:
    """As the scheduler does: a page of which all links are known is not sent at all."""
    known = Known(KNOWN_CACHE_SIZE)
    first = KNOWN_CACHE_SIZE // 2
    async with open_frontier(server) as frontier:
        await fill(frontier, 0, first, _HOSTS)
        for number in range(first):
            known.add(entry(number, _HOSTS).id)
        found = [
            [entry(link, _HOSTS) for link in links] for links in page_links(first, pages, seed=1)
        ]
        watch = Stopwatch(server)
        for start in range(0, pages, 10):
            batch = [
                made
                for links in found[start : start + 10]
                if not all(made.id in known for made in links)
                for made in links
            ]
            if batch:
                await frontier.add(batch)
            for made in batch:
                known.add(made.id)
        return watch.stop(pages).redis_cpu_s / pages * 1000
