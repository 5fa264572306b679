"""Connect to Redis and MongoDB, once for all components of a crawl.

If the user named no server, an embedded one is started in CRAWL_DIR.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.errors import InvalidURI, OperationFailure, PyMongoError
from scrapy import signals

from crawler import config
from crawler import settings as ours
from crawler.errors import ConfigurationError, CrawlerError
from crawler.servers.certificates import refused_certificate
from crawler.servers.embedded import EmbeddedServers
from crawler.servers.embedded.servers import Watchdog
from crawler.servers.health import mongo_health, postgres_health
from crawler.servers.mongo import explain, start_error
from crawler.servers.postgres import Database
from crawler.servers.redis import checks, connection
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.servers.redis.settings import redis_url
from crawler.util.tasks import within

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Time limits for finding a MongoDB, and for connecting to it.
_SELECT_MS, _CONNECT_MS = 5000, 20_000
# pymongo is so late to say why it found none.
_LATE_S = 1.0
_CLOSE_S = 2.0
# Calls that must fit into LEASE_TTL: a claim that times out and holds up a beat, that beat and the
# next one, and a beat that is answered.
_WAITS_IN_A_TTL = 4
# A busy machine sometimes needs so many seconds. With a short LEASE_TTL fewer such calls fit.
_REDIS_MIN_S = 1.0
# At DEBUG they log several lines for each command: too much for people who debug a spider.
for _name in ("pymongo", "redis"):
    logging.getLogger(_name).setLevel(logging.INFO)


class Servers:
    """Connections of a crawl. Each is opened at its first use and closed when the engine stops."""

    def __init__(
        self,
        folder: Path,
        *,
        redis_url: str | None,
        redis_params: dict[str, Any],
        mongo_uri: str | None,
        redis_timeout_s: float,
        mongo_timeout_s: float,
        require_persistence: bool = True,
    ) -> None:
        self._embedded = EmbeddedServers(folder)
        self._watchdog = Watchdog(self._embedded)
        self._redis_url = redis_url
        self._redis_params = redis_params
        self._mongo_uri = mongo_uri
        self._redis_timeout_s = redis_timeout_s
        self._mongo_timeout_s = mongo_timeout_s
        self._require_persistence = require_persistence
        # Shared by all who use MongoDB.
        self.mongo_health = mongo_health()
        # Of the first PostgreSQL of SINKS.
        self.postgres_health = postgres_health()
        self._redis: Client = None
        self._mongo: AsyncMongoClient[dict[str, Any]] | None = None
        self._databases: dict[tuple[str, float], Database] = {}
        self._lock = asyncio.Lock()

    @classmethod
    def from_settings(cls, settings: BaseSettings, *, mongo_timeout_s: float | None = None) -> Self:
        """Read the settings; `mongo_timeout_s` replaces MONGO_TIMEOUT."""
        return cls(
            Path(config.value(settings, "CRAWL_DIR")),
            redis_url=redis_url(settings),
            redis_params=config.value(settings, "REDIS_PARAMS"),
            mongo_uri=config.value(settings, "MONGO_URI"),
            redis_timeout_s=redis_limit_s(settings),
            mongo_timeout_s=mongo_timeout_s or config.value(settings, "MONGO_TIMEOUT"),
            require_persistence=config.value(settings, "REQUIRE_PERSISTENCE"),
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        servers = cls.from_settings(crawler.settings)
        if servers._redis_url is None:  # noqa: SLF001 - of this class
            # Here, since commands check the server before the crawl begins.
            logger.info(
                "No REDIS_URL: the frontier is in an embedded server, in %s",
                config.value(crawler.settings, "CRAWL_DIR"),
            )
        servers._log_unused_limits()  # noqa: SLF001 - of this class
        crawler.signals.connect(servers.close, signals.engine_stopped)
        return servers

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Return the instance of this crawl."""
        servers = crawler.get_extension(cls)
        if servers is None:
            raise ConfigurationError(
                "The extension crawler.servers.connections.Servers is off; the frontier needs it."
            )
        return servers

    async def redis(self) -> Client:
        """Return the connection to Redis; ServerAway and ConfigurationError name the remedy."""
        async with self._lock:
            if self._redis is None:
                url = self._redis_url
                if url is None:
                    url = await self._start(self._embedded.redis_url)
                redis = await connection.connect(
                    url, self._redis_params, timeout_s=self._redis_timeout_s
                )
                try:
                    if self._require_persistence:
                        await checks.required(checks.check(redis))
                except CrawlerError:
                    await within(_CLOSE_S, redis.aclose())
                    raise
                self._redis = redis
            return self._redis

    async def mongo(self) -> AsyncMongoClient[dict[str, Any]]:
        """Return the connection to MongoDB; ServerAway and ConfigurationError name the remedy."""
        async with self._lock:
            if self._mongo is None:
                uri = self._mongo_uri or await self._start(self._embedded.mongo_uri)
                self._mongo = await _connect_mongo(uri, self._mongo_timeout_s)
            return self._mongo

    def postgres(self, url: str, timeout_s: float) -> Database:
        """Return a PostgreSQL, the same for all who ask; it is connected to when first used."""
        return self._databases.setdefault((url, timeout_s), Database(url, timeout_s))

    @asynccontextmanager
    async def checked(self, *, mongo: bool) -> AsyncIterator[Client]:
        """Check that the servers answer and accept writes, and connect to Redis for the block.

        Embedded servers are started, and run until release().
        """
        try:
            redis = await self.redis()
            await checks.check_writes(redis)
            if mongo:
                await self.mongo()
            yield redis
        finally:
            await self._disconnect()

    def release(self) -> None:
        """Stop using the embedded servers; their last user stops them. This blocks."""
        self._embedded.release()

    async def close(self) -> None:
        """Close the connections, and stop using the embedded servers."""
        await self._disconnect()
        await asyncio.to_thread(self.release)

    async def _disconnect(self) -> None:
        """Close the connections, in bounded time: clients sign off, and servers may be away."""
        await self._watchdog.stop()
        redis, mongo, self._redis, self._mongo = self._redis, self._mongo, None, None
        databases, self._databases = self._databases, {}
        try:
            closed = await within(_CLOSE_S, *([] if redis is None else [redis.aclose()]))
            if mongo is not None:
                closed &= await _close_mongo(mongo)
            for database in databases.values():
                await database.close()
            if not closed:
                logger.info(
                    "A server did not sign off within %.0f s; its connection is cut", _CLOSE_S
                )
        except (PyMongoError, OSError, *RedisAway) as error:
            logger.info("A connection could not be closed: %s", error)

    def _log_unused_limits(self) -> None:
        """Log which time limits of the user are too long and therefore not used."""
        given = connection.time_limits(self._redis_url or "", self._redis_params)
        for name, limit_s in given.items():
            if limit_s > self._redis_timeout_s:
                logger.warning(
                    "%s of REDIS_URL or REDIS_PARAMS is longer than REDIS_TIMEOUT and a quarter of "
                    "LEASE_TTL allow: %g s are used",
                    *(name, self._redis_timeout_s),
                )

    async def _start(self, start: Any) -> str:
        # If a crawl fails while it opens, the engine never stops. release() may be repeated.
        atexit.register(self._embedded.release)
        url = str(await asyncio.to_thread(start))
        self._watchdog.start()
        return url


def redis_limit_s(settings: BaseSettings) -> float:
    """Return the seconds in which Redis must answer, or raise ConfigurationError."""
    wanted_s: float = config.value(settings, "REDIS_TIMEOUT")
    ttl_s: float = config.value(settings, "LEASE_TTL")
    longest_s = max(ttl_s / _WAITS_IN_A_TTL, _REDIS_MIN_S)
    if wanted_s > longest_s and wanted_s != ours.REDIS_TIMEOUT:
        raise ConfigurationError(
            f"REDIS_TIMEOUT is {wanted_s:g} and LEASE_TTL {ttl_s:g}: a connection that goes silent "
            f"would cost a process its leases. Set REDIS_TIMEOUT to {longest_s:g} or less, or "
            f"LEASE_TTL to {wanted_s * _WAITS_IN_A_TTL:g} or more."
        )
    return min(wanted_s, longest_s)


async def _connect_mongo(uri: str, timeout_s: float) -> AsyncMongoClient[dict[str, Any]]:
    where, timeout_ms = connection.masked(uri), max(1, round(timeout_s * 1000))
    try:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            uri,
            tz_aware=True,
            # These replace the ones of the URI. By default pymongo waits forever.
            socketTimeoutMS=timeout_ms,
            waitQueueTimeoutMS=timeout_ms,
            connectTimeoutMS=min(timeout_ms, _CONNECT_MS),
            serverSelectionTimeoutMS=min(timeout_ms, _SELECT_MS),
        )
    except (InvalidURI, MongoConfigurationError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"MONGO_URI is {where!r}: {error}. Use mongodb://host:27017/."
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"MONGO_URI is {where!r}: {error.filename or 'a file of it'} cannot be read "
            f"({error.strerror or error})."
        ) from error
    try:
        # A limit of its own: operations may have more time.
        async with asyncio.timeout(min(timeout_ms, _CONNECT_MS) / 1000 + _LATE_S):
            await client.admin.command("ping")
    except (PyMongoError, TimeoutError) as error:
        await _close_mongo(client)
        if (untrusted := refused_certificate(error)) is not None:
            raise ConfigurationError(
                f"MongoDB at {where}: {untrusted}. Name the file of the authority that signed it "
                "in MONGO_URI, ?tls=true&tlsCAFile=FILE, and the server as its certificate does."
            ) from error
        trouble = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        why = explain(error) if isinstance(error, PyMongoError) else "it is silent"
        raise start_error(
            error,
            f"MongoDB at {where} {trouble} ({why}). Start it, correct MONGO_URI, or "
            "write pages to a file instead: -s SINKS=none -o pages.jsonl",
        ) from error
    return client


async def _close_mongo(client: AsyncMongoClient[dict[str, Any]]) -> bool:
    """Close a client; return False if its server did not answer in time."""
    if await within(_CLOSE_S, client.close()):
        return True
    # Its sessions are ended by now, so the second call only closes its sockets.
    await within(_CLOSE_S, client.close())
    return False
