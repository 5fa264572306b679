"""What people do to a crawl while it runs: hosts, dead letters, single URLs, pause, options."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgpack
from redis.exceptions import OutOfMemoryError

from crawler.content_seen import ContentSeen
from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.frontier.meta import Meta, read
from crawler.frontier.records import Added, HostState, Letter, Sizes
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, tags
from crawler.urls import DEFAULT, Urls, fingerprint, host_of

_BATCH = 500


class Steering:
    """Commands on one crawl. Each is O(1), or works in bounded batches."""

    def __init__(self, redis: Client, crawl: str, how: Meta, urls: Urls = DEFAULT) -> None:
        self._urls = urls
        self._redis = redis
        self._crawl = crawl
        self._seen_argument = how.seen_argument
        self._scripts = Scripts(redis, how.seen)
        self._tags = tags(crawl, how.shards)

    @classmethod
    async def of(cls, redis: Client, crawl: str, urls: Urls = DEFAULT) -> Self:
        """Steer a crawl that exists; `urls` are the rules by which it tells URLs apart."""
        return cls(redis, crawl, await read(redis, crawl), urls)

    # --- the crawl -----------------------------------------------------------------------------

    async def pause(self) -> None:
        """Lease nothing until resume; what is in flight finishes."""
        await self._pause("1")

    async def resume(self) -> None:
        """Lease again."""
        await self._pause("0")

    async def _pause(self, flag: str) -> None:
        for tag in self._tags:
            await self._scripts.run("pause", tag, flag)

    async def sizes(self) -> Sizes:
        """How many URLs are in each state."""
        parts = [Sizes.of(await self._scripts.run("sizes", tag)) for tag in self._tags]
        return sum(parts[1:], parts[0])

    async def memory_share(self) -> float:
        """Used share of the server's maxmemory; of a cluster's fullest node; 0 without a limit."""
        answer = await self._redis.info("memory")
        nodes = [answer] if "used_memory" in answer else answer.values()
        return max(
            (node["used_memory"] / node["maxmemory"] for node in nodes if node["maxmemory"]),
            default=0.0,
        )

    async def instances(self) -> dict[str, dict[str, Any]]:
        """The live instances, by name, and what each says of itself."""
        found = await self._redis.hgetall(keys.instances(self._tags[0]))
        return {name.decode(): json.loads(about) for name, about in found.items()}

    async def options(self) -> dict[str, Any]:
        """Options that the whole fleet follows."""
        found = await self._redis.hgetall(keys.options(self._crawl))
        return {name.decode(): json.loads(value) for name, value in found.items()}

    async def set_options(self, values: Mapping[str, Any]) -> None:
        """Change options for the whole fleet; None removes one."""
        key = keys.options(self._crawl)
        for name, value in values.items():
            if value is None:
                await self._redis.hdel(key, name)
            else:
                await self._redis.hset(key, name, json.dumps(value))

    async def seed_domains(self) -> set[str]:
        """Registered domains of the seeds."""
        found = await self._redis.smembers(keys.seed_domains(self._crawl))
        return {name.decode() for name in found}

    async def count_seed_domains(self) -> int:
        """How many there are."""
        return int(await self._redis.scard(keys.seed_domains(self._crawl)))

    async def add_seed_domains(self, domains: Sequence[str]) -> None:
        """Add some more."""
        await self._redis.sadd(keys.seed_domains(self._crawl), *domains)

    async def delete(self, *, silence_ms: int = 30_000) -> AsyncIterator[int]:
        """Delete the crawl, in batches; yields how many keys are gone so far.

        Refused while an instance works on it, one that beat in the last `silence_ms`.
        """
        seconds, _ = await self._redis.time()
        since = seconds * 1000 - silence_ms
        if any([await self._redis.zcount(keys.owners(tag), since, "+inf") for tag in self._tags]):
            raise CrawlerError(
                f"The crawl {self._crawl!r} is being worked on; stop its processes first."
            )
        gone = 0
        names: list[bytes] = []
        for tag in (*self._tags, f"{{{self._crawl}}}"):
            async for name in self._redis.scan_iter(match=f"{_literal(tag)}:*", count=_BATCH):
                names.append(name)
                if len(names) >= _BATCH:
                    gone += await self._unlink(names)
                    names = []
                    yield gone
        gone += await self._unlink(names)
        yield gone

    async def _unlink(self, names: list[bytes]) -> int:
        pipeline = self._redis.pipeline()
        for name in names:
            # Not unlink(): a cluster's client splits that by slots, outside the pipeline.
            pipeline.execute_command("UNLINK", name)
        return sum(await pipeline.execute()) if names else 0

    # --- hosts ---------------------------------------------------------------------------------

    async def host(self, host: str, **changes: Any) -> HostState:
        """Read or change one host: block=until_ms, exclude, purge, queue, budget."""
        pairs: list[Any] = []
        for name, value in changes.items():
            known = int(value) if isinstance(value, bool) else value
            pairs += [name, "" if known is None else known]
        found = await self._scripts.run("host", self._tag(host), host, 0, *pairs)
        *numbers, budget = found
        clock, delay, waiting, in_flight, pages, blocked, excluded, queue = map(int, numbers)
        return HostState(
            host=host,
            clock_ms=clock,
            delay_ms=delay,
            waiting=waiting,
            in_flight=in_flight,
            pages=pages,
            blocked_until_ms=blocked,
            excluded=bool(excluded),
            queue=queue,
            budget=int(budget) if budget else None,
        )

    async def hosts(self, *, shard: int = 0, offset: int = 0, limit: int = 100) -> list[HostState]:
        """Hosts of a shard that wait for their turn, the next due first."""
        flat = await self._scripts.run("hosts", self._tags[shard], offset, limit)
        return [
            HostState(
                host=flat[i].decode(),
                clock_ms=int(float(flat[i + 1])),
                waiting=int(flat[i + 2]),
                delay_ms=int(flat[i + 3]),
                pages=int(flat[i + 4]),
                in_flight=0,
                blocked_until_ms=0,
                excluded=False,
                queue=0,
                budget=None,
            )
            for i in range(0, len(flat), 5)
        ]

    # --- URLs ----------------------------------------------------------------------------------

    async def forget(self, url: str) -> bool:
        """Forget that a canonical URL was seen, and its content; says whether it was seen.

        Fetched again it is no duplicate of its own past, and meanwhile nobody's original. Running
        processes forget what they remember of URLs with their next beat.
        """
        forgotten = bool(await self._scripts.run("forget", *self._seen_arguments(url)))
        contents = await ContentSeen.of(self._redis, self._crawl, self._tags)
        if contents is not None:
            await contents.forget(fingerprint(url))
        if forgotten:
            # A full server forgets all the same; processes then remember for a while longer.
            with suppress(OutOfMemoryError):
                await self._redis.hincrby(keys.options(self._crawl), "forgotten", 1)
        return forgotten

    async def status(self, url: str) -> tuple[str, str, Entry | None]:
        """State of a canonical URL ("unseen", "known", "leased"), its owner and entry if leased."""
        known, owner, data = await self._scripts.run("status", *self._seen_arguments(url))
        if owner:
            return "leased", owner.decode(), decode(data)
        return ("known" if known else "unseen"), "", None

    async def add(self, entries: Sequence[Entry]) -> Added:
        """Put seeds that were never seen into their front queues; none is refused."""
        answers = bytearray(b"0" * len(entries))
        by_tag: dict[str, list[int]] = defaultdict(list)
        for index, entry in enumerate(entries):
            by_tag[self._tag(entry.host)].append(index)
        for tag, indexes in by_tag.items():
            for start in range(0, len(indexes), _BATCH):
                part = indexes[start : start + _BATCH]
                blob = msgpack.packb([encode(entries[i]) for i in part], use_bin_type=False)
                answer = await self._scripts.run("add", tag, blob, "all", 0, self._seen_argument)
                for index, character in zip(part, answer, strict=True):
                    answers[index] = character
        return Added(answers.decode())

    # --- dead letters --------------------------------------------------------------------------

    async def dead(self, *, reason: str = "", host: str = "", limit: int = 100) -> list[Letter]:
        """The newest dead letters, by reason and host."""
        letters: list[Letter] = []
        for tag in self._tags:
            end = "+"
            while len(letters) < limit:
                page = await self._redis.xrevrange(keys.dead(tag), end, "-", count=_BATCH)
                for name, fields in page:
                    letter = _letter(name, fields)
                    letter_host = letter.entry.host if letter.entry is not None else ""
                    if reason in ("", letter.reason) and host in ("", letter_host):
                        letters.append(letter)
                if len(page) < _BATCH:
                    break
                end = "(" + page[-1][0].decode()
        return letters[:limit]

    async def requeue(self, *, reason: str = "", host: str = "") -> int:
        """Give dead URLs another life, by reason and host; says how many."""
        return await self._walk_dead("requeue", reason, host)

    async def purge_dead(self, *, reason: str = "", host: str = "") -> int:
        """Delete dead letters, by reason and host; says how many."""
        return await self._walk_dead("purge", reason, host)

    async def _walk_dead(self, what: str, reason: str, host: str) -> int:
        total = 0
        for tag in self._tags:
            after = "-"
            while after:
                last, taken = await self._scripts.run(
                    "requeue", tag, after, _BATCH, reason, host, what
                )
                after = last.decode()
                total += taken
        return total

    # -------------------------------------------------------------------------------------------

    def _seen_arguments(self, url: str) -> tuple[str, bytes, str]:
        group = host_of(url)[self._urls.group_skip(url) :]
        id_ = self._urls.fingerprint(url).to_bytes(8, "big")
        return self._tag(group), id_, self._seen_argument

    def _tag(self, host: str) -> str:
        return self._tags[shard_of(host, len(self._tags))]


def _letter(name: bytes, fields: Mapping[bytes, bytes]) -> Letter:
    data = fields[b"entry"]
    try:
        entry: Entry | None = decode(data)
    except DamagedEntry:
        entry = None
    reason, at_ms = fields[b"reason"].decode(), int(float(fields[b"at"]))
    return Letter(id=name.decode(), reason=reason, at_ms=at_ms, entry=entry, data=data)


def _literal(text: str) -> str:
    """A pattern for SCAN that matches this text and nothing else."""
    return "".join(f"\\{char}" if char in "*?[]\\^-" else char for char in text)
