"""Connections to Redis and MongoDB, shared by all components of a crawl.

Where the user named no server, an embedded one is started in CRAWL_DIR.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pymongo import AsyncMongoClient
from pymongo.errors import ConfigurationError as MongoConfigurationError
from pymongo.errors import InvalidURI, OperationFailure, PyMongoError
from scrapy import signals

from crawler.embedded import EmbeddedServers
from crawler.embedded.keeper import Keeper
from crawler.errors import ConfigurationError, CrawlerError
from crawler.frontier import RedisAway, persistence
from crawler.frontier.connection import Client, connect, masked
from crawler.scrapy_redis_settings import redis_url
from crawler.storage.trouble import explain, start_error
from crawler.tasks import within

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

_MONGO_TIMEOUT_MS = 5000
_CLOSE_S = 2.0
# Several lines a command or connection at DEBUG: nobody who debugs a spider wants them.
for _name in ("pymongo", "redis"):
    logging.getLogger(_name).setLevel(logging.INFO)


class Servers:
    """Opens each connection when it is first asked for, and closes them when the engine stops."""

    def __init__(
        self,
        folder: Path,
        *,
        redis_url: str | None,
        redis_params: dict[str, Any],
        mongo_uri: str | None,
        require_persistence: bool = True,
    ) -> None:
        self._embedded = EmbeddedServers(folder)
        self._keeper = Keeper(self._embedded)
        self._redis_url = redis_url
        self._redis_params = redis_params
        self._mongo_uri = mongo_uri
        self._require_persistence = require_persistence
        self._redis: Client = None
        self._mongo: AsyncMongoClient[dict[str, Any]] | None = None
        self._lock = asyncio.Lock()

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(
            Path(settings["CRAWL_DIR"]),
            redis_url=redis_url(settings),
            redis_params=settings.getdict("REDIS_PARAMS"),
            mongo_uri=settings["MONGO_URI"],
            require_persistence=settings.getbool("REQUIRE_PERSISTENCE"),
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        servers = cls.from_settings(crawler.settings)
        if servers._redis_url is None:  # noqa: SLF001 - of this class
            # Here, since the command looks whether it answers before the crawl does.
            logger.info(
                "No REDIS_URL: the frontier is in an embedded server, in %s",
                crawler.settings["CRAWL_DIR"],
            )
        crawler.signals.connect(servers.close, signals.engine_stopped)
        return servers

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The instance that serves this crawl."""
        servers = crawler.get_extension(cls)
        if servers is None:
            raise ConfigurationError(
                "The extension crawler.extensions.servers.Servers is off; the frontier needs it."
            )
        return servers

    async def redis(self) -> Client:
        """The connection to Redis; ServerAway or ConfigurationError with what to do."""
        async with self._lock:
            if self._redis is None:
                url = self._redis_url
                if url is None:
                    url = await self._start(self._embedded.redis_url)
                redis = await connect(url, self._redis_params)
                try:
                    if self._require_persistence:
                        await persistence.taken(persistence.check(redis))
                except CrawlerError:
                    await within(_CLOSE_S, redis.aclose())
                    raise
                self._redis = redis
            return self._redis

    async def mongo(self) -> AsyncMongoClient[dict[str, Any]]:
        """The connection to MongoDB; ServerAway or ConfigurationError with what to do."""
        async with self._lock:
            if self._mongo is None:
                uri = self._mongo_uri or await self._start(self._embedded.mongo_uri)
                self._mongo = await _connect_mongo(uri)
            return self._mongo

    async def check(self, pages_store: str) -> None:
        """Make sure that the servers answer, starting embedded ones, which stay until release()."""
        try:
            await persistence.check_writes(await self.redis())
            if pages_store == "mongo":
                await self.mongo()
        finally:
            await self._disconnect()

    def release(self) -> None:
        """Give up the embedded servers; their last user stops them. Blocking."""
        self._embedded.release()

    async def close(self) -> None:
        """Close the connections, and give up the embedded servers."""
        await self._disconnect()
        await asyncio.to_thread(self.release)

    async def _disconnect(self) -> None:
        """In bounded time: clients say goodbye to their servers, which may be away."""
        await self._keeper.stop()
        redis, mongo, self._redis, self._mongo = self._redis, self._mongo, None, None
        try:
            hung_up = await within(_CLOSE_S, *([] if redis is None else [redis.aclose()]))
            if mongo is not None:
                hung_up &= await _hang_up(mongo)
            if not hung_up:
                logger.info(
                    "A server did not hang up within %.0f s; its connection is cut", _CLOSE_S
                )
        except (PyMongoError, OSError, *RedisAway) as error:
            logger.info("A connection could not be closed: %s", error)

    async def _start(self, start: Any) -> str:
        # A crawl that fails while it opens never stops the engine; release() may be repeated.
        atexit.register(self._embedded.release)
        url = str(await asyncio.to_thread(start))
        self._keeper.start()
        return url


async def _connect_mongo(uri: str) -> AsyncMongoClient[dict[str, Any]]:
    where = masked(uri)
    try:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(
            uri, serverSelectionTimeoutMS=_MONGO_TIMEOUT_MS, tz_aware=True
        )
    except (InvalidURI, MongoConfigurationError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"MONGO_URI is {where!r}: {error}. Use mongodb://host:27017/."
        ) from error
    try:
        await client.admin.command("ping")
    except PyMongoError as error:
        await _hang_up(client)
        trouble = "refuses" if isinstance(error, OperationFailure) else "does not answer"
        raise start_error(
            error,
            f"MongoDB at {where} {trouble} ({explain(error)}). Start it, correct MONGO_URI, or "
            "write pages to a file instead: -s PAGES_STORE=none -O pages.jsonl",
        ) from error
    return client


async def _hang_up(client: AsyncMongoClient[dict[str, Any]]) -> bool:
    """Close a client; False if its server did not answer in time."""
    if await within(_CLOSE_S, client.close()):
        return True
    # By now it has no sessions to end: the second time it closes its sockets, and asks nobody.
    await within(_CLOSE_S, client.close())
    return False
