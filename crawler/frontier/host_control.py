"""What people ask about hosts and order for them. Orders are O(1), lists look at a bounded part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from crawler.errors import CrawlerError
from crawler.frontier import keys
from crawler.frontier.entry import DamagedEntry, decode
from crawler.frontier.records import HostPage, HostState
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, shard_time_ms
from crawler.servers.redis.connection import Client

# Hosts of which one list reads the state, and names it passes over to find them.
READ_MAX = 10_000
LOOK_MAX = 200_000
# Hosts that are looked at when they are counted by state.
COUNTED_MAX = 2000
_BATCH = 500

# Order of a list: what it sorts by. Beside the next due, the most comes first.
SORTS: dict[str, Callable[[HostState], Any]] = {
    "next": lambda state: (state.clock_ms, state.host),
    "waiting": lambda state: (-state.waiting, state.host),
    "pages": lambda state: (-state.pages, state.host),
    "delay": lambda state: (-state.delay_ms, state.host),
    "host": lambda state: state.host,
}
STATES = ("excluded", "blocked", "in_flight", "ready", "resting", "idle")

# Orders and the values they take.
_ORDERS: dict[str, tuple[Callable[[int], bool], str]] = {
    "block": (lambda value: value >= 0, "a time in ms since 1970, 0 to lift the block"),
    "exclude": (lambda value: value in (0, 1), "True or False"),
    "purge": (lambda value: value == 1, "True"),
    "queue": (lambda value: 0 <= value <= 5, "1 to 5, 0 for each URL's own"),
    "budget": (lambda value: value >= 1, "1 or more pages, None for the crawl's"),
    "parallelism": (lambda value: 1 <= value <= 100, "1 to 100 fetches, None for the crawl's"),
}
_MAY_BE_NONE = ("budget", "parallelism")


@dataclass(frozen=True, slots=True)
class HostControl:
    """Hosts of one crawl."""

    redis: Client
    scripts: Scripts
    tags: Sequence[str]

    async def change(self, host: str, changes: dict[str, int | None]) -> HostState:
        """Give orders, or none, and read what holds then."""
        pairs: list[Any] = []
        for name, value in changes.items():
            pairs += [name, _checked(name, value)]
        tag = self.tags[shard_of(host, len(self.tags))]
        now_ms = await shard_time_ms(self.redis, tag)
        return _state(await self.scripts.run("host", tag, host, 0, *pairs), now_ms)

    async def page(self, *, text: str, state: str, sort: str, offset: int, limit: int) -> HostPage:
        """Hosts whose name has `text` in it and that are in `state`, '' for any."""
        if sort not in SORTS:
            raise CrawlerError(f"Hosts are not sorted by {sort!r}; use {', '.join(SORTS)}.")
        if state and state not in STATES:
            raise CrawlerError(f"No host is {state!r}; use {', '.join(STATES)}.")
        if sort == "next" and not text and not state:
            return await self._next_due(offset, limit)
        names, complete = await self._names(text)
        found = [one for one in await self._states(names) if state in ("", one.state)]
        found.sort(key=SORTS[sort])
        return HostPage(found[offset : offset + limit], len(found), complete)

    async def counts(self) -> dict[str, int]:
        """How many hosts are ready, resting, in flight, blocked, excluded.

        Only those with a lease or an order are looked at one by one, COUNTED_MAX at the most.
        """
        names: dict[str, None] = {}
        found = dict.fromkeys(("ready", "resting", "in_flight", "blocked", "excluded"), 0)
        for tag in self.tags:
            heap = keys.host_heap(tag)
            ready = await self.redis.zcount(heap, "-inf", await shard_time_ms(self.redis, tag))
            found["ready"] += ready
            found["resting"] += await self.redis.zcard(heap) - ready
            names |= dict.fromkeys(await self._in_flight(tag))
            ordered = await self.redis.srandmember(keys.ordered(tag), COUNTED_MAX)
            names |= dict.fromkeys(name.decode() for name in ordered)
        for one in await self._states(list(names)[:COUNTED_MAX]):
            if one.state in ("in_flight", "blocked", "excluded"):
                found[one.state] += 1
            if one.state == "blocked" and one.waiting:
                # It waits in the heap for the end of its block.
                found["resting"] = max(0, found["resting"] - 1)
        return found

    async def _next_due(self, offset: int, limit: int) -> HostPage:
        """The hosts that wait for their turn, from the heaps alone."""
        heads: list[tuple[float, bytes]] = []
        total, last = 0, min(offset + limit, LOOK_MAX)
        for tag in self.tags:
            total += await self.redis.zcard(keys.host_heap(tag))
            page = await self.redis.zrange(keys.host_heap(tag), 0, last - 1, withscores=True)
            # No more than are asked for, of however many shards.
            heads = sorted(heads + [(clock, name) for name, clock in page])[:last]
        chosen = [name.decode() for _, name in heads[offset:]]
        states = {one.host: one for one in await self._states(chosen)}
        return HostPage([states[name] for name in chosen], total, complete=True)

    async def _names(self, text: str) -> tuple[list[str], bool]:
        """Names with this text in them, and whether all were looked at."""
        found: dict[str, None] = {}
        looked = 0
        async for names in self._name_lists(f"*{keys.literal(text)}*" if text else "*"):
            found |= dict.fromkeys(name for name in names if text in name)
            looked += _BATCH
            if len(found) >= READ_MAX or looked >= LOOK_MAX:
                return list(found)[:READ_MAX], False
        return list(found), True

    async def _name_lists(self, match: str) -> AsyncIterator[list[str]]:
        """In flight, under orders, waiting, crawled: a host may come more than once."""
        redis = self.redis
        for tag in self.tags:
            yield await self._in_flight(tag)
        for command, key in (
            (redis.sscan, keys.ordered),
            (redis.zscan, keys.host_heap),
            (redis.hscan, keys.pages),
        ):
            for tag in self.tags:
                cursor = None
                while cursor != 0:
                    cursor, page = await command(key(tag), cursor or 0, match, _BATCH)
                    yield [_name(item).decode() for item in page]

    async def _in_flight(self, tag: str) -> list[str]:
        names = []
        for owner in await self.redis.zrange(keys.owners(tag), 0, -1):
            for lease in await self.redis.hvals(keys.leases(tag, owner.decode())):
                with suppress(DamagedEntry):
                    names.append(decode(lease.split(b" ", 2)[2]).host)
        return names

    async def _states(self, names: Iterable[str]) -> list[HostState]:
        by_tag: dict[str, list[str]] = {}
        for name in names:
            by_tag.setdefault(self.tags[shard_of(name, len(self.tags))], []).append(name)
        found = []
        for tag, hosts in by_tag.items():
            now_ms = await shard_time_ms(self.redis, tag)
            source = iter(hosts)
            while batch := list(islice(source, _BATCH)):
                found += [
                    _state(view, now_ms) for view in await self.scripts.run("hosts", tag, *batch)
                ]
        return found


def _name(item: bytes | tuple[bytes, float]) -> bytes:
    """Of a member, or of a pair of member and score."""
    return item[0] if isinstance(item, tuple) else item


def _checked(name: str, value: int | None) -> int | str:
    if name not in _ORDERS:
        raise CrawlerError(
            f"There is no order {name!r} for a host; there are {', '.join(_ORDERS)}."
        )
    fits, wanted = _ORDERS[name]
    if value is None and name in _MAY_BE_NONE:
        return ""
    if not isinstance(value, int) or not fits(value):
        raise CrawlerError(f"{name} of a host is {value!r}; give {wanted}.")
    return int(value)


def _state(view: list[Any], now_ms: int) -> HostState:
    host, *numbers = view
    clock, delay, waiting, in_flight, pages, blocked, excluded = (
        int(float(n)) for n in numbers[:7]
    )
    queue, budget, parallelism = (int(number) if number else None for number in numbers[7:])
    return HostState(
        host=host.decode(),
        clock_ms=clock,
        delay_ms=delay,
        waiting=waiting,
        in_flight=in_flight,
        pages=pages,
        blocked_until_ms=blocked,
        excluded=bool(excluded),
        queue=queue or 0,
        budget=budget,
        parallelism=parallelism,
        now_ms=now_ms,
    )
