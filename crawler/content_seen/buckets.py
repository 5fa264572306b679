"""Buckets of packed records in Redis, on a server or a cluster: read them, change them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError

from crawler.content_seen.layout import BUCKET_MAX

# Records in one script.
_CHANGES = 500

# What to do with a record: put it in, put it in if no other has its hash, take it out.
PUT, PUT_FIRST, CUT = b"+", b"1", b"-"

# A bucket's name, and a record.
Record = tuple[str, bytes]


class Buckets:
    """A bucket's name begins with the hash tag of its shard; what a shard is told goes together."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Buckets by name; one command a shard."""
        by_shard: dict[str, dict[str, None]] = defaultdict(dict)
        for name in names:
            by_shard[_shard(name)][name] = None
        parts = [list(part) for part in by_shard.values()]
        found = await asyncio.gather(*(self._redis.mget(part) for part in parts))
        return {
            name: bucket or b""
            for part, buckets in zip(parts, found, strict=True)
            for name, bucket in zip(part, buckets, strict=True)
        }

    async def change(self, changes: Sequence[Record]) -> list[int]:
        """Put records in or take them out, each with PUT, PUT_FIRST or CUT before it.

        Says for each how many records of its bucket have its hash then.
        """
        answers = [0] * len(changes)
        by_shard: dict[str, list[int]] = defaultdict(list)
        for index, (name, _) in enumerate(changes):
            by_shard[_shard(name)].append(index)
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
            # A server that restarted or failed over; EVAL also stores the script.
            found = await self._redis.eval(text, *arguments)
        return found


def _shard(name: str) -> str:
    return name[: name.index("}")]


@cache
def _script() -> tuple[str, str]:
    text = files("crawler.content_seen").joinpath("change.lua").read_text(encoding="utf-8")
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
