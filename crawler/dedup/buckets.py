"""Buckets of packed records in Redis, by which contents are found.

A bucket is one string with records of one size. Each begins with a hash of eight bytes; most have
the fingerprint of a page after it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any

from redis.exceptions import NoScriptError

# A record with a fingerprint: 8 bytes of the content's hash, and the URL's fingerprint.
HASH_BYTES = 8
OWNED_BYTES = 16
# With fewer records, the names of buckets would take more room than the records.
_BUCKET_RECORDS = 64
# The oldest records of a fuller bucket are dropped. This is 16 times what a crawl was made for.
BUCKET_MAX = 1024


def bits_for(pages: int) -> int:
    """Choose how many bits of a hash select one of a table's buckets."""
    return max(0, round(log2(max(1, pages) / _BUCKET_RECORDS)))


def bucket_name(tags: Sequence[str], table: str, number: int) -> str:
    """Name a bucket. The only place that builds these keys."""
    return f"{tags[number % len(tags)]}:c{table}:{number:x}"


def packed(number: int) -> bytes:
    """Pack a hash or a fingerprint."""
    return number.to_bytes(HASH_BYTES, "little")


def owners(bucket: bytes, hashed: bytes) -> list[int]:
    """List the fingerprints of the pages with this hash, oldest first."""
    found = []
    at = bucket.find(hashed)
    while at >= 0:
        if at % OWNED_BYTES == 0:
            owner = bucket[at + HASH_BYTES : at + OWNED_BYTES]
            found.append(int.from_bytes(owner, "little"))
        at = bucket.find(hashed, at + 1)
    return found


def owned_by(bucket: bytes, url_id: int) -> list[bytes]:
    """List the records of one page in a bucket with fingerprints."""
    owner = packed(url_id)
    # Zeros at the end are free room.
    used = len(bucket.rstrip(b"\0"))
    return [
        bucket[at : at + OWNED_BYTES]
        for at in range(0, used, OWNED_BYTES)
        if bucket[at + HASH_BYTES : at + OWNED_BYTES] == owner
    ]


# Records that one call of the script changes.
_CHANGES = 500

# What to do with a record: add it, add it if no other has its hash, remove it.
PUT, PUT_FIRST, CUT = b"+", b"1", b"-"

# A bucket's name, and a record.
Record = tuple[str, bytes]


class Buckets:
    """Buckets of records in Redis. The name of a bucket begins with the hash tag of its shard."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        # Only a cluster needs a command for each shard.
        self._is_cluster = hasattr(redis, "get_node_from_key")

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Read buckets with one command, on a cluster with one for each shard."""
        distinct = dict.fromkeys(names)
        if not self._is_cluster:
            found = await self._redis.mget(distinct)
            return {name: bucket or b"" for name, bucket in zip(distinct, found, strict=True)}
        by_shard: dict[str, list[str]] = defaultdict(list)
        for name in distinct:
            by_shard[_shard(name)].append(name)
        parts = list(by_shard.values())
        found = await asyncio.gather(*(self._redis.mget(part) for part in parts))
        return {
            name: bucket or b""
            for part, buckets in zip(parts, found, strict=True)
            for name, bucket in zip(part, buckets, strict=True)
        }

    async def change(self, changes: Sequence[Record]) -> list[int]:
        """Add or remove records; PUT, PUT_FIRST or CUT is the first byte of each.

        Returns for each how many records of its bucket have its hash afterwards.
        """
        answers = [0] * len(changes)
        by_shard: dict[str, list[int]] = defaultdict(list)
        for index, (name, _) in enumerate(changes):
            by_shard[_shard(name) if self._is_cluster else ""].append(index)
        for indexes in by_shard.values():
            for at in range(0, len(indexes), _CHANGES):
                part = indexes[at : at + _CHANGES]
                found = await self._run([changes[index] for index in part])
                for index, same in zip(part, found, strict=True):
                    answers[index] = same
        return answers

    async def _run(self, changes: list[Record]) -> list[int]:
        text, hashed = _script()
        names = [name for name, _ in changes]
        arguments = (len(names), *names, BUCKET_MAX, *(change for _, change in changes))
        try:
            found: list[int] = await self._redis.evalsha(hashed, *arguments)
        except NoScriptError:
            # The server restarted or failed over. EVAL also caches the script.
            found = await self._redis.eval(text, *arguments)
        return found


def _shard(name: str) -> str:
    return name[: name.index("}")]


@cache
def _script() -> tuple[str, str]:
    text = files("crawler.dedup").joinpath("change.lua").read_text(encoding="utf-8")
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
