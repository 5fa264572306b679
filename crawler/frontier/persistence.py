"""Refuse to crawl on a Redis that would lose or evict the frontier."""

from __future__ import annotations

import logging

from redis.exceptions import ResponseError

from crawler.errors import ConfigurationError
from crawler.frontier.connection import Client

logger = logging.getLogger(__name__)

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
