"""What do retries cost in time buckets, beside a sorted set of URLs?

Both put leased URLs off to random times within an hour and bring them back when they are due; the
peer does it by scripts that differ in nothing but the structure.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import Figure, Skipped, at_most
from benchmarks.frontier.client import Stopwatch, fill, open_frontier
from benchmarks.servers import PrivateRedis, private_redis
from crawler.frontier import Frontier, Lease
from crawler.frontier.entry import encode
from crawler.frontier.frontier import PRELUDE, read_part, tags

_PEER = "sorted set"
# By name: URLs, and rounds of both in turns.
_SIZES = {"10k": (10_000, 5), "100k": (100_000, 2), "300k": (300_000, 1)}
_QUICK_SIZES = {"20k": (20_000, 2)}
_BATCH = 100
_HOUR_MS = 3_600_000
_LATER_MS = 2**43
_PUT_OFF = """
for i = 2, #ARGV, 3 do
  if take_lease(ARGV[1], ARGV[i]) then
    redis.call('ZADD', shard .. 'sorted', ARGV[i + 1], ARGV[i + 2])
  end
end
"""
_BRING_BACK = """
local due = redis.call('ZRANGEBYSCORE', shard .. 'sorted', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, entry in ipairs(due) do
  redis.call('RPUSH', shard .. 'front:' .. queue_of(entry), entry)
end
if #due > 0 then redis.call('ZREM', shard .. 'sorted', unpack(due)) end
return #due
"""

Late = list[tuple[Lease, int]]
PutOff = Callable[[PrivateRedis, Frontier, Late], Awaitable[None]]
BringBack = Callable[[PrivateRedis, Frontier], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of Redis a URL, leases not counted, and bytes while it is put off."""

    insert_us: float
    retrieve_us: float
    size_bytes: float

    @property
    def both_us(self) -> float:
        return self.insert_us + self.retrieve_us


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Redis time to put a URL off and bring it back."""
    for name, (urls, rounds) in (_QUICK_SIZES if quick else _SIZES).items():
        ours, theirs = _side_by_side(urls, rounds)
        yield _figure(f"delayed.insert_us_at_{name}", ours.insert_us, theirs.insert_us)
        yield _figure(f"delayed.retrieve_us_at_{name}", ours.retrieve_us, theirs.retrieve_us)
    # Those of the largest size.
    yield _figure("delayed.redis_us_per_url", ours.both_us, theirs.both_us)
    yield Figure(
        "delayed.bytes_per_url",
        ours.size_bytes,
        "bytes",
        peer=_PEER,
        ratio=ours.size_bytes / theirs.size_bytes,
        ratio_target=at_most(1.0),
    )


def _side_by_side(urls: int, rounds: int) -> tuple[Cost, Cost]:
    ours, theirs = [], []
    for _ in range(rounds):
        with private_redis() as server:
            ours.append(asyncio.run(_cost(server, urls, _put_off, _bring_back)))
        with private_redis() as server:
            theirs.append(asyncio.run(_cost(server, urls, _put_off_sorted, _bring_back_sorted)))
    return _best(ours), _best(theirs)


def _best(rounds: list[Cost]) -> Cost:
    """Of each figure the best: whatever else the machine does can only make one slower."""
    return Cost(
        min(cost.insert_us for cost in rounds),
        min(cost.retrieve_us for cost in rounds),
        min(cost.size_bytes for cost in rounds),
    )


def _figure(name: str, us: float, peer_us: float) -> Figure:
    return Figure(name, us, "µs", peer=_PEER, ratio=us / peer_us)


async def _cost(server: PrivateRedis, urls: int, put_off: PutOff, bring_back: BringBack) -> Cost:
    chance = random.Random(1)
    insert_us = 0.0
    async with open_frontier(server) as frontier:
        await fill(frontier, 0, urls, urls // 10)
        done = 0
        while done < urls:
            claim = await frontier.claim(_BATCH, f"{done}")
            await frontier.release([(lease, 0) for lease in claim.leases])
            late = [(lease, chance.randrange(_HOUR_MS)) for lease in claim.leases]
            watch = Stopwatch(server)
            await put_off(server, frontier, late)
            insert_us += watch.stop(1).redis_us
            done += len(late)
        delayed_bytes = _memory(server, "delayed") + _memory(server, "sorted")
        watch = Stopwatch(server)
        while await bring_back(server, frontier):
            pass
        retrieve_us = watch.stop(urls).redis_us
    return Cost(insert_us / urls, retrieve_us, delayed_bytes / urls)


def _memory(server: PrivateRedis, name: str) -> int:
    """Bytes of all keys whose name in the shard begins so."""
    client: Any = server.client
    keys = client.scan_iter(match=f"*:{name}*", count=1000)
    return sum(client.memory_usage(key, samples=0) for key in keys)


async def _put_off(_server: PrivateRedis, frontier: Frontier, late: Late) -> None:
    await frontier.retry([(lease, wait_ms, lease.entry) for lease, wait_ms in late], now_ms=1)


async def _bring_back(_server: PrivateRedis, frontier: Frontier) -> int:
    return await frontier.promote(now_ms=_LATER_MS)


async def _put_off_sorted(server: PrivateRedis, frontier: Frontier, late: Late) -> None:
    arguments = [part for lease, ms in late for part in (lease.token, ms, encode(lease.entry))]
    _run(server, frontier, _PUT_OFF, frontier.owner, *arguments)


async def _bring_back_sorted(server: PrivateRedis, frontier: Frontier) -> int:
    return _run(server, frontier, _BRING_BACK, _LATER_MS, 1000)


def _run(server: PrivateRedis, frontier: Frontier, script: str, *args: str | bytes | int) -> int:
    tag = tags(frontier.crawl, frontier.shards)[0]
    text = f"{read_part(PRELUDE)}\n{script}"
    # Loaded by the first call and run by its hash afterwards, as ours are.
    answer: Any = server.client.register_script(text)(keys=[tag], args=args)
    return int(answer or 0)
