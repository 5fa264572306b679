"""Adds on their way to their shards."""

from typing import Any

import pytest

from crawler.frontier import ADD_MAX, Entry, Frontier
from crawler.frontier.entry import encode
from crawler.frontier.frontier import shard_of, tags

ENTRIES = [Entry(number, f"http://h{number}.test/") for number in range(5)]


class Server:
    """Redis that notes the calls of add; a shard answers with its number, or as it is told to."""

    def __init__(self, shards: int, answer: bytes = b"") -> None:
        self.calls: list[tuple[int, bytes]] = []
        self._tags = tags("web", shards)
        self._answer = answer

    def get_primaries(self) -> list[str]:
        """Look like a cluster, whose shards get calls of their own."""
        return []

    async def evalsha(
        self, _sha: str, _keys: int, tag: str, data: bytes, lengths: bytes, *_more: Any
    ) -> bytes:
        shard = self._tags.index(tag)
        self.calls.append((shard, data))
        return self._answer or str(shard).encode() * (len(lengths) // 4)


async def sent(shards: int, entries: list[Entry | bytes]) -> tuple[str, list[tuple[int, bytes]]]:
    """The answers, and what each call took."""
    server = Server(shards)
    added = await Frontier(server, "web", shards=shards).add(entries)
    return added.answers, server.calls


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
    frontier = Frontier(Server(shards, b"1" * 9), "web", shards=shards)
    with pytest.raises(ValueError, match="9 answers to"):
        await frontier.add(ENTRIES)
