"""Refuse to crawl on a Redis that would lose, evict or damage the frontier, or is not writable."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import NamedTuple, TypeVar

from crawler.errors import ConfigurationError, ServerAway
from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.errors import RedisAway, RedisRefuses, answered, told
from crawler.frontier.server_facts import ServerFacts, facts

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The first version that compresses lists and does them no harm.
_COMPRESSES_WELL = 7


class Needed(NamedTuple):
    """A setting, where the server's facts have it, the value it needs, and the risk without."""

    name: str
    fact: str
    value: str
    risk: str


NEEDED = (
    Needed("appendonly", "appendonly", "yes", "a restart would lose the frontier"),
    Needed("maxmemory-policy", "policy", "noeviction", "URLs and host clocks could be evicted"),
)


async def check(redis: Client) -> None:
    """Make sure that the server keeps what it acknowledges, every node of a cluster."""
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
                "This Redis does not tell its %s; make sure that it is %s, or %s",
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
    """Make sure that the server takes what a crawl writes at this moment."""
    await taken(redis.eval("return redis.call('SET', KEYS[1], 1, 'PX', 1)", 1, keys.write_probe()))


async def taken(asked: Awaitable[T]) -> T:
    """Await what a start asks of Redis; ServerAway or ConfigurationError if it does not do it."""
    try:
        answer: T = await answered(asked)
    except RedisAway as error:
        kind = ConfigurationError if isinstance(error, RedisRefuses) else ServerAway
        raise kind(
            f"Redis takes nothing now {told(error)}. Start the crawl again when it does."
        ) from error
    return answer


def compresses_well(version: str) -> bool:
    """May lists be compressed by this version?

    Redis 6.2 forgets to compress a part again that LRANGE ended in, and does so later, when the
    part has become an end of the list, where LPUSH and RPUSH then write into compressed bytes.
    """
    return int(version.partition(".")[0]) >= _COMPRESSES_WELL


def damages_lists(node: ServerFacts) -> bool:
    """Does this server compress lists, and harm them?"""
    return bool(node.compress_depth) and not compresses_well(node.version)
