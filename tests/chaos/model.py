"""A plain account of what a frontier must hold, and the reading of all its keys to compare."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import redis

from crawler.frontier.entry import PAGE_QUEUES, decode
from crawler.frontier.frontier import tags

# Budget of each host for documents, and for media.
MAX_PER_HOST = 4


@dataclass(slots=True)
class Contents:
    """All that the keys of a shard say."""

    # URL -> the states it was found in.
    where: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    stats: dict[str, int] = field(default_factory=dict)
    waiting: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    heap: dict[str, float] = field(default_factory=dict)
    # Owner -> URL -> token.
    leases: dict[str, dict[str, str]] = field(default_factory=dict)
    # Owner -> host -> token.
    visits: dict[str, dict[str, str]] = field(default_factory=dict)
    retries: int = 0
    recrawls: int = 0
    # Front queue -> gaps that URLs left which were lifted.
    gaps: Counter[str] = field(default_factory=Counter)
    # Queue of a type -> host -> URLs that were taken.
    accepted: dict[str, dict[str, int]] = field(default_factory=dict)
    # Hosts with documents or media in their back queues.
    typed: set[str] = field(default_factory=set)


def read(client: redis.Redis, crawl: str) -> Contents:
    """Read every key."""
    return read_shard(client, tags(crawl, 1)[0])


def read_shard(client: redis.Redis, tag: str) -> Contents:
    """Read every key of a shard."""
    prefix = f"{tag}:".encode()
    found = Contents()
    for key in client.scan_iter(match=prefix + b"*", count=1000):
        kind, _, rest = key[len(prefix) :].decode().partition(":")
        if kind in _READERS and (rest or kind != "delayed"):
            _READERS[kind](found, client, key, rest)
    return found


_GAP = b"-"


def _front(found: Contents, client: redis.Redis, key: bytes, number: str) -> None:
    for data in client.lrange(key, 0, -1):
        if data == _GAP:
            found.gaps[number] += 1
        else:
            entry = decode(data)
            assert entry.queue == int(number), f"{entry} is in the front queue {number}"
            found.where[entry.url].append("front")


def _back(found: Contents, client: redis.Redis, key: bytes, rest: str) -> None:
    host, _, number = rest.rpartition(":")
    for data in client.lrange(key, 0, -1):
        entry = decode(data)
        assert entry.queue == int(number), f"{entry} is in the back queue {number}"
        found.where[entry.url].append("back")
        found.waiting[host] += 1
        if entry.queue > PAGE_QUEUES:
            found.typed.add(host)


def _leases(found: Contents, client: redis.Redis, key: bytes, owner: str) -> None:
    held = found.leases[owner] = {}
    for lease in client.hvals(key):
        token, _, data = lease.split(b" ", 2)
        url = decode(data).url
        found.where[url].append("leased")
        held[url] = token.decode()


def _visits(found: Contents, client: redis.Redis, key: bytes, owner: str) -> None:
    found.visits[owner] = {k.decode(): v.decode() for k, v in client.hgetall(key).items()}


def _delayed(found: Contents, client: redis.Redis, key: bytes, _: str) -> None:
    for record in client.lrange(key, 0, -1):
        if record != _GAP:
            found.where[decode(record[1:]).url].append("delayed")
            found.retries += record[:1] == b"r"
            found.recrawls += record[:1] in b"cfpqPQ"


def _dead(found: Contents, client: redis.Redis, key: bytes, _: str) -> None:
    for _, letter in client.xrange(key):
        found.where[decode(letter[b"entry"]).url].append("dead")


def _host(found: Contents, client: redis.Redis, key: bytes, host: str) -> None:
    found.hosts[host] = {k.decode(): v.decode() for k, v in client.hgetall(key).items()}


def _heap(found: Contents, client: redis.Redis, key: bytes, _: str) -> None:
    found.heap = {k.decode(): v for k, v in client.zrange(key, 0, -1, withscores=True)}


def _accepted(found: Contents, client: redis.Redis, key: bytes, number: str) -> None:
    found.accepted[number] = {k.decode(): int(v) for k, v in client.hgetall(key).items()}


def _stats(found: Contents, client: redis.Redis, key: bytes, _: str) -> None:
    found.stats = {k.decode(): int(v) for k, v in client.hgetall(key).items() if v.isdigit()}


_READERS = {
    "front": _front,
    "back": _back,
    "leases": _leases,
    "visits": _visits,
    "delayed": _delayed,
    "dead": _dead,
    "host": _host,
    "host_heap": _heap,
    "stats": _stats,
    "accepted": _accepted,
}


def check_states(found: Contents, known: set[str], done: set[str]) -> None:
    """Every known URL is in exactly one state."""
    for url in known:
        states = found.where.get(url, [])
        assert len(states) == 1 or (not states and url in done), f"{url} is {states or 'lost'}"
    assert set(found.where) <= known, f"never added: {set(found.where) - known}"


def check_counters(found: Contents) -> None:
    """Counters say what the lists say."""
    assert found.stats.get("back", 0) == sum(found.waiting.values())
    assert found.stats.get("retries", 0) == found.retries
    assert found.stats.get("recrawls", 0) == found.recrawls
    for number in map(str, range(1, PAGE_QUEUES + 1)):
        assert found.stats.get(f"gaps{number}", 0) == found.gaps[number]
    for host, state in found.hosts.items():
        assert int(state.get("waiting", 0)) == found.waiting[host], f"{host}: {state}"
        assert "typed" in state or host not in found.typed, f"{host}: {state}"
    for number, counts in found.accepted.items():
        assert found.stats.get(f"accepted{number}", 0) == sum(counts.values())
        assert max(counts.values()) <= MAX_PER_HOST


def check_heap(found: Contents, parallelism: int, *, restarted: bool) -> None:
    """A host is on the heap when URLs wait and nothing is in flight, not when its slots are full.

    In between, the end of the other fetch brings it back at the latest. A server that fell back may
    have given a host to more than may be, and then the end of one of them brings it back too early:
    claim sees that.
    """
    assert set(found.heap) <= set(found.hosts)
    for host, state in found.hosts.items():
        flights = len(state.get("tokens", "").split())
        if found.waiting[host] == 0:
            assert host not in found.heap, f"{host}: {state}"
        elif flights == 0:
            assert host in found.heap, f"{host}: {state}"
        elif flights >= parallelism and not restarted:
            assert host not in found.heap, f"{host}: {state}"


def check_visits(found: Contents, *, restarted: bool) -> None:
    """A visit occupies a slot, unless a server fell back: the next beat of its owner sees that."""
    for visits in found.visits.values():
        for host, token in visits.items():
            assert restarted or token in found.hosts[host].get("tokens", "").split(), host


def snapshot(client: redis.Redis) -> list[tuple[bytes, int, bytes]]:
    """All keys as they are now."""
    return [
        (key, max(0, client.pttl(key)), client.dump(key)) for key in client.scan_iter(count=1000)
    ]


def fall_back(client: redis.Redis, kept: list[tuple[bytes, int, bytes]]) -> None:
    """What a restart that lost the last writes does: all keys as they were, another run id."""
    client.flushdb()
    for key, ttl, data in kept:
        client.restore(key, ttl, data)
        if key.endswith(b":stats"):
            client.hset(key, "run_id", "another")
