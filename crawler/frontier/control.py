"""Read and change a crawl while it runs: pause, options, hosts, single URLs, dead letters."""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from redis.exceptions import OutOfMemoryError

from crawler.dedup.index import ContentIndex
from crawler.errors import CrawlerError
from crawler.frontier import event_log, keys
from crawler.frontier.entry import DamagedEntry, Entry, decode
from crawler.frontier.event_log import ORDER, Event
from crawler.frontier.frontier import (
    Frontier,
    gather_outcomes,
    raise_errors,
    shard_of,
    shard_time_ms,
)
from crawler.frontier.meta import Meta, keep_older_programs_out, read
from crawler.frontier.records import (
    Added,
    DeadGroups,
    HostPage,
    HostState,
    Letter,
    Memory,
    Sizes,
    UrlStatus,
    WaitingUrls,
)
from crawler.frontier.stores import KnownStores
from crawler.frontier.tuning import Tuning
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway, answered, executed
from crawler.urls import DEFAULT, SITEMAP, Urls, fingerprint, host_of

# An instance without a beat for so long is taken for dead: the default of LEASE_TTL.
_SILENCE_MS = 30_000
# Keys, hosts or dead letters that one call reads or changes.
_BATCH = 500
# URLs that a search for one of them reads in each queue, or in one call.
_SEARCH_MAX = 1000
# Kinds by which a URL may be known: a page, a sitemap.
_KINDS = ("GET", SITEMAP)
# Hosts of each shard among which the one that is busy longest is looked for.
_LAST_DUE = 20
# Dead letters that are read to group them.
GROUPED_MAX = 20_000
# Seconds for which an instance may take to see that it is asked to stop: it asks every two.
_STOP_S = 600
# Field of the hash of options that counts the changes; it is no option.
_VERSION = "version"

# Smallest bucket of delayed URLs, see lua/retry.lua.
BUCKET_MS = 1000
# Hosts whose state a list reads, and names that it scans to find them.
READ_MAX = 10_000
SCAN_MAX = 200_000
# Hosts that are read one by one when hosts are counted by state.
COUNTED_MAX = 2000

# Order of a list of hosts: the next due first, or the largest number first.
SORTS: dict[str, Callable[[HostState], Any]] = {
    "next": lambda state: (state.clock_ms, state.host),
    "waiting": lambda state: (-state.waiting, state.host),
    "pages": lambda state: (-state.pages, state.host),
    "delay": lambda state: (-state.delay_ms, state.host),
    "host": lambda state: state.host,
}
STATES = ("excluded", "blocked", "in_flight", "ready", "resting", "idle")

# Changes of a host, the values that each takes, and how an error message describes them.
_HOST_CHANGES: dict[str, tuple[Callable[[int], bool], str]] = {
    "block": (lambda value: value >= 0, "a time in ms since 1970, 0 to lift the block"),
    "exclude": (lambda value: value in (0, 1), "True or False"),
    "purge": (lambda value: value == 1, "True"),
    "queue": (lambda value: 0 <= value <= 5, "1 to 5 for all its pages, 0 for each one's own"),
    "budget": (lambda value: value >= 1, "1 or more pages, None for the crawl's"),
    "parallelism": (lambda value: 1 <= value <= 100, "1 to 100 fetches, None for the crawl's"),
    "due": (lambda value: value >= 0, "milliseconds until its next contact"),
}
_MAY_BE_NONE = ("budget", "parallelism")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """Options of the fleet as they are in Redis, and how often they were changed."""

    version: int = 0
    values: dict[str, Any] = field(default_factory=dict)


class CrawlControl:
    """Commands on one crawl. Each is O(1), or works in bounded batches."""

    def __init__(self, redis: Client, crawl: str, meta: Meta, urls: Urls = DEFAULT) -> None:
        # How the crawl spells, compares and groups URLs.
        self.urls = urls.with_private_suffixes(meta.private_suffixes)
        self._redis = redis
        self._crawl = crawl
        self._seen_argument = meta.url_seen.argument
        tuning = Tuning(url_seen=meta.url_seen)
        self.frontier = Frontier(redis, crawl, shards=meta.shards, tuning=tuning)
        self._scripts = self.frontier.scripts
        self._tags = self._scripts.tags

    @classmethod
    async def open(cls, redis: Client, crawl: str, urls: Urls = DEFAULT) -> Self:
        """Open a crawl that exists; `urls` are the rules by which it compares URLs."""
        return cls(redis, crawl, await read(redis, crawl), urls)

    # --- the crawl -----------------------------------------------------------------------------

    async def add(self, entries: Sequence[Entry]) -> Added:
        """Add URLs, whatever waits already; known ones are not added again."""
        await keep_older_programs_out(self._redis, self._crawl, self._tags[0])
        return await self.frontier.add(entries, mode="all")

    async def pause(self) -> None:
        """Lease nothing until resume(); fetches in flight finish."""
        await self._scripts.run_on(None, "pause", "1")
        await self.note("paused")

    async def resume(self) -> None:
        """Lease URLs again."""
        await self._scripts.run_on(None, "pause", "0")
        await self.note("resumed")

    async def note(self, text: str) -> None:
        """Add an order of people to the log of the crawl."""
        await event_log.note(self._redis, self._crawl, [Event.now(ORDER, text)])

    async def events(self) -> list[Event]:
        """Return the last events of the crawl, the newest first."""
        return await event_log.recent(self._redis, self._crawl)

    async def stop(self, owner: str) -> bool:
        """Ask an instance to stop: fetches in flight finish. False if it is not alive."""
        about = (await self.instances()).get(owner)
        if about is None:
            return False
        await answered(self._redis.set(keys.stop(self._crawl, owner), "1", ex=_STOP_S))
        await self.note(f"process {about.get('machine', owner)} {about.get('pid', '')} is to stop")
        return True

    async def sizes_by_shard(self) -> list[Sizes]:
        """Count the URLs in each state, for each shard."""
        return await self.frontier.sizes_by_shard()

    async def delayed_buckets(self) -> tuple[int, int]:
        """Return the number of buckets of delayed URLs, and when the first is due, in ms or 0."""
        buckets, first = 0, 0
        for tag in self._tags:
            buckets += await self._redis.zcard(keys.delayed(tag))
            due = await self._redis.zrange(keys.delayed(tag), 0, 0)
            if due and (not first or int(due[0]) < first):
                first = int(due[0])
        return buckets, first

    async def memory_share(self) -> float:
        """Return the used share of the server's maxmemory; 0 without a limit."""
        return (await self.memory()).share

    async def memory(self) -> Memory:
        """Return the memory that the server uses, and its maxmemory.

        For a cluster they are sums, and the share is that of the fullest master, among those that
        answer.
        """
        info = self._redis.info
        if hasattr(self._redis, "get_primaries"):
            calls = [info("memory", target_nodes=node) for node in self._redis.get_primaries()]
        else:
            calls = [info("memory")]
        outcomes = await gather_outcomes(calls)
        available = [each for each in outcomes if not isinstance(each, RedisAway)]
        nodes = raise_errors(available or outcomes)
        return Memory(
            used_bytes=sum(node["used_memory"] for node in nodes),
            limit_bytes=sum(node["maxmemory"] for node in nodes),
            share=max(
                (node["used_memory"] / node["maxmemory"] for node in nodes if node["maxmemory"]),
                default=0.0,
            ),
        )

    async def instances(self, *, silence_ms: int = _SILENCE_MS) -> dict[str, dict[str, Any]]:
        """Return the live instances by name, with what each reports about itself.

        One that was killed stays registered until another process takes its leases back, and is
        left out when it has sent no beat for `silence_ms`.
        """
        tag = self._tags[0]
        found = await self._redis.hgetall(keys.instances(tag))
        since = await shard_time_ms(self._redis, tag) - silence_ms
        live = set(await self._redis.zrangebyscore(keys.owners(tag), since, "+inf"))
        return {name.decode(): json.loads(about) for name, about in found.items() if name in live}

    async def options(self) -> dict[str, Any]:
        """Return the options that the whole fleet follows."""
        return (await self.shared_options()).values

    async def shared_options(self) -> SharedOptions:
        """Return the options of the fleet with the number of their changes."""
        found = await self._redis.hgetall(keys.options(self._crawl))
        version = int(found.pop(_VERSION.encode(), 0))
        return SharedOptions(
            version, {name.decode(): json.loads(value) for name, value in found.items()}
        )

    async def set_options(self, values: Mapping[str, Any]) -> None:
        """Change options for the whole fleet; None removes one."""
        removed = [name for name, value in values.items() if value is None]
        changed = {name: value for name, value in values.items() if value is not None}
        before = await self.shared_options()
        await self._write_options(removed, changed, before.version + 1)
        for name, value in values.items():
            known = before.values.get(name)
            if known != value:
                was = "not set" if known is None else json.dumps(known)
                now = "as usual" if value is None else json.dumps(value)
                await self.note(f"{name} is {now} (was {was})")

    async def restore_options(self, known: SharedOptions) -> None:
        """Write options again that the server has lost."""
        removed = (await self.options()).keys() - known.values.keys()
        await self._write_options(removed, known.values, known.version)

    async def _write_options(
        self, removed: Iterable[str], values: Mapping[str, Any], version: int
    ) -> None:
        key = keys.options(self._crawl)
        if removed:
            await answered(self._redis.hdel(key, *removed))
        # With the version in one command: if the server dies in between, processes would not
        # notice the change.
        mapping = {name: json.dumps(value) for name, value in values.items()}
        await answered(self._redis.hset(key, mapping={**mapping, _VERSION: version}))

    async def seed_domains(self) -> set[str]:
        """Return the registered domains of the seeds."""
        found = await self._redis.smembers(keys.seed_domains(self._crawl))
        return {name.decode() for name in found}

    async def count_seed_domains(self) -> int:
        """Count the registered domains of the seeds."""
        return int(await self._redis.scard(keys.seed_domains(self._crawl)))

    async def add_seed_domains(self, domains: Sequence[str]) -> None:
        """Add registered domains of seeds."""
        await answered(self._redis.sadd(keys.seed_domains(self._crawl), *domains))

    async def delete(self, *, silence_ms: int = _SILENCE_MS) -> AsyncIterator[int]:
        """Delete the crawl in batches; yield the number of deleted keys so far.

        Refused while an instance works on the crawl: one that beat in the last `silence_ms`.
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
        await KnownStores(self._redis, self._crawl).begin_anew()
        yield gone

    async def _unlink(self, names: list[bytes]) -> int:
        pipeline = self._redis.pipeline()
        for name in names:
            # Not unlink(): a cluster's client splits that by slots, outside the pipeline.
            pipeline.execute_command("UNLINK", name)
        return sum(await executed(pipeline)) if names else 0

    # --- hosts ---------------------------------------------------------------------------------

    async def host(self, host: str, **changes: int | None) -> HostState:
        """Read or change one host: block=until_ms, exclude, purge, queue, budget, parallelism, due.

        `due` brings its next contact forward, to so many milliseconds from now.
        """
        pairs: list[Any] = []
        for name, value in changes.items():
            pairs += [name, _checked(name, value)]
        shard = self._shard(host)
        now_ms = await shard_time_ms(self._redis, self._tags[shard])
        view = await self._scripts.run("host", shard, host, 0, *pairs)
        if changes:
            await self.note(f"host {host}: {_told(changes)}")
        return _host_state(view, now_ms)

    async def waiting_of(self, host: str, *, limit: int = 10) -> WaitingUrls:
        """Read what waits for a host in its back queues: sizes, and the first URLs."""
        found = await self._scripts.run("waiting", self._shard(host), host, limit)
        entries: list[Entry] = []
        for _, first in found:
            for data in first:
                with suppress(DamagedEntry):
                    entries.append(decode(data))
        return WaitingUrls(tuple(int(size) for size, _ in found), entries[:limit])

    async def hosts(
        self,
        *,
        text: str = "",
        state: str = "",
        sort: str = "next",
        offset: int = 0,
        limit: int = 100,
    ) -> HostPage:
        """List hosts that are in the frontier or were crawled; see STATES and SORTS.

        `text` is a part of their names. By default the hosts that wait for their turn are listed,
        the next due first.
        """
        if sort not in SORTS:
            raise CrawlerError(f"Hosts are not sorted by {sort!r}; use {', '.join(SORTS)}.")
        if state and state not in STATES:
            raise CrawlerError(f"No host is {state!r}; use {', '.join(STATES)}.")
        if sort == "next" and not text and not state:
            return await self._next_due(offset, limit)
        names, complete = await self._host_names(text)
        found = [one for one in await self._host_states(names) if state in ("", one.state)]
        found.sort(key=SORTS[sort])
        return HostPage(found[offset : offset + limit], len(found), complete)

    async def host_counts(self) -> dict[str, int]:
        """Count the hosts that are ready, resting, in flight, blocked, excluded.

        Only hosts with a lease or a change are read one by one, COUNTED_MAX at the most.
        """
        names: dict[str, None] = {}
        found = dict.fromkeys(("ready", "resting", "in_flight", "blocked", "excluded"), 0)
        for tag in self._tags:
            heap = keys.host_heap(tag)
            ready = await self._redis.zcount(heap, "-inf", await shard_time_ms(self._redis, tag))
            found["ready"] += ready
            found["resting"] += await self._redis.zcard(heap) - ready
            names |= dict.fromkeys(await self._hosts_in_flight(tag))
            changed = await self._redis.srandmember(keys.ordered(tag), COUNTED_MAX)
            names |= dict.fromkeys(name.decode() for name in changed)
        for one in await self._host_states(list(names)[:COUNTED_MAX]):
            if one.state in ("in_flight", "blocked", "excluded"):
                found[one.state] += 1
            if one.state == "blocked" and one.waiting:
                # It is in the heap until its block ends.
                found["resting"] = max(0, found["resting"] - 1)
        return found

    async def last_due(self) -> HostState | None:
        """Return a host that is busy for long: of those due last, the one that ends last."""
        names: list[str] = []
        for tag in self._tags:
            found = await self._redis.zrange(keys.host_heap(tag), -_LAST_DUE, -1)
            names += [name.decode() for name in found]
        return max(await self._host_states(names), key=lambda host: host.busy_ms, default=None)

    async def _next_due(self, offset: int, limit: int) -> HostPage:
        """List the hosts that wait for their turn, from the heaps alone."""
        heads: list[tuple[float, bytes]] = []
        total, last = 0, min(offset + limit, SCAN_MAX)
        for tag in self._tags:
            total += await self._redis.zcard(keys.host_heap(tag))
            page = await self._redis.zrange(keys.host_heap(tag), 0, last - 1, withscores=True)
            # No more than are asked for, however many shards there are.
            heads = sorted(heads + [(clock, name) for name, clock in page])[:last]
        chosen = [name.decode() for _, name in heads[offset:]]
        states = {one.host: one for one in await self._host_states(chosen)}
        return HostPage([states[name] for name in chosen], total, complete=True)

    async def _host_names(self, text: str) -> tuple[list[str], bool]:
        """Find names that contain this text, and whether all names were scanned."""
        found: dict[str, None] = {}
        scanned = 0
        async for names in self._scan_hosts(f"*{keys.literal(text)}*" if text else "*"):
            found |= dict.fromkeys(name for name in names if text in name)
            scanned += _BATCH
            if len(found) >= READ_MAX or scanned >= SCAN_MAX:
                return list(found)[:READ_MAX], False
        return list(found), True

    async def _scan_hosts(self, match: str) -> AsyncIterator[list[str]]:
        """Yield hosts in flight, changed, waiting, crawled. A host may come more than once."""
        redis = self._redis
        for tag in self._tags:
            yield await self._hosts_in_flight(tag)
        for command, key in (
            (redis.sscan, keys.ordered),
            (redis.zscan, keys.host_heap),
            (redis.hscan, keys.pages),
        ):
            for tag in self._tags:
                cursor = None
                while cursor != 0:
                    cursor, page = await command(key(tag), cursor or 0, match, _BATCH)
                    # A sorted set has pairs of member and score.
                    names = (each[0] if isinstance(each, tuple) else each for each in page)
                    yield [name.decode() for name in names]

    async def _hosts_in_flight(self, tag: str) -> list[str]:
        names = []
        for owner in await self._redis.zrange(keys.owners(tag), 0, -1):
            for lease in await self._redis.hvals(keys.leases(tag, owner.decode())):
                with suppress(DamagedEntry):
                    names.append(decode(lease.split(b" ", 2)[2]).host)
        return names

    async def _host_states(self, names: Iterable[str]) -> list[HostState]:
        by_shard: dict[int, list[str]] = defaultdict(list)
        for name in names:
            by_shard[self._shard(name)].append(name)
        found = []
        for shard, hosts in by_shard.items():
            now_ms = await shard_time_ms(self._redis, self._tags[shard])
            for start in range(0, len(hosts), _BATCH):
                views = await self._scripts.run("hosts", shard, *hosts[start : start + _BATCH])
                found += [_host_state(view, now_ms) for view in views]
        return found

    # --- URLs ----------------------------------------------------------------------------------

    async def forget(self, url: str) -> bool:
        """Forget that a canonical URL was seen, and its content; return whether it was seen.

        If it is fetched again, it is no duplicate of its former content, and until then it is no
        page's original. A URL that waits for its retry or recrawl is taken out of the delay queue,
        or it would come twice when it is added again. Nothing records where it waits, so all
        delayed URLs of its shard are read, in small calls: 2 s a million. Running processes clear
        their caches of known URLs with their next beat.
        """
        forgotten, leased = False, None
        for kind in _KINDS:
            try:
                forgotten = await self._forget(url, kind) or forgotten
            except CrawlerError as error:
                leased = error
        if leased is not None and not forgotten:
            raise leased
        contents = await ContentIndex.open_existing(self._redis, self._crawl, self._tags)
        if contents is not None:
            await contents.forget(fingerprint(url))
        if forgotten:
            # A full server forgets as well; processes then keep their caches for a while longer.
            with suppress(OutOfMemoryError):
                await answered(self._redis.hincrby(keys.options(self._crawl), "forgotten", 1))
        if leased is not None:
            # It is forgotten as one kind, and leased as the other.
            raise leased
        return forgotten

    async def _forget(self, url: str, kind: str) -> bool:
        shard, id_ = self._place(url, kind)
        answer = await self._scripts.run("forget", shard, id_, self._seen_argument)
        if answer == b"leased":
            raise CrawlerError(f"{url} is being fetched; forget it when that is done.")
        if answer == b"unseen":
            return False
        due, at = b"", 0
        while True:
            due, at, _ = await self._scripts.run("undelay", shard, id_, due, at, _SEARCH_MAX)
            if not due:
                return True

    async def status(self, url: str) -> UrlStatus:
        """Return where a canonical URL is: as a page, or as a sitemap if no page is known by it."""
        page, sitemap = [await self._status(url, kind) for kind in _KINDS]
        return page if page.state != "unseen" else sitemap

    async def _status(self, url: str, kind: str) -> UrlStatus:
        shard, id_ = self._place(url, kind)
        args = (id_, self.group(url), _SEARCH_MAX, self._seen_argument)
        answer, word, at_ms, data = await self._scripts.run("status", shard, *args)
        state, text = answer.decode(), word.decode()
        return UrlStatus(
            state,
            owner=text if state == "leased" else "",
            reason=text if state != "leased" else "",
            at_ms=int(float(at_ms)),
            entry=decode(data) if data else None,
        )

    async def counts_of(self, url: str) -> tuple[int, int, int]:
        """Return what is known of a canonical URL for its score.

        That is: the URLs found of its host, the links from other domains to its host, and those to
        itself.
        """
        host = host_of(url)
        # Hosts are counted where their own names belong.
        tag = self._tags[self._shard(host)]
        found = await self._redis.hget(keys.found(tag), host)
        inbound = await self._redis.hget(keys.inbound(tag), host)
        links = await self.frontier.links_to(self.urls.fingerprint(url), self.group(url))
        return int(found or 0), int(inbound or 0), links

    # --- dead letters --------------------------------------------------------------------------

    async def dead(
        self, *, reason: str = "", host: str = "", before: str = "", limit: int = 100
    ) -> list[Letter]:
        """List the newest dead letters by reason and host; `before` is the last letter's cursor."""
        found: list[Letter] = []
        for shard in range(len(self._tags)):
            fitting = 0
            async for letter in self._newest_letters(shard, _end(before, shard), reason):
                if host in ("", letter.host):
                    found.append(letter)
                    fitting += 1
                if fitting >= limit:
                    break
        found.sort(key=lambda letter: letter.place, reverse=True)
        return found[:limit]

    async def requeue(self, *, reason: str = "", host: str = "") -> int:
        """Move dead letters back to their front queues, by reason and host; return how many."""
        total = 0
        for shard in range(len(self._tags)):
            after = "-"
            while after:
                args = (after, _BATCH, reason, host)
                last, taken = await self._scripts.run("requeue", shard, *args)
                after = last.decode()
                total += taken
        chosen = " ".join(filter(None, (reason, host))) or "all"
        await self.note(f"{total:,} dead letters requeued ({chosen})")
        return total

    async def dead_groups(self, *, host: str = "") -> DeadGroups:
        """Count the newest dead letters, of one host or of all, by reason and by host."""
        read, reasons, hosts = 0, dict[str, Counter[str]](), dict[str, Counter[str]]()
        newest: dict[str, int] = {}
        complete = True
        most = GROUPED_MAX // len(self._tags)
        for shard in range(len(self._tags)):
            number = 0
            async for letter in self._newest_letters(shard, "+", ""):
                if number >= most:
                    complete = False
                    break
                number += 1
                if host in ("", letter.host):
                    reasons.setdefault(letter.reason, Counter())[letter.host] += 1
                    hosts.setdefault(letter.host, Counter())[letter.reason] += 1
                    newest[letter.reason] = max(newest.get(letter.reason, 0), letter.at_ms)
            read += number
        return DeadGroups(read, complete, reasons, hosts, newest)

    async def _newest_letters(self, shard: int, end: str, reason: str) -> AsyncIterator[Letter]:
        key, wanted = keys.dead(self._tags[shard]), reason.encode()
        while True:
            page = await self._redis.xrevrange(key, end, "-", count=_BATCH)
            for name, fields in page:
                # Before the entry is decoded, which costs more: most letters may be skipped.
                if wanted in (b"", fields[b"reason"]):
                    yield _letter(shard, name, fields)
            if len(page) < _BATCH:
                return
            end = "(" + page[-1][0].decode()

    # -------------------------------------------------------------------------------------------

    def _shard(self, host: str) -> int:
        return shard_of(host, len(self._tags))

    def _place(self, url: str, kind: str) -> tuple[int, bytes]:
        """Return the shard of a URL, and its id."""
        return self._shard(self.group(url)), self.urls.fingerprint(url, kind).to_bytes(8, "big")

    def group(self, url: str) -> str:
        """Return the host of a canonical URL as the frontier knows it: its politeness group."""
        return host_of(url)[self.urls.group_skip(url) :]


def _told(changes: Mapping[str, int | None]) -> str:
    """Describe changes of a host for the log."""
    parts = []
    for name, value in changes.items():
        if name == "block" and value:
            last = datetime.max.replace(tzinfo=UTC)
            until = datetime.fromtimestamp(min(value / 1000, last.timestamp() - 86_400), UTC)
            parts.append(f"blocked until {until:%Y-%m-%d %H:%M} UTC")
        elif name == "block":
            parts.append("not blocked any more")
        else:
            parts.append(f"{name} {'as usual' if value in (None, False) else value}")
    return ", ".join(parts)


def _checked(name: str, value: int | None) -> int | str:
    if name not in _HOST_CHANGES:
        raise CrawlerError(f"A host has no {name!r} to change; use {', '.join(_HOST_CHANGES)}.")
    fits, wanted = _HOST_CHANGES[name]
    if value is None and name in _MAY_BE_NONE:
        return ""
    if not isinstance(value, int) or not fits(value):
        raise CrawlerError(f"{name} of a host is {value!r}; give {wanted}.")
    return int(value)


def _host_state(view: list[Any], now_ms: int) -> HostState:
    """Make a HostState of what lua/host_view.lua returns."""
    host, *numbers = view
    clock, delay, waiting, in_flight, pages, blocked, excluded = map(int, map(float, numbers[:7]))
    queue, budget, parallelism = (int(number) if number else None for number in numbers[7:])
    return HostState(
        *(host.decode(), clock, delay, waiting, in_flight, pages, blocked, bool(excluded)),
        *(queue or 0, budget, parallelism, now_ms),
    )


def _end(before: str, shard: int) -> str:
    """Return where the letters of a shard go on; at equal times the later shard comes first."""
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
