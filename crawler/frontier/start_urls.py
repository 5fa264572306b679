"""Seeds that others push to the Redis list `<spider>:start_urls`, as scrapy-redis knows it."""

from __future__ import annotations

from collections.abc import Iterable

from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.errors import executed

_READ_MAX = 1000


class StartUrls:
    """The list of one spider. What was read stays there until it is dropped."""

    def __init__(self, redis: Client, spider: str) -> None:
        self._redis = redis
        self._key = keys.start_urls(spider)

    async def read(self, limit: int = _READ_MAX) -> list[bytes]:
        """The next URLs."""
        return list(await self._redis.lrange(self._key, 0, limit - 1))

    async def drop(self, urls: Iterable[bytes]) -> None:
        """Remove URLs that were read and added. By value: others push at the same time."""
        pipeline = self._redis.pipeline()
        for url in urls:
            pipeline.lrem(self._key, 1, url)
        await executed(pipeline)
