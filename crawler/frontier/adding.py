"""Send URLs to their shards, as many a call as the script takes."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from crawler.frontier.each_shard import each_shard
from crawler.frontier.entry import Entry, encode, host_in
from crawler.frontier.records import Added
from crawler.frontier.shards import shard_of

# URLs that one call of the script takes.
ADD_MAX = 1000

Run = Callable[..., Awaitable[Any]]


async def add(
    run: Run,
    tags: Sequence[str],
    entries: Sequence[Entry | bytes],
    *,
    mode: str,
    seen_argument: str,
    full_at: int = 0,
    order: tuple[str, str] = ("", ""),
) -> Added:
    """Run the verb `add` on every shard that these URLs belong to; some are encoded already.

    `order` is who forces and the name of its order, see lua/add.lua.
    """

    async def send(tag: str, data: Sequence[bytes]) -> bytes:
        answers = []
        for number, start in enumerate(range(0, len(data), ADD_MAX)):
            part = data[start : start + ADD_MAX]
            lengths = struct.pack(f">{len(part)}I", *map(len, part))
            args = (b"".join(part), lengths, mode, full_at, *order, number, seen_argument)
            answer = await run("add", tag, *args)
            if len(answer) != len(part):
                raise ValueError(f"{len(answer)} answers to {len(part)} URLs: {answer[:50]!r}")
            answers.append(answer)
        return b"".join(answers)

    encoded = [entry if isinstance(entry, bytes) else encode(entry) for entry in entries]
    if len(tags) == 1:
        # As in most crawls: nobody needs to know the hosts.
        return Added((await send(tags[0], encoded)).decode())
    answers = bytearray(len(encoded))
    by_shard = _by_shard(encoded, len(tags))
    found = await each_shard(
        partial(send, tags[shard], [encoded[place] for place in places])
        for shard, places in by_shard.items()
    )
    for places, answer in zip(by_shard.values(), found, strict=True):
        for place, character in zip(places, answer, strict=True):
            answers[place] = character
    return Added(answers.decode())


def _by_shard(encoded: Sequence[bytes], shards: int) -> dict[int, list[int]]:
    """Places of the entries of each shard."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, data in enumerate(encoded):
        found[shard_of(host_in(data), shards)].append(place)
    return found
