"""Connect to Redis (a server, Sentinel or a cluster) and say in one line what is wrong.

Short commands are sent without a task for each: on Python 3.11 redis-py starts one for the time
limit of a send. What the transport takes at once needs no limit; its answer has one, as ever.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import (
    RedisClusterException,
    RedisError,
    ResponseError,
)

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.servers.redis.errors import CutOff, RedisAway, RedisRefuses, translated
from crawler.servers.redis.settings import ADDRESS
from crawler.util.secrets import without_secrets

# A server's or a cluster's client. Any: redis-py types every answer as bytes or str, and without
# decode_responses it is bytes.
Client = Any

MIN_VERSION = (6, 2)
_CONNECTIONS = 32
# Seconds in which a server must answer, by default: a quarter of the usual LEASE_TTL.
TIMEOUT_S = 7.5
_CONNECT_S = 5.0
# Seconds. Two beats: what the other masters have goes on soon after one of them hangs.
_CLUSTER_S = 4.0
# By the names that redis-py has for them.
_TIME_LIMITS = frozenset({"socket_timeout", "socket_connect_timeout"})
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


async def connect(
    url: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Client:
    """A client that answered, or ServerAway, or ConfigurationError for one that it refuses.

    Commands are not repeated by the client: the frontier repeats what is safe to repeat. None waits
    longer than `timeout_s` for its answer, whatever the URL and the parameters say.
    """
    where = masked(url)
    params = {name: value for name, value in (params or {}).items() if name not in ADDRESS}
    if params.get("decode_responses"):
        raise ConfigurationError("REDIS_PARAMS has decode_responses: take it out, URLs are bytes.")
    limits = time_limits(url, params)
    url = _without_time_limits(url)
    options: dict[str, Any] = {
        "retry": Retry(NoBackoff(), 0),
        **params,
        **_bounded(limits, timeout_s, timeout_s),
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
            options |= _bounded(limits, _CLUSTER_S, timeout_s)
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


def time_limits(url: str, params: Mapping[str, Any]) -> dict[str, float]:
    """The time limits that a URL or else the parameters have for redis-py, in seconds."""
    given = {**params, **dict(parse_qsl(url.partition("?")[2]))}
    found = {}
    for name in _TIME_LIMITS & given.keys():
        try:
            # None is redis-py's word for no limit.
            found[name] = math.inf if given[name] is None else float(given[name])
        except (TypeError, ValueError):
            found[name] = math.nan
        if not found[name] > 0:
            raise ConfigurationError(
                f"{name} is {given[name]!r} in REDIS_URL or REDIS_PARAMS; give seconds."
            )
    return found


def _without_time_limits(url: str) -> str:
    """The URL without those: in redis-py they win over any others."""
    address, mark, query = url.partition("?")
    kept = [pair for pair in parse_qsl(query) if pair[0] not in _TIME_LIMITS]
    return address + (mark and f"?{urlencode(kept)}")


def _bounded(limits: Mapping[str, float], default_s: float, longest_s: float) -> dict[str, float]:
    """The time limits of a connection: those that were given or the default, and none longer."""
    usual = {"socket_timeout": default_s, "socket_connect_timeout": min(default_s, _CONNECT_S)}
    return {name: min(limit_s, longest_s) for name, limit_s in {**usual, **limits}.items()}


def server_mode(info: Mapping[str, Any]) -> str:
    """What a server says it is: "standalone", "sentinel" or "cluster". Valkey has its own word."""
    return str(info.get("redis_mode") or info.get("server_mode") or "standalone")


def _client(url: str, options: dict[str, Any]) -> Client:
    if not url.startswith(f"{_SENTINEL}://"):
        # Waits for a free connection, but no longer than for an answer; the plain pool would fail
        # when many calls come at once.
        waits = {"max_connections": _CONNECTIONS, "timeout": options["socket_timeout"]}
        pool = BlockingConnectionPool.from_url(url, **{**options, **waits})
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


# Below what makes a writer wait for the other side, asyncio's high-water mark of 64 KiB.
_AT_ONCE_BYTES = 32 * 1024


class QuickSends(AbstractConnection):
    """A connection of any kind, see quick()."""

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        limit_s = self.socket_timeout
        if self._goes_at_once(command):
            self.socket_timeout = None
        try:
            await super().send_packed_command(command, check_health)
        finally:
            self.socket_timeout = limit_s

    def _goes_at_once(self, command: Any) -> bool:
        writer = self._writer
        # Checks of its health wait for answers, and so does connecting.
        if writer is None or not self.is_connected or self.health_check_interval:
            return False
        if not isinstance(command, list):
            return False
        waiting: int = writer.transport.get_write_buffer_size()
        return waiting + sum(map(len, command)) < _AT_ONCE_BYTES


def quick(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """The same kind of connection, which sends so."""
    return type(f"Quick{kind.__name__}", (QuickSends, kind), {})


# KEYS[1] the lock, ARGV[1] the token: one that expired and is another's by now stays.
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
# The same; ARGV[2] ms that it holds from now on.
LOCK_ON = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
)
