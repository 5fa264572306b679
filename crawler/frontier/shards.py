"""Spread a crawl over shards, and shards over the slots of a Redis Cluster; call several shards.

Shards are called at the same time, so that one that hangs does not delay the others.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import xxhash
from redis.crc import key_slot

from crawler.frontier import keys
from crawler.frontier.entry import Entry, host_in
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway

T = TypeVar("T")

SLOTS = 16384


@cache
def tags(crawl: str, shards: int) -> tuple[str, ...]:
    """Return the hash tags of a crawl's shards, each of which lies in its own part of the slots."""
    return tuple(_tag(crawl, shard, shards) for shard in range(shards))


def _tag(crawl: str, shard: int, shards: int) -> str:
    low, high = shard * SLOTS // shards, (shard + 1) * SLOTS // shards
    attempt = 0
    while True:
        name = f"{{{crawl}:{shard}}}" if attempt == 0 else f"{{{crawl}:{shard}.{attempt}}}"
        if low <= key_slot(name.encode()) < high:
            return name
        attempt += 1


def shard_of(host: str, shards: int) -> int:
    """Return the shard of a host, which never changes during a crawl."""
    return xxhash.xxh3_64_intdigest(host.encode()) % shards if shards > 1 else 0


def places_by_shard(entries: Iterable[Entry | bytes], shards: int) -> dict[int, list[int]]:
    """Group entries, some of them encoded, by shard: the indexes of those that belong to each."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, entry in enumerate(entries):
        host = entry.host if isinstance(entry, Entry) else host_in(entry)
        found[shard_of(host, shards)].append(place)
    return found


def preferred(shards: int, instance: str, live: Sequence[str]) -> list[int]:
    """Return the shards in the order in which an instance claims from them: its own first.

    Rendezvous hashing: each shard prefers the live instance with the highest hash, so that one
    joining or leaving moves only its share. The other shards follow by their hash, which differs
    for each instance, so that idle instances do not all turn to the same shard.
    """

    def weight(name: str, shard: int) -> int:
        return xxhash.xxh3_64_intdigest(f"{name}:{shard}".encode())

    own = [
        shard
        for shard in range(shards)
        if not live or max(live, key=lambda name: weight(name, shard)) == instance
    ]
    others = [shard for shard in range(shards) if shard not in own]
    return own + sorted(others, key=lambda shard: weight(instance, shard), reverse=True)


async def gather(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await calls to several shards and return their answers, or raise when all have ended."""
    return raise_errors(await gather_outcomes(calls))


async def gather_outcomes(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
    """Await calls to several shards and return the answer or the error of each."""
    coming = list(calls)
    if len(coming) == 1:
        # The usual case: no task is needed.
        try:
            return [await coming[0]]
        except Exception as error:  # noqa: BLE001 - as gather() does
            return [error]
    return await asyncio.gather(*coming, return_exceptions=True)


def raise_errors(outcomes: Sequence[T | BaseException]) -> list[T]:
    """Return the answers, or raise the first error.

    A RedisAway comes before any other error: the caller repeats everything then, and another error
    is raised again by its own call.
    """
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failed:
        raise next((error for error in failed if isinstance(error, RedisAway)), failed[0])
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


async def shard_time_ms(redis: Client, tag: str) -> int:
    """Return the server's time, less the leaps that the shard did not follow (lua/shard.lua)."""
    seconds, micros = await redis.time()
    skew_ms = await redis.hget(keys.stats(tag), "skew_ms")
    return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)
