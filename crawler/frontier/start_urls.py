"""Seeds that others push to Redis, as with scrapy-redis: to a list, a set or a sorted set."""

from __future__ import annotations

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
# More than reading, adding and removing take. A process that dies with the lock holds others up.
_ALONE_MS = 30_000
# How elements are read, and how one of them is removed. Of a sorted set the highest come first.
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
    """What was pushed to one key. What was read stays there until it is dropped."""

    def __init__(self, redis: Client, key: str) -> None:
        self._redis = redis
        self.key = key
        # Whoever pushes first decides; a key that is empty may be another kind next time.
        self._kind = "list"
        self._told = False

    async def read(self, limit: int = _READ_MAX) -> list[bytes]:
        """The next URLs."""
        try:
            return await self._read(limit)
        except ResponseError as error:
            if not str(error).startswith("WRONGTYPE"):
                raise
        self._kind = (await self._redis.type(self.key)).decode()
        if self._kind in _READS:
            return await self._read(limit)
        if self._kind != "none" and not self._told:
            self._told = True
            logger.error(
                "The key %r in Redis is a %s, and seeds are pushed to a list, a set or a sorted "
                "set: delete it, or set REDIS_START_URLS_KEY to another one",
                *(self.key, self._kind),
            )
        self._kind = "list"
        return []

    async def drop(self, urls: Iterable[bytes]) -> None:
        """Remove URLs that were read and added. By value: others push at the same time."""
        pipeline = self._redis.pipeline()
        for url in urls:
            pipeline.execute_command(*_REMOVALS[self._kind](self.key, url))
        await executed(pipeline)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[bool]:
        """Is this process the only one that takes elements in, until the end of the block?"""
        key, token = f"{self.key}:lock", uuid.uuid4().hex
        is_alone = bool(await self._redis.set(key, token, nx=True, px=_ALONE_MS))
        try:
            yield is_alone
        finally:
            if is_alone:
                # It ends by itself, too.
                with suppress(*RedisAway):
                    await self._redis.eval(UNLOCK, 1, key, token)

    async def _read(self, limit: int) -> list[bytes]:
        answer: Any = await self._redis.execute_command(*_READS[self._kind](self.key, limit))
        return list(answer)
