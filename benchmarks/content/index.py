"""What does content-seen cost in Redis: time of a check-and-add, and bytes a page?

A million pages are added, in batches of as many as a process has on their way; the last ones are
looked for and added as in a crawl. The tables for 100 million pages are filled with fewer pages and
as many fewer buckets, so that their buckets are as full as they would be. Near-duplicates are found
by SimHash in four and in ten tables, then by MinHash.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from math import log2

from redis.asyncio import Redis

from benchmarks.figures import Figure, at_most
from benchmarks.servers import PrivateRedis, private_redis
from crawler.dedup.buckets import Buckets, bits_for
from crawler.dedup.index import ContentIndex
from crawler.dedup.minhash import LABEL_BYTES, SKETCH_BYTES
from crawler.dedup.minhash_tables import MinHashTables
from crawler.dedup.near import Content, NearTables
from crawler.dedup.simhash_tables import SimHashTables
from crawler.frontier.frontier import tags

_BATCH = 100
# Pages that a process has on their way at a time.
_AT_ONCE = 10
_CHECKED = 5_000
TAGS = tags("bench", 1)
# Makes fingerprints of numbers.
_ODD = 0x9E37_79B9_7F4A_7C15


def measure(quick: bool) -> Iterator[Figure]:
    """Measure four tables at a million pages, ten tables, and those of MinHash."""
    pages = 125_000 if quick else 1_000_000
    bits = bits_for(pages)
    large_bits = round(log2(100_000_000 / 64)) - round(log2(100_000_000 / pages))
    tables: dict[str, Callable[[Buckets], NearTables]] = {
        "": lambda buckets: SimHashTables(buckets, TAGS, bits=bits, large=False),
        "large_": lambda buckets: SimHashTables(buckets, TAGS, bits=large_bits, large=True),
        "minhash_": lambda buckets: MinHashTables(buckets, TAGS, bits=bits, similarity=0.9),
    }
    for name, made in tables.items():
        with private_redis() as server:
            found = asyncio.run(fill_and_check(server, made, pages))
            check_ms, bytes_a_page, log_bytes, forget_s = found
        least = 80 if not name else None
        yield Figure(f"content.{name}check_ms", check_ms, "ms", target=at_most(1))
        target = at_most(least) if least else None
        yield Figure(f"content.{name}bytes_per_page", bytes_a_page, "B", target=target)
        yield Figure(f"content.{name}log_bytes_per_page", log_bytes, "B")
        yield Figure(f"content.{name}forget_s", forget_s, "s")


async def fill_and_check(
    server: PrivateRedis, tables: Callable[[Buckets], NearTables], pages: int
) -> tuple[float, float, float, float]:
    """CPU ms of Redis a checked page, bytes a page, bytes of the append-only file, s to forget."""
    chance = random.Random(1)
    empty = server.memory_bytes()
    async with Redis.from_url(server.url) as client:
        buckets = Buckets(client)
        seen = ContentIndex(buckets, TAGS, tables(buckets))
        for start in range(0, pages - _CHECKED, _BATCH):
            for number in range(start, start + _BATCH):
                seen.remember(_url_id(number), _content(chance))
            await seen.flush()
        log_before, cpu_before = _log_bytes(server), server.cpu_s()
        for start in range(pages - _CHECKED, pages, _AT_ONCE):
            contents = [_content(chance) for _ in range(_AT_ONCE)]
            found = await asyncio.gather(
                *(seen.find(_url_id(start + at), content) for at, content in enumerate(contents))
            )
            for at, content in enumerate(contents):
                if found[at] is None:
                    seen.remember(_url_id(start + at), content)
        await seen.flush()
        assert not seen.lost
        check_ms = (server.cpu_s() - cpu_before) / _CHECKED * 1000
        log_bytes = (_log_bytes(server) - log_before) / _CHECKED
        bytes_a_page = (server.memory_bytes() - empty) / pages
        loop = asyncio.get_running_loop()
        started = loop.time()
        assert await seen.forget(_url_id(0))
        return check_ms, bytes_a_page, log_bytes, loop.time() - started


def _url_id(number: int) -> int:
    return number * _ODD % 2**64


def _content(chance: random.Random) -> Content:
    sketch = chance.randbytes(SKETCH_BYTES + LABEL_BYTES)
    return Content(chance.randbytes(32), chance.getrandbits(64), sketch)


def _log_bytes(server: PrivateRedis) -> int:
    return int(server.client.info("persistence")["aof_current_size"])
