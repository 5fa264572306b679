"""Read seeds that others push to Redis, as in scrapy-redis: a list, a set or a sorted set."""

import logging
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.exceptions import ResponseError

from crawler.servers.redis.connection import UNLOCK, Client
from crawler.servers.redis.errors import RedisAway, executed

logger = logging.getLogger(__name__)

Command = tuple[Any, ...]

_READ_MAX = 1000
# Longer than reading, adding and removing take. A process that dies with the lock delays others.
_ALONE_MS = 30_000
# Commands that read elements, and that remove one. The highest of a sorted set come first.
_READS: dict[str, Callable[[str, int], Command]] = {
    "list": lambda key, limit: ("LRANGE", key, 0, limit - 1),
    "set": lambda key, limit: ("SRANDMEMBER", key, limit),
    "zset": lambda key, limit: ("ZREVRANGE", key, 0, limit - 1),
}
_REMOVALS: dict[str, Callable[[str, bytes], Command]] = {
    "list": lambda key, element: ("LREM", key, 1, element),
    "set": lambda key, element: ("SREM", key, element),
    "zset": lambda key, element: ("ZREM", key, element),
}


class StartUrls:
    """Seeds that were pushed to one key. They stay there until they are dropped."""

    def __init__(self, redis: Client, key: str) -> None:
        self._redis = redis
        self.key = key
        # The first push decides on the type; an empty key may have another type the next time.
        self._kind = "list"
        self._has_warned = False

    async def read(self, limit: int = _READ_MAX) -> list[bytes]:
        """Return the next URLs."""
        try:
            return await self._read(limit)
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        self._kind = (await self._redis.type(self.key)).decode()
        if self._kind in _READS:
            return await self._read(limit)
        if self._kind != "none" and not self._has_warned:
            self._has_warned = True
            logger.error(
                "The key %r in Redis is a %s, and seeds are pushed to a list, a set or a sorted "
                "set: delete it, or set REDIS_START_URLS_KEY to another one",
                *(self.key, self._kind),
            )
        self._kind = "list"
        return []

    async def drop(self, urls: Iterable[bytes]) -> None:
        """Remove URLs that were read and added, by value: others push at the same time."""
        pipeline = self._redis.pipeline()
        for url in urls:
            pipeline.execute_command(*_REMOVALS[self._kind](self.key, url))
        await executed(pipeline)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Lock the key during the block; yield whether this process has the lock."""
        key, token = f"{self.key}:lock", uuid.uuid4().hex
        is_alone = bool(await self._redis.set(key, token, nx=True, px=_ALONE_MS))
        try:
            yield is_alone
        finally:
            if is_alone:
                # The lock also expires by itself.
                with suppress(*RedisAway):
                    await self._redis.eval(UNLOCK, 1, key, token)

    async def _read(self, limit: int) -> list[bytes]:
        answer: Any = await self._redis.execute_command(*_READS[self._kind](self.key, limit))
        return list(answer)
