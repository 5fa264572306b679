"""Connect to Redis and say in one line what is wrong when that fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from crawler.errors import ConfigurationError

MIN_VERSION = (6, 2)
_CONNECT_TIMEOUT_S = 5


def masked(url: str) -> str:
    """The URL with its password hidden, for messages."""
    return re.sub(r"(://[^:/@]*:)[^@]*@", r"\1***@", url)


async def connect(url: str, params: Mapping[str, Any] | None = None) -> Redis:
    """A client that answered a ping, or ConfigurationError.

    Commands are not retried by the client: the frontier repeats what is safe to repeat.
    """
    where = masked(url)
    try:
        options = {
            "socket_connect_timeout": _CONNECT_TIMEOUT_S,
            "socket_timeout": 30,
            "retry": Retry(NoBackoff(), 0),
            "health_check_interval": 0,
            **(params or {}),
        }
        client = Redis.from_url(url, **options)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"REDIS_URL is {where!r}: {error}. Use redis://host:6379/0, rediss://… or unix:///path."
        ) from error
    try:
        await _check(client, where)
    except (RedisError, OSError) as error:
        await client.aclose()
        raise ConfigurationError(
            f"Redis at {where} does not answer ({error}). "
            "Start it, or correct REDIS_URL; without REDIS_URL an embedded server is started."
        ) from error
    except ConfigurationError:
        await client.aclose()
        raise
    return client


async def _check(client: Redis, where: str) -> None:
    info = await client.info("server")
    version = tuple(int(part) for part in str(info["redis_version"]).split(".")[:2])
    if version < MIN_VERSION:
        raise ConfigurationError(
            f"Redis at {where} is version {info['redis_version']}; 6.2 or later is needed."
        )
