"""Connect to Redis: a server, Sentinel or a cluster. Errors say in one line what is wrong.

Short commands are sent without a time limit: on Python 3.11 redis-py starts a task for the limit of
each send. If the transport accepts a command at once, the send needs no limit; the answer has one.
Commands are packed by hiredis, as by redis-py's synchronous client: in a fifth of the time.
"""

import math
import re
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import hiredis
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
from crawler.servers.certificates import refused_certificate
from crawler.servers.redis.errors import RedisAway, RedisRefuses, answered, translated
from crawler.servers.redis.sentinel import MasterPool
from crawler.servers.redis.settings import ADDRESS
from crawler.util.secrets import without_secrets

# A server's or a cluster's client. Any: redis-py types every answer as bytes or str, and without
# decode_responses it is bytes.
Client = Any

MIN_VERSION = (6, 2)
_CONNECTIONS = 32
# Default for the seconds in which a server must answer: a quarter of the usual LEASE_TTL.
TIMEOUT_S = 7.5
_CONNECT_S = 5.0
# Seconds in which a cluster's master must answer, two beats: the others go on soon if one hangs.
_CLUSTER_S = 4.0
# Names of the time limits in redis-py.
_TIME_LIMITS = frozenset({"socket_timeout", "socket_connect_timeout"})
_SENTINEL = "redis+sentinel"
# A silent Sentinel is skipped at once: the next one knows the master too.
_SENTINEL_OPTIONS: dict[str, Any] = {
    "socket_connect_timeout": 1,
    "socket_timeout": 1,
    "retry": Retry(NoBackoff(), 0),
}
_URL_FORMS = (
    "Use redis://host:6379/0, rediss://…, unix:///path or "
    "redis+sentinel://host:26379,host:26379/service/0."
)


class Single(Redis):
    """Client of one server, or of a Sentinel's master; temporary refusals are RedisAway."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        command: Awaitable[Any] = super().execute_command(*args, **kwargs)  # type: ignore[no-untyped-call]
        return await answered(command)


class Cluster(RedisCluster):
    """Client of a cluster whose connections may be closed while they are in use, see CutOff."""

    async def execute_command(self, *args: Any, **kwargs: Any) -> Any:
        return await answered(super().execute_command(*args, **kwargs))


def masked(url: str) -> str:
    """Hide the secrets of a URL, for messages."""
    # The password up to the last @ of the word, since it may contain one.
    return without_secrets(re.sub(r"(://[^\s:/@]*:)\S*@", r"\1***@", url))


async def connect(
    url: str, params: Mapping[str, Any] | None = None, *, timeout_s: float = TIMEOUT_S
) -> Client:
    """Return a client whose server answered, or raise ServerAway or ConfigurationError.

    The client does not repeat commands: the frontier repeats what is safe to repeat. No command
    waits longer than `timeout_s` for its answer, whatever the URL and the parameters say.
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
        raise ConfigurationError(f"REDIS_URL is {where!r}: {error}. {_URL_FORMS}") from error
    try:
        info = await client.info("server")
        _check_version(str(info["redis_version"]), where)
        if server_mode(info) == "cluster":
            await client.aclose()
            # Without retries, too: with them a pipeline that fails at one node closes the
            # connections to all nodes while others use them.
            options |= _bounded(limits, _CLUSTER_S, timeout_s)
            return await Cluster.from_url(url, **options)
    except TypeError as error:
        # The connection is made at its first use; the address was read before.
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
    """Return the error of a start for a server that could not be used."""
    known = translated(error) if isinstance(error, ResponseError) else error
    if (trouble := refused_certificate(error)) is not None:
        return ConfigurationError(
            f"Redis at {where}: {trouble}. Name the file of the authority that signed it in "
            "REDIS_URL, rediss://host:6379/0?ssl_ca_certs=FILE, and the server as its certificate "
            "does."
        )
    if where.startswith("rediss") and "No such file" in str(error):
        return ConfigurationError(
            f"Redis at {where}: a file of its TLS does not exist. Correct ssl_ca_certs, "
            "ssl_certfile and ssl_keyfile in REDIS_URL or REDIS_PARAMS."
        )
    if isinstance(known, RedisRefuses) or not isinstance(known, RedisAway):
        return ConfigurationError(
            f"Redis at {where} refuses ({error}). Correct REDIS_URL: user, password and number "
            "are written as redis://user:…@host:6379/0."
        )
    return ServerAway(
        f"Redis at {where} does not answer ({error}). "
        "Start it, or correct REDIS_URL (rediss:// if it has TLS, else redis://); without "
        "REDIS_URL an embedded server is started."
    )


def time_limits(url: str, params: Mapping[str, Any]) -> dict[str, float]:
    """Return the time limits in the URL or else in the parameters, in seconds."""
    given = {**params, **dict(parse_qsl(url.partition("?")[2]))}
    found = {}
    for name in _TIME_LIMITS & given.keys():
        try:
            # In redis-py None means no limit.
            found[name] = math.inf if given[name] is None else float(given[name])
        except (TypeError, ValueError):
            found[name] = math.nan
        if not found[name] > 0:
            raise ConfigurationError(
                f"{name} is {given[name]!r} in REDIS_URL or REDIS_PARAMS; give seconds."
            )
    return found


def _without_time_limits(url: str) -> str:
    """Remove the time limits from a URL: in redis-py they override all others."""
    address, mark, query = url.partition("?")
    kept = [pair for pair in parse_qsl(query) if pair[0] not in _TIME_LIMITS]
    return address + (mark and f"?{urlencode(kept)}")


def _bounded(limits: Mapping[str, float], default_s: float, longest_s: float) -> dict[str, float]:
    """Return the time limits of a connection: given or default, and none above `longest_s`."""
    usual = {"socket_timeout": default_s, "socket_connect_timeout": min(default_s, _CONNECT_S)}
    return {name: min(limit_s, longest_s) for name, limit_s in {**usual, **limits}.items()}


def server_mode(info: Mapping[str, Any]) -> str:
    """Return "standalone", "sentinel" or "cluster". Valkey has its own name for the field."""
    return str(info.get("redis_mode") or info.get("server_mode") or "standalone")


def _client(url: str, options: dict[str, Any]) -> Client:
    if not url.startswith(f"{_SENTINEL}://"):
        # This pool waits for a free connection, but no longer than for an answer. The plain pool
        # fails when many calls come at once.
        waits = {"max_connections": _CONNECTIONS, "timeout": options["socket_timeout"]}
        pool = BlockingConnectionPool.from_url(url, **{**options, **waits})
        pool.connection_class = quick(pool.connection_class)
        return Single.from_pool(pool)
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
    return sentinel.master_for(
        service,
        redis_class=Single,
        connection_pool_class=MasterPool,
        db=int(database or 0),
        **options,
    )


def _check_version(text: str, where: str) -> None:
    if tuple(int(part) for part in text.split(".")[:2]) < MIN_VERSION:
        raise ConfigurationError(f"Redis at {where} is version {text}; 6.2 or later is needed.")


# Less than asyncio's high-water mark of 64 KiB, above which a writer waits for the other side.
_AT_ONCE_BYTES = 32 * 1024


class QuickSends(AbstractConnection):
    """Mixin of a connection that packs commands in C, and sends short ones without a time limit."""

    def pack_command(self, *args: Any) -> list[bytes]:
        # Names of commands may have two words, which the server expects apart.
        name = args[0].encode() if isinstance(args[0], str) else args[0]
        try:
            return [hiredis.pack_command((*name.split(), *args[1:]))]
        except TypeError:
            # An argument that hiredis does not know.
            return super().pack_command(*args)

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
        # Health checks and connecting wait for answers.
        if writer is None or not self.is_connected or self.health_check_interval:
            return False
        if not isinstance(command, list):
            return False
        waiting: int = writer.transport.get_write_buffer_size()
        return waiting + sum(map(len, command)) < _AT_ONCE_BYTES


def quick(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return this class of connections with QuickSends."""
    return type(f"Quick{kind.__name__}", (QuickSends, kind), {})


# Release a lock: KEYS[1] the lock, ARGV[1] its token. A lock that expired may be another's by now.
UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"
# Extend a lock: the same, and ARGV[2] the ms for which it holds from now on.
LOCK_ON = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"
)
