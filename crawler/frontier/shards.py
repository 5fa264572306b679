"""Spread a crawl over shards, and shards over the slots of a Redis Cluster; call several of them.

Shards are called at the same time: one that hangs delays no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, TypeVar

import xxhash
from redis.crc import key_slot

from crawler.frontier import keys
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway

SLOTS = 16384


@cache
def tags(crawl: str, shards: int) -> tuple[str, ...]:
    """Hash tags of a crawl's shards, so chosen that each lies in its own part of the slots."""
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
    """A host belongs to one shard for the life of the crawl."""
    return xxhash.xxh3_64_intdigest(host.encode()) % shards if shards > 1 else 0


def preferred(shards: int, instance: str, live: Sequence[str]) -> list[int]:
    """Shards in the order in which an instance claims from them: its own first.

    Rendezvous hashing: each shard prefers the live instance with the highest hash, so that one
    joining or leaving moves only its share. The rest follow by their hash, different for each
    instance, so that idle ones do not all turn to the same shard.
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


T = TypeVar("T")

Call = Callable[[], Awaitable[T]]


async def each_shard(calls: Iterable[Call[T]]) -> list[T]:
    """The answers to calls.

    One that fails keeps the others from nothing: its error is raised at the end. That of a server
    that is away comes before any other: sent again, the others' calls fail for themselves.
    """
    return raised_at_the_end(await outcomes(calls))


def raised_at_the_end(found: list[Any]) -> list[Any]:
    """What became of calls, if all of them were answered."""
    failed = [outcome for outcome in found if isinstance(outcome, BaseException)]
    if failed:
        raise next((error for error in failed if isinstance(error, RedisAway)), failed[0])
    return found


async def those_that_answer(calls: Iterable[Call[T]]) -> list[T]:
    """The answers of the servers that are there; an error if none is, or if it is another one."""
    found = await outcomes(calls)
    answers = [outcome for outcome in found if not isinstance(outcome, RedisAway)]
    failed = [outcome for outcome in answers or found if isinstance(outcome, BaseException)]
    if failed:
        raise failed[0]
    return answers


async def outcomes(calls: Iterable[Call[Any]]) -> list[Any]:
    """What became of each call: its answer, or its error."""
    coming = [call() for call in calls]
    if len(coming) == 1:
        # As in most crawls: no task is needed.
        try:
            return [await coming[0]]
        except Exception as error:  # noqa: BLE001 - as gather() does
            return [error]
    return await asyncio.gather(*coming, return_exceptions=True)


async def shard_time_ms(redis: Client, tag: str) -> int:
    """The server's clock, less the leaps that the shard did not follow (lua/shard.lua)."""
    seconds, micros = await redis.time()
    skew_ms = await redis.hget(keys.stats(tag), "skew_ms")
    return int(seconds) * 1000 + int(micros) // 1000 + int(skew_ms or 0)
