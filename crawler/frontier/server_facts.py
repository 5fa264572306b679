"""What a Redis says of itself: version, what it keeps, memory, time. Of a cluster: every node."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter, time
from typing import Any

from redis.exceptions import ResponseError

from crawler.frontier.connection import Client, server_mode


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """One node. None: the server does not tell."""

    # Of Redis; Valkey has one of its own, and tells the one that it is compatible with.
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
    """Ask each node that has data of its own."""
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
