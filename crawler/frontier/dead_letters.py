"""The dead-letter queue: read, requeue and purge it, by bounded batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.entry import DamagedEntry, Entry, decode
from crawler.frontier.records import Letter
from crawler.frontier.scripts import Scripts

_BATCH = 500


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Those of one crawl, over all its shards."""

    redis: Client
    scripts: Scripts
    tags: Sequence[str]

    async def page(self, *, reason: str, host: str, before: str, limit: int) -> list[Letter]:
        """The newest letters, or the newest before the one with this cursor."""
        found: list[Letter] = []
        for shard in range(len(self.tags)):
            fitting = 0
            async for letter in self._newest(shard, _end(before, shard), reason):
                if host in ("", letter.host):
                    found.append(letter)
                    fitting += 1
                if fitting >= limit:
                    break
        found.sort(key=lambda letter: letter.place, reverse=True)
        return found[:limit]

    async def walk(self, what: str, *, reason: str, host: str) -> int:
        """Requeue or purge; says how many."""
        total = 0
        for tag in self.tags:
            after = "-"
            while after:
                last, taken = await self.scripts.run(
                    "requeue", tag, after, _BATCH, reason, host, what
                )
                after = last.decode()
                total += taken
        return total

    async def _newest(self, shard: int, end: str, reason: str) -> AsyncIterator[Letter]:
        wanted = reason.encode()
        while True:
            page = await self.redis.xrevrange(keys.dead(self.tags[shard]), end, "-", count=_BATCH)
            for name, fields in page:
                # First: most of a long list may be passed over, and reading an entry costs more.
                if wanted in (b"", fields[b"reason"]):
                    yield _letter(shard, name, fields)
            if len(page) < _BATCH:
                return
            end = "(" + page[-1][0].decode()


def _end(before: str, shard: int) -> str:
    """Where the letters of a shard go on; of equal times the later shard comes first."""
    if not before:
        return "+"
    name, _, number = before.partition("/")
    parts = [*name.split("-"), number]
    if len(parts) != 3 or not all(part.isdecimal() for part in parts):
        raise CrawlerError(f"{before!r} is no place in the dead letters; give a letter's cursor.")
    return name if shard < int(number) else f"({name}"


def _letter(shard: int, name: bytes, fields: Mapping[bytes, bytes]) -> Letter:
    data = fields[b"entry"]
    try:
        entry: Entry | None = decode(data)
    except DamagedEntry:
        entry = None
    reason, at_ms = fields[b"reason"].decode(), int(float(fields[b"at"]))
    return Letter(shard, id=name.decode(), reason=reason, at_ms=at_ms, entry=entry, data=data)
