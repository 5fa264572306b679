"""Servers are killed, stopped for a while, and restarted; Redis in ways of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from chaos.faults import Cost, Fault
from crawler.errors import ExitCode

if TYPE_CHECKING:
    from chaos.storm import Storm

_AWAY_S = (0.1, 3.0)
# What a machine loses that loses its power, with `appendfsync everysec`.
_UNSYNCED_S = 1.0
# Whoever starts, or ends, while a server is away.
AWAY = frozenset({int(ExitCode.SERVER_AWAY)})
_REDIS, _SINK = "redis", ("mongo", "postgresql", "s3")
# Kinds of errors with which the mock broker answers: leader changed, timed out, too few replicas.
_BROKER_ERRORS = (6, 7, 19)
_PRODUCE = 0


def _server(storm: Storm, name: str) -> Any:
    return storm.redis if name == _REDIS else storm.servers[name]


def kill(name: str, storm: Storm, chance: Random) -> str:
    """End a server as a crash does, and start it again."""
    server = _server(storm, name)
    server.kill()
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        server.start()
    return name


def freeze(name: str, storm: Storm, chance: Random) -> str:
    """Let a server hang, with its port open."""
    server = _server(storm, name)
    server.freeze()
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        server.thaw()
    return name


def cut_file(storm: Storm, chance: Random) -> str:
    """Kill Redis, and start it without a random part of what it wrote in its last second."""
    server = storm.redis
    server.kill()
    try:
        synced = server.size_before(_UNSYNCED_S)
        size = server.file_of_writes.stat().st_size
        left = chance.randint(synced, size)
        server.cut_file(left)
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        server.start()
    return f"redis: {size - left} of {size} bytes cut"


def flush_scripts(storm: Storm, chance: Random) -> str:
    """Let Redis forget all scripts."""
    with storm.redis.client as client:
        client.script_flush()
    return _REDIS


def kill_clients(storm: Storm, chance: Random) -> str:
    """Let Redis close all connections."""
    with storm.redis.client as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return _REDIS


def sleep(storm: Storm, chance: Random) -> str:
    """Let Redis do nothing else for a while."""
    with storm.redis.client as client:
        client.execute_command("DEBUG", "SLEEP", f"{chance.uniform(0.1, 2.5):.3f}")
    return _REDIS


def fill_memory(storm: Storm, chance: Random) -> str:
    """Let Redis have used all memory that it may use."""
    with storm.redis.client as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", int(used * chance.uniform(0.8, 1.0)))
        try:
            storm.rest(chance.uniform(0.5, 4.0))
        finally:
            client.config_set("maxmemory", 0)
    return _REDIS


def cut_broker(storm: Storm, chance: Random) -> str:
    """Close the port of the broker, and its connections."""
    broker = storm.servers["kafka"]
    broker.cut()
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        broker.mend()
    return "kafka"


def fail_broker(storm: Storm, chance: Random) -> str:
    """Let the broker refuse some requests, as in an election."""
    broker = storm.servers["kafka"]
    broker.push_errors(_PRODUCE, *chance.choices(_BROKER_ERRORS, k=chance.randint(1, 5)))
    try:
        storm.rest(chance.uniform(*_AWAY_S))
    finally:
        broker.clear_errors(_PRODUCE)
    return "kafka"


def _kind(
    name: str, what: str, work: Callable[..., str], *, weight: float = 1.0, **costs: Any
) -> Fault:
    cost = Cost(exits=AWAY, **costs)
    return Fault(f"{name} {what}", name, work, cost, weight, is_of=name)


FAULTS = (
    # A restarted Redis may lack links that it had acknowledged, so pages that were leased are not
    # done. After each restart nothing is claimed for ten seconds.
    _kind(_REDIS, "killed", partial(kill, _REDIS), weight=0.5, repeats=True),
    *(_kind(name, "killed", partial(kill, name)) for name in ("mongo", "postgresql")),
    # It takes up to twenty seconds to start again.
    _kind("s3", "killed", partial(kill, "s3"), weight=0.3),
    *(_kind(name, "stopped", partial(freeze, name)) for name in (_REDIS, *_SINK, "kafka")),
    _kind(
        *(_REDIS, "loses its last second", cut_file),
        weight=0.5,
        repeats=True,
        lost_s=_UNSYNCED_S,
    ),
    _kind(_REDIS, "forgets scripts", flush_scripts),
    _kind(_REDIS, "closes connections", kill_clients),
    _kind(_REDIS, "sleeps", sleep),
    _kind(_REDIS, "out of memory", fill_memory),
    _kind("kafka", "cut", cut_broker),
    _kind("kafka", "refuses", fail_broker),
)
