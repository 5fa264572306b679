"""What people do to a crawl while it runs: hosts, dead letters, single URLs, pause, options."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from redis.exceptions import OutOfMemoryError

from crawler.dedup.index import ContentIndex
from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.frontier.entry import DamagedEntry, Entry, decode
from crawler.frontier.frontier import add
from crawler.frontier.host_control import HostControl
from crawler.frontier.meta import Meta, read
from crawler.frontier.records import Added, HostPage, HostState, Letter, Sizes, UrlStatus
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, shard_time_ms, tags, those_that_answer
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import answered, executed
from crawler.urls import DEFAULT, SITEMAP, Urls, fingerprint, host_of

_BATCH = 500
# URLs that a search for one of them looks at in each queue, or in a call.
_LOOK = 1000
# As what a URL may be known: a page, a sitemap.
_KINDS = ("GET", SITEMAP)
# Among the options, and none of them.
_VERSION = "version"


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """Options as they lie in Redis, and how often they were changed."""

    version: int = 0
    values: dict[str, Any] = field(default_factory=dict)


class CrawlControl:
    """Commands on one crawl. Each is O(1), or works in bounded batches."""

    def __init__(self, redis: Client, crawl: str, how: Meta, urls: Urls = DEFAULT) -> None:
        # How the crawl spells, tells apart and groups URLs.
        self.urls = urls.with_private_suffixes(how.private_suffixes)
        self._redis = redis
        self._crawl = crawl
        self._seen_argument = how.seen_argument
        self._scripts = Scripts(redis, how.seen)
        self._tags = tags(crawl, how.shards)
        self._hosts = HostControl(redis, self._scripts, self._tags)
        self._dead = DeadLetterQueue(redis, self._scripts, self._tags)

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
        parts = await self.sizes_by_shard()
        return sum(parts[1:], parts[0])

    async def sizes_by_shard(self) -> list[Sizes]:
        """The same of each shard."""
        return [Sizes.of(await self._scripts.run("sizes", tag)) for tag in self._tags]

    async def delayed_buckets(self) -> tuple[int, int]:
        """How many buckets of delayed URLs there are, and when the first is due, in ms or 0."""
        buckets, first = 0, 0
        for tag in self._tags:
            buckets += await self._redis.zcard(keys.delayed(tag))
            due = await self._redis.zrange(keys.delayed(tag), 0, 0)
            if due and (not first or int(due[0]) < first):
                first = int(due[0])
        return buckets, first

    async def memory_share(self) -> float:
        """Used share of the server's maxmemory; 0 without a limit.

        Of a cluster that of the fullest master that answers.
        """
        info = partial(self._redis.info, "memory")
        calls = [info]
        if hasattr(self._redis, "get_primaries"):
            calls = [partial(info, target_nodes=node) for node in self._redis.get_primaries()]
        nodes = await those_that_answer(calls)
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
        return (await self.shared_options()).values

    async def shared_options(self) -> SharedOptions:
        """The same, and how often they were changed."""
        found = await self._redis.hgetall(keys.options(self._crawl))
        version = int(found.pop(_VERSION.encode(), 0))
        return SharedOptions(
            version, {name.decode(): json.loads(value) for name, value in found.items()}
        )

    async def set_options(self, values: Mapping[str, Any]) -> None:
        """Change options for the whole fleet; None removes one."""
        key, now = keys.options(self._crawl), await self.shared_options()
        changed = {name: json.dumps(value) for name, value in values.items() if value is not None}
        removed = [name for name, value in values.items() if value is None]
        if removed:
            await answered(self._redis.hdel(key, *removed))
        # At once: a server that dies in between would keep a change that nobody can tell.
        await answered(self._redis.hset(key, mapping={**changed, _VERSION: now.version + 1}))

    async def restore_options(self, known: SharedOptions) -> None:
        """Write options again that the server has lost."""
        lost = {name: json.dumps(value) for name, value in known.values.items()}
        key = keys.options(self._crawl)
        removed = set(await self.options()) - set(lost)
        if removed:
            await answered(self._redis.hdel(key, *removed))
        await answered(self._redis.hset(key, mapping={**lost, _VERSION: known.version}))

    async def seed_domains(self) -> set[str]:
        """Registered domains of the seeds."""
        found = await self._redis.smembers(keys.seed_domains(self._crawl))
        return {name.decode() for name in found}

    async def count_seed_domains(self) -> int:
        """How many there are."""
        return int(await self._redis.scard(keys.seed_domains(self._crawl)))

    async def add_seed_domains(self, domains: Sequence[str]) -> None:
        """Add some more."""
        await answered(self._redis.sadd(keys.seed_domains(self._crawl), *domains))

    async def delete(self, *, silence_ms: int = 30_000) -> AsyncIterator[int]:
        """Delete the crawl, in batches; yields how many keys are gone so far.

        Refused while an instance works on it, one that beat in the last `silence_ms`.
        """
        alive = []
        for tag in self._tags:
            since = await shard_time_ms(self._redis, tag) - silence_ms
            alive.append(await self._redis.zcount(keys.owners(tag), since, "+inf"))
        if any(alive):
            raise CrawlerError(
                f"The crawl {self._crawl!r} is being worked on; stop its processes first. One that "
                f"was killed counts for {silence_ms // 1000} s."
            )
        gone = 0
        names: list[bytes] = []
        for tag in (*self._tags, f"{{{self._crawl}}}"):
            async for name in self._redis.scan_iter(match=f"{keys.literal(tag)}:*", count=_BATCH):
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
        return sum(await executed(pipeline)) if names else 0

    # --- hosts ---------------------------------------------------------------------------------

    async def host_counts(self) -> dict[str, int]:
        """How many hosts are ready, resting, in flight, blocked, excluded."""
        return await self._hosts.counts()

    async def host(self, host: str, **orders: int | None) -> HostState:
        """Read or change one host: block=until_ms, exclude, purge, queue, budget, parallelism."""
        return await self._hosts.change(host, orders)

    async def hosts(
        self,
        *,
        text: str = "",
        state: str = "",
        sort: str = "next",
        offset: int = 0,
        limit: int = 100,
    ) -> HostPage:
        """Hosts that are in the frontier or were crawled; see host_orders for states and sorts.

        By default those that wait for their turn, the next due first.
        """
        return await self._hosts.page(text=text, state=state, sort=sort, offset=offset, limit=limit)

    # --- URLs ----------------------------------------------------------------------------------

    async def forget(self, url: str) -> bool:
        """Forget that a canonical URL was seen, and its content; says whether it was seen.

        Fetched again it is no duplicate of its own past, and meanwhile nobody's original. One that
        waits for its retry or recrawl waits no more: else it would come twice when it is added
        again. Nothing says where it waits, so all delayed URLs of its shard are looked at, in small
        calls: 2 s a million. Running processes forget what they remember of URLs with their next
        beat.
        """
        forgotten, leased = False, None
        for kind in _KINDS:
            try:
                forgotten = await self._forget(url, kind) or forgotten
            except CrawlerError as error:
                leased = error
        if leased is not None and not forgotten:
            raise leased
        contents = await ContentIndex.of(self._redis, self._crawl, self._tags)
        if contents is not None:
            await contents.forget(fingerprint(url))
        if forgotten:
            # A full server forgets all the same; processes then remember for a while longer.
            with suppress(OutOfMemoryError):
                await answered(self._redis.hincrby(keys.options(self._crawl), "forgotten", 1))
        if leased is not None:
            # As one of the two, as the other it is forgotten.
            raise leased
        return forgotten

    async def _forget(self, url: str, kind: str) -> bool:
        tag, id_ = self._place(url, kind)
        answer = await self._scripts.run("forget", tag, id_, self._seen_argument)
        if answer == b"leased":
            raise CrawlerError(f"{url} is being fetched; forget it when that is done.")
        if answer == b"unseen":
            return False
        due, at = b"", 0
        while True:
            due, at, _ = await self._scripts.run("undelay", tag, id_, due, at, _LOOK)
            if not due:
                return True

    async def status(self, url: str) -> UrlStatus:
        """Where a canonical URL is: as a page, or as a sitemap if no page is known by it."""
        page, sitemap = [await self._status(url, kind) for kind in _KINDS]
        return page if page.state != "unseen" else sitemap

    async def _status(self, url: str, kind: str) -> UrlStatus:
        tag, id_ = self._place(url, kind)
        state, word, at_ms, data = await self._scripts.run(
            "status", tag, id_, self._group(url), _LOOK, self._seen_argument
        )
        said, name = state.decode(), word.decode()
        return UrlStatus(
            said,
            owner=name if said == "leased" else "",
            reason=name if said != "leased" else "",
            at_ms=int(float(at_ms)),
            entry=decode(data) if data else None,
        )

    async def add(self, entries: Sequence[Entry]) -> Added:
        """Put seeds that were never seen into their front queues; none is refused."""
        run, argument = self._scripts.run, self._seen_argument
        return await add(run, self._tags, entries, mode="all", seen_argument=argument)

    # --- dead letters --------------------------------------------------------------------------

    async def dead(
        self, *, reason: str = "", host: str = "", before: str = "", limit: int = 100
    ) -> list[Letter]:
        """The newest dead letters, by reason and host; `before` goes on from a letter's cursor."""
        return await self._dead.page(reason=reason, host=host, before=before, limit=limit)

    async def requeue(self, *, reason: str = "", host: str = "") -> int:
        """Give dead URLs another life, by reason and host; says how many."""
        return await self._dead.walk("requeue", reason=reason, host=host)

    async def purge_dead(self, *, reason: str = "", host: str = "") -> int:
        """Delete dead letters, by reason and host; says how many."""
        return await self._dead.walk("purge", reason=reason, host=host)

    # -------------------------------------------------------------------------------------------

    def _place(self, url: str, kind: str) -> tuple[str, bytes]:
        """The tag of a URL's shard, and its id."""
        tag = self._tags[shard_of(self._group(url), len(self._tags))]
        return tag, self.urls.fingerprint(url, kind).to_bytes(8, "big")

    def _group(self, url: str) -> str:
        return host_of(url)[self.urls.group_skip(url) :]


@dataclass(frozen=True, slots=True)
class DeadLetterQueue:
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
