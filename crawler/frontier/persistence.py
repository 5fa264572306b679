"""Refuse to crawl on a Redis that would lose or evict the frontier, or takes nothing now."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from redis.exceptions import ResponseError

from crawler.errors import ConfigurationError
from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.errors import RedisAway, answered, told

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Setting of the server, the value it needs, and what happens without.
NEEDED = (
    ("appendonly", "yes", "a restart would lose the frontier"),
    ("maxmemory-policy", "noeviction", "URLs and host clocks could be evicted"),
)


async def check(redis: Client) -> None:
    """Make sure that the server keeps what it acknowledges."""
    for name, needed, risk in NEEDED:
        try:
            answer = await redis.config_get(name)
        except ResponseError:
            logger.warning(
                "This Redis does not tell its %s; make sure that it is %s, or %s",
                name,
                needed,
                risk,
            )
            continue
        for found in _values(answer, name):
            if found != needed:
                raise ConfigurationError(
                    f"Redis has {name} {found}: {risk}. Run `redis-cli config set {name} {needed}` "
                    "and put it into redis.conf, or accept it with REQUIRE_PERSISTENCE=0."
                )


async def check_writes(redis: Client) -> None:
    """Make sure that the server takes what a crawl writes at this moment."""
    await taken(redis.eval("return redis.call('SET', KEYS[1], 1, 'PX', 1)", 1, keys.write_probe()))


async def taken(writing: Awaitable[T]) -> T:
    """Await what a start writes, or ConfigurationError with what to do."""
    try:
        answer: T = await answered(writing)
    except RedisAway as error:
        raise ConfigurationError(
            f"Redis takes nothing now {told(error)}. Start the crawl again when it does."
        ) from error
    return answer


def _values(answer: dict[object, object], name: str) -> set[str]:
    """The setting's values: one of a server, one of each node of a cluster."""
    nodes = answer.values() if any(isinstance(v, dict) for v in answer.values()) else [answer]
    found = set()
    for node in nodes:
        assert isinstance(node, dict)
        for key, value in node.items():
            if _text(key) == name:
                found.add(_text(value))
    return found


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
