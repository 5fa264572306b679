"""Connect to Redis (a server, Sentinel or a cluster) and say in one line what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    RedisClusterException,
    RedisError,
    ResponseError,
)

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.frontier.errors import CutOff, RedisAway, RedisRefuses, translated
from crawler.frontier.quick_sends import quick
from crawler.masking import without_secrets
from crawler.scrapy_redis_settings import ADDRESS

# A server's or a cluster's client. Any: redis-py types every answer as bytes or str, and without
# decode_responses it is bytes.
Client = Any

MIN_VERSION = (6, 2)
_CONNECTIONS = 32
# Seconds. Two beats: what the other masters have goes on soon after one of them hangs.
_OF_A_CLUSTER = {"socket_connect_timeout": 4, "socket_timeout": 4}
_SENTINEL = "redis+sentinel"
# One that is silent is passed over at once: the next knows the master too.
_SENTINEL_OPTIONS: dict[str, Any] = {
    "socket_connect_timeout": 1,
    "socket_timeout": 1,
    "retry": Retry(NoBackoff(), 0),
}
_WAYS = (
    "Use redis://host:6379/0, rediss://…, unix:///path or "
    "redis+sentinel://host:26379,host:26379/service/0."
)


class Cluster(RedisCluster):
    """A cluster whose connections may be closed while they are in use, see CutOff."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().execute_command(*args, **kwargs)
        except CutOff as error:
            raise translated(error) from error


def masked(url: str) -> str:
    """The URL with its password hidden, for messages."""
    # Up to the last @ of the word: a password may have one.
    return re.sub(r"(://[^\s:/@]*:)\S*@", r"\1***@", url)


async def connect(url: str, params: Mapping[str, Any] | None = None) -> Client:
    """A client that answered, or ServerAway, or ConfigurationError for one that it refuses.

    Commands are not repeated by the client: the frontier repeats what is safe to repeat.
    """
    where = masked(url)
    params = {name: value for name, value in (params or {}).items() if name not in ADDRESS}
    if params.get("decode_responses"):
        raise ConfigurationError("REDIS_PARAMS has decode_responses: take it out, URLs are bytes.")
    options: dict[str, Any] = {
        "socket_connect_timeout": 5,
        "socket_timeout": 30,
        "retry": Retry(NoBackoff(), 0),
        **params,
    }
    try:
        client = _client(url, options)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"REDIS_URL is {where!r}: {error}. {_WAYS}") from error
    try:
        info = await client.info("server")
        _check_version(str(info["redis_version"]), where)
        if server_mode(info) == "cluster":
            await client.aclose()
            # Without retries here too: with them a pipeline that fails at one node closes the
            # connections to all of them, under the hands of whoever uses those.
            options |= {**_OF_A_CLUSTER, **params}
            return await Cluster.from_url(url, **options)
    except TypeError as error:
        # Made when it is first used; the address was read before.
        raise ConfigurationError(
            f"REDIS_PARAMS is {without_secrets(str(params))}; redis-py does not take it: {error}."
        ) from error
    except (RedisError, RedisClusterException, OSError) as error:
        await client.aclose()
        raise _start_error(error, where) from error
    except CrawlerError:
        await client.aclose()
        raise
    return client


def _start_error(error: Exception, where: str) -> CrawlerError:
    """What a server that could not be used means for a start."""
    known = translated(error) if isinstance(error, ResponseError) else error
    if isinstance(known, RedisRefuses) or not isinstance(known, RedisAway):
        return ConfigurationError(
            f"Redis at {where} refuses ({error}). Correct REDIS_URL: user, password and number "
            "are written as redis://user:password@host:6379/0."
        )
    return ServerAway(
        f"Redis at {where} does not answer ({error}). "
        "Start it, or correct REDIS_URL; without REDIS_URL an embedded server is started."
    )


def server_mode(info: Mapping[str, Any]) -> str:
    """What a server says it is: "standalone", "sentinel" or "cluster". Valkey has its own word."""
    return str(info.get("redis_mode") or info.get("server_mode") or "standalone")


def _client(url: str, options: dict[str, Any]) -> Client:
    if not url.startswith(f"{_SENTINEL}://"):
        # Waits for a free connection; the plain pool would fail when many calls come at once.
        pool = BlockingConnectionPool.from_url(url, max_connections=_CONNECTIONS, **options)
        pool.connection_class = quick(pool.connection_class)
        return Redis.from_pool(pool)
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("the name of the service is missing")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    addresses = [(host, int(port or 26379)) for host, _, port in (h.partition(":") for h in hosts)]
    if parts.password:
        options |= {"username": parts.username or None, "password": parts.password}
    asked = {**_SENTINEL_OPTIONS, **options.pop("sentinel_kwargs", {})}
    sentinel: Any = Sentinel(addresses, sentinel_kwargs=asked)  # type: ignore[no-untyped-call]
    return sentinel.master_for(service, db=int(database or 0), **options)


def _check_version(text: str, where: str) -> None:
    if tuple(int(part) for part in text.split(".")[:2]) < MIN_VERSION:
        raise ConfigurationError(f"Redis at {where} is version {text}; 6.2 or later is needed.")
