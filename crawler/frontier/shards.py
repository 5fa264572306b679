"""Spread a crawl over shards, and shards over the slots of a Redis Cluster. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import xxhash
from redis.crc import key_slot

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
