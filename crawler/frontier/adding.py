"""Send URLs to their shards, as many a call as the script takes."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from crawler.frontier.entry import Entry, encode
from crawler.frontier.records import Added
from crawler.frontier.shards import shard_of

# URLs that one call of the script takes.
ADD_MAX = 1000

Run = Callable[..., Awaitable[Any]]


async def add(
    run: Run,
    tags: Sequence[str],
    entries: Sequence[Entry],
    *,
    mode: str,
    seen_argument: str,
    full_at: int = 0,
    order: tuple[str, str] = ("", ""),
) -> Added:
    """Run the verb `add` on every shard that these URLs belong to.

    `order` is who forces and the name of its order, see lua/add.lua.
    """
    answers = bytearray(b"0" * len(entries))
    for shard, indexes in _by_shard(entries, len(tags)).items():
        for number, start in enumerate(range(0, len(indexes), ADD_MAX)):
            part = indexes[start : start + ADD_MAX]
            encoded = [encode(entries[i]) for i in part]
            lengths = struct.pack(f">{len(part)}I", *map(len, encoded))
            args = (b"".join(encoded), lengths, mode, full_at, *order, number, seen_argument)
            answer = await run("add", tags[shard], *args)
            for index, character in zip(part, answer, strict=True):
                answers[index] = character
    return Added(answers.decode())


def _by_shard(entries: Sequence[Entry], shards: int) -> dict[int, list[int]]:
    """Places of the entries of each shard."""
    if shards == 1:
        # As in most crawls: nobody needs to know the hosts.
        return {0: list(range(len(entries)))} if entries else {}
    found: dict[int, list[int]] = defaultdict(list)
    for index, entry in enumerate(entries):
        found[shard_of(entry.host, shards)].append(index)
    return found
