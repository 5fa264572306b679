"""What does content-seen cost in Redis: time of a check-and-add, and bytes a page?

A million pages are added, in batches of as many as a process has on their way; the last ones are
looked for and added as in a crawl. The tables for 100 million pages are filled with fewer pages and
as many fewer buckets, so that their buckets are as full as they would be.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from math import log2

from redis.asyncio import Redis

from benchmarks.figures import Figure, at_most
from benchmarks.servers import PrivateRedis, private_redis
from crawler.dedup.index import Content, ContentIndex, Layout
from crawler.frontier.frontier import tags

_BATCH = 100
# Pages that a process has on their way at a time.
_AT_ONCE = 10
_CHECKED = 5_000
_DISTANCE = 3
_CRAWL = "bench"


def measure(quick: bool) -> Iterator[Figure]:
    """Four tables at a million pages, then ten."""
    pages = 125_000 if quick else 1_000_000
    with private_redis() as server:
        found = asyncio.run(_fill_and_check(server, Layout.made_for(_tags(), pages), pages))
        check_ms, bytes_a_page, log_bytes, forget_s = found
    yield Figure("content.check_ms", check_ms, "ms", target=at_most(1))
    yield Figure("content.bytes_per_page", bytes_a_page, "B", target=at_most(80))
    yield Figure("content.log_bytes_per_page", log_bytes, "B")
    yield Figure("content.forget_s", forget_s, "s")
    bits = round(log2(100_000_000 / 64)) - round(log2(100_000_000 / pages))
    with private_redis() as server:
        layout = Layout(_tags(), bits=bits, large=True)
        check_ms, bytes_a_page, _, _ = asyncio.run(_fill_and_check(server, layout, pages))
    yield Figure("content.large_check_ms", check_ms, "ms", target=at_most(1))
    yield Figure("content.large_bytes_per_page", bytes_a_page, "B")


def _tags() -> tuple[str, ...]:
    return tags(_CRAWL, 1)


async def _fill_and_check(
    server: PrivateRedis, layout: Layout, pages: int
) -> tuple[float, float, float, float]:
    """CPU ms of Redis a checked page, bytes a page, bytes of the append-only file, s to forget."""
    chance = random.Random(1)
    empty = server.memory_bytes()
    async with Redis.from_url(server.url) as client:
        seen = ContentIndex(client, layout, _DISTANCE)
        for start in range(0, pages - _CHECKED, _BATCH):
            for url_id in range(start, start + _BATCH):
                seen.remember(url_id, _content(chance))
            await seen.flush()
        log_before, cpu_before = _log_bytes(server), server.cpu_s()
        for start in range(pages - _CHECKED, pages, _AT_ONCE):
            contents = [_content(chance) for _ in range(_AT_ONCE)]
            found = await asyncio.gather(
                *(seen.find(start + at, content) for at, content in enumerate(contents))
            )
            for at, content in enumerate(contents):
                if found[at] is None:
                    seen.remember(start + at, content)
        await seen.flush()
        assert not seen.lost
        check_ms = (server.cpu_s() - cpu_before) / _CHECKED * 1000
        log_bytes = (_log_bytes(server) - log_before) / _CHECKED
        bytes_a_page = (server.memory_bytes() - empty) / pages
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await seen.forget(0)
        return check_ms, bytes_a_page, log_bytes, loop.time() - started


def _content(chance: random.Random) -> Content:
    return Content(chance.randbytes(32), chance.getrandbits(64))


def _log_bytes(server: PrivateRedis) -> int:
    return int(server.client.info("persistence")["aof_current_size"])
