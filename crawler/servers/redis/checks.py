"""Check whether a crawl can trust a Redis, and read facts about the server.

A server that would lose, evict or damage the frontier, or accepts no writes, is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.redis.connection import Client, server_mode
from crawler.servers.redis.errors import RedisAway, RedisRefuses, answered, explain

logger = logging.getLogger(__name__)


T = TypeVar("T")

# First major version that compresses lists without damaging them.
_COMPRESSES_WELL = 7


class Needed(NamedTuple):
    """Setting that a server needs: its name, field of ServerFacts, value, and the risk without."""

    name: str
    fact: str
    value: str
    risk: str


NEEDED = (
    Needed("appendonly", "appendonly", "yes", "a restart would lose the frontier"),
    Needed("maxmemory-policy", "policy", "noeviction", "URLs and host clocks could be evicted"),
)


async def check(redis: Client) -> None:
    """Check that the server, or every node of a cluster, keeps what it acknowledges."""
    nodes = await facts(redis)
    for name, fact, needed, risk in NEEDED:
        values = {getattr(node, fact) for node in nodes}
        for found in sorted(values - {None, needed}):
            raise ConfigurationError(
                f"Redis has {name} {found}: {risk}. Run `redis-cli config set {name} {needed}` "
                "and put it into redis.conf, or accept it with REQUIRE_PERSISTENCE=0."
            )
        if None in values:
            logger.warning(
                "This Redis does not report its %s; make sure that it is %s, or %s",
                name,
                needed,
                risk,
            )
    for node in nodes:
        if damages_lists(node):
            raise ConfigurationError(
                f"Redis {node.version} with list-compress-depth {node.compress_depth} damages "
                f"lists and crashes: versions before {_COMPRESSES_WELL} write into parts that they "
                "have compressed. Set list-compress-depth to 0 in redis.conf and restart it, or "
                "use a later version."
            )


async def check_writes(redis: Client) -> None:
    """Check that the server accepts writes at this moment."""
    await required(redis.eval("return redis.call('SET', KEYS[1], 1, 'PX', 1)", 1, write_probe()))


async def required(call: Awaitable[T]) -> T:
    """Await a call that a start needs; raise ServerAway or ConfigurationError if it fails."""
    try:
        answer: T = await answered(call)
    except RedisAway as error:
        kind = ConfigurationError if isinstance(error, RedisRefuses) else ServerAway
        raise kind(
            f"Redis accepts no commands now {explain(error)}. Start the crawl again when it does."
        ) from error
    return answer


def compresses_well(version: str) -> bool:
    """Return whether this version may compress lists.

    Redis 6.2 forgets to compress the part of a list again in which LRANGE ended. It does so later,
    when that part has become an end of the list, and LPUSH and RPUSH write into compressed bytes.
    """
    return int(version.partition(".")[0]) >= _COMPRESSES_WELL


def damages_lists(node: ServerFacts) -> bool:
    """Return whether this server compresses lists and damages them."""
    return bool(node.compress_depth) and not compresses_well(node.version)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about one node. None: the server does not report it."""

    # Version of Redis; Valkey reports the one that it is compatible with.
    version: str
    product: str
    mode: str
    appendonly: str | None
    policy: str | None
    compress_depth: int | None
    used_bytes: int
    max_bytes: int
    round_trip_ms: float
    # How far its clock is ahead of this machine's, seconds.
    ahead_s: float


async def facts(redis: Client) -> list[ServerFacts]:
    """Read the facts of each node that has data of its own."""
    if not hasattr(redis, "get_primaries"):
        return [await _facts(redis)]
    return [await _facts(redis, node) for node in redis.get_primaries()]


async def _facts(redis: Client, node: Any = None) -> ServerFacts:
    at = {} if node is None else {"target_nodes": node}
    server = await redis.info("server", **at)
    memory = await redis.info("memory", **at)
    started = perf_counter()
    seconds, micros = await redis.time(**at)
    spent_s = perf_counter() - started
    depth = await _setting(redis, "list-compress-depth", at)
    return ServerFacts(
        version=str(server["redis_version"]),
        product=_product(server),
        mode=server_mode(server),
        appendonly=await _setting(redis, "appendonly", at),
        policy=await _setting(redis, "maxmemory-policy", at),
        compress_depth=None if depth is None else int(depth),
        used_bytes=int(memory["used_memory"]),
        max_bytes=int(memory["maxmemory"]),
        round_trip_ms=spent_s * 1000,
        ahead_s=seconds + micros / 1e6 - time() + spent_s / 2,
    )


def _product(server: dict[str, Any]) -> str:
    if "valkey_version" in server:
        return f"Valkey {server['valkey_version']}"
    return f"Redis {server['redis_version']}"


async def _setting(redis: Client, name: str, at: dict[str, Any]) -> str | None:
    try:
        answer = await redis.config_get(name, **at)
    except ResponseError:
        return None
    values = [value.decode() if isinstance(value, bytes) else value for value in answer.values()]
    return str(values[0]) if values else None


def write_probe() -> str:
    """Return the key of a string that tests whether writes are accepted; it expires in 1 ms."""
    return "crawler:probe"
