"""How many bytes does a known URL take in Redis, and how many a waiting one?

The peer is the set of scrapy-redis: SHA-1 digests in hexadecimal.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.frontier import scrapy_redis_peer as peer
from benchmarks.frontier.client import fill, open_frontier
from benchmarks.frontier.links import url
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier import Tuning
from crawler.frontier.tuning import bloom

_HOSTS = 10_000
_KNOWN = 1_000_000
_BLOOM_CAPACITY = 10_000_000
_BLOOM_URLS = 100_000
_SIZES = {"100k": 100_000, "1m": 1_000_000, "10m": 10_000_000}
_QUICK_SIZES = ("100k", "1m")


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Bytes a URL beside scrapy-redis."""
    few = 100_000 if quick else 1_000_000
    peer_requests = 5_000 if quick else 50_000
    with private_redis(persistent=False, compressed=False) as server:
        seen, waiting = (size / _KNOWN for size in asyncio.run(_bytes(server, _KNOWN)))
    with private_redis(persistent=False, compressed=True) as server:
        compressed = asyncio.run(_bytes(server, few))[1] / few
    with private_redis(persistent=False) as server:
        peer_seen = _peer_seen_bytes(server, [_KNOWN])[0] / _KNOWN
        peer_waiting = _peer_waiting_bytes(server, peer_requests)
    for name, value, peer_value, bound in (
        ("url_seen.bytes_per_url", seen, peer_seen, 5.5),
        ("waiting.bytes_per_url", waiting, peer_waiting, 95),
        ("waiting.compressed_bytes_per_url", compressed, peer_waiting, 45),
    ):
        yield Figure(name, value, "B", peer.NAME, value / peer_value, target=at_most(bound))
    bytes_per_url = _bloom_bytes() / _BLOOM_CAPACITY
    yield Figure(
        "url_seen.bloom_bytes_per_url",
        bytes_per_url,
        "B",
        peer.NAME,
        bytes_per_url / peer_seen,
        target=at_most(2),
    )


def measure_seen(quick: bool) -> Iterator[Figure | Skipped]:
    """All of URL-seen as it grows, beside scrapy-redis' set."""
    sizes = {name: _SIZES[name] for name in (_QUICK_SIZES if quick else _SIZES)}
    with private_redis(persistent=False, compressed=False) as server:
        ours = asyncio.run(_seen_bytes(server, [*sizes.values()]))
    with private_redis(persistent=False) as server:
        theirs = _peer_seen_bytes(server, [*sizes.values()])
    for name, size, peer_size in zip(sizes, ours, theirs, strict=True):
        ratio = size / peer_size
        yield Figure(f"url_seen.mb_at_{name}", size / 1e6, "MB", peer.NAME, ratio)
    yield Figure("url_seen.bloom_mb_up_to_10m", _bloom_bytes() / 1e6, "MB")


async def _bytes(server: PrivateRedis, urls: int, tuning: Tuning | None = None) -> tuple[int, int]:
    """What so many URLs take as known ones, and as waiting ones."""
    async with open_frontier(server, tuning) as frontier:
        empty = server.memory_bytes()
        await fill(frontier, 0, urls, _HOSTS)
    full = server.memory_bytes()
    _delete_fronts(server)
    without_fronts = server.memory_bytes()
    return without_fronts - empty, full - without_fronts


async def _seen_bytes(server: PrivateRedis, sizes: Sequence[int]) -> list[int]:
    """What the known URLs take at each of these sizes, the smallest first."""
    found = []
    async with open_frontier(server) as frontier:
        empty = server.memory_bytes()
        for known, urls in pairwise((0, *sizes)):
            await fill(frontier, known, urls, _HOSTS)
            _delete_fronts(server)
            found.append(server.memory_bytes() - empty)
    return found


def _delete_fronts(server: PrivateRedis) -> None:
    fronts = list(server.client.scan_iter(match="*:front:*", count=10_000))
    assert fronts, "the front queues have other names now"
    server.client.delete(*fronts)


def _bloom_bytes() -> int:
    """A filter has its size from the beginning, however few URLs are in it."""
    with private_redis(persistent=False, compressed=False) as server:
        tuning = Tuning(url_seen=bloom(capacity=_BLOOM_CAPACITY))
        return asyncio.run(_bytes(server, _BLOOM_URLS, tuning))[0]


def _peer_seen_bytes(server: PrivateRedis, sizes: Sequence[int]) -> list[int]:
    """What its set takes at each of these sizes; the digests of the numbers are as long as any."""
    found = []
    empty = server.memory_bytes()
    for known, urls in pairwise((0, *sizes)):
        for start in range(known, urls, 10_000):
            digests = [
                hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest()
                for number in range(start, min(start + 10_000, urls))
            ]
            server.client.sadd(peer.SEEN_KEY, *digests)
        found.append(server.memory_bytes() - empty)
    return found


def _peer_waiting_bytes(server: PrivateRedis, urls: int) -> float:
    scheduler = peer.open_scheduler(server)
    empty = server.memory_bytes()
    for request in peer.requests(url(number, _HOSTS) for number in range(urls)):
        scheduler.queue.push(request)
    assert server.client.zcard(peer.QUEUE_KEY) == urls
    return (server.memory_bytes() - empty) / urls
