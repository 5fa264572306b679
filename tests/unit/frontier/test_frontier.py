"""Adds on their way to their shards."""

from typing import Any

import pytest

from crawler.frontier import ADD_MAX, Entry
from crawler.frontier.entry import encode
from crawler.frontier.frontier import add
from crawler.frontier.shards import shard_of

ENTRIES = [Entry(number, f"http://h{number}.test/") for number in range(5)]


async def sent(shards: int, entries: list[Entry | bytes]) -> tuple[str, list[tuple[str, bytes]]]:
    """The answers, and what each call took; a shard answers with its number."""
    calls: list[tuple[str, bytes]] = []

    async def run(_verb: str, tag: str, data: bytes, lengths: bytes, *_more: Any) -> bytes:
        calls.append((tag, data))
        return tag.encode() * (len(lengths) // 4)

    tags = [str(shard) for shard in range(shards)]
    return (await add(run, tags, entries, mode="new", seen_argument="")).answers, calls


@pytest.mark.parametrize("shards", [1, 3])
async def test_bytes_go_where_their_entries_would(shards: int) -> None:
    mixed = [*ENTRIES[:2], *map(encode, ENTRIES[2:])]
    assert await sent(shards, mixed) == await sent(shards, [*ENTRIES])
    answers, _ = await sent(shards, mixed)
    assert answers == "".join(str(shard_of(entry.host, shards)) for entry in ENTRIES)


async def test_nothing_is_sent_for_no_urls() -> None:
    assert await sent(1, []) == ("", [])


async def test_a_call_takes_so_many() -> None:
    answers, calls = await sent(1, [encode(ENTRIES[0])] * (ADD_MAX + 1))
    assert (len(answers), len(calls)) == (ADD_MAX + 1, 2)


@pytest.mark.parametrize("shards", [1, 3])
async def test_an_answer_for_other_urls_is_an_error(shards: int) -> None:
    async def run(*_args: Any) -> bytes:
        return b"1" * 9

    with pytest.raises(ValueError, match="9 answers to"):
        await add(run, ["a"] * shards, ENTRIES, mode="new", seen_argument="")
