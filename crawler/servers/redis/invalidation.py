"""Tell all processes on a Redis to drop an entry of a cache that they have in memory.

Caches that Redis shares among all crawls, such as robots.txt rules, are in the memory of each
process too. Whoever deletes an entry in Redis calls `invalidate`; every process reads the notes
about once a second and drops its copy. A process that could not read for so long that notes may be
missing drops all copies: they are read from Redis again.

invalidated  stream  the last NOTES_MAX notes: name of the cache, name of the entry
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

from crawler.servers.redis.errors import RedisAway, answered
from crawler.util.per_crawler import shared
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

_KEY = "invalidated"
NOTES_MAX = 1000
# A change applies in the whole fleet within 2 s. Reading is one small reply.
_READ_S = 1.0

# Drops an entry from the memory of this process; None stands for all entries.
Drop = Callable[[str | None], None]


async def invalidate(redis: Client, cache: str, names: Sequence[str]) -> None:
    """Let every process drop these entries of a cache; they are deleted in Redis by now."""
    for name in names:
        await answered(
            redis.xadd(_KEY, {"cache": cache, "name": name}, maxlen=NOTES_MAX, approximate=False)
        )


class InvalidationReader:
    """Reader of the notes, for the caches of one crawl in this process."""

    def __init__(self) -> None:
        self._drops: dict[str, Drop] = {}
        # The first time, all notes are read: dropping too much does no harm.
        self._last = "0-0"
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, crawler: Crawler) -> InvalidationReader:
        """Return the reader that all caches of a crawl share."""
        return shared(cls, crawler, lambda: cls.from_crawler(crawler))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        reader = cls()
        crawler.signals.connect(reader.close, signals.engine_stopped)
        return reader

    def open(self, redis: Client, cache: str, drop: Drop) -> None:
        """Drop entries of this cache from now on."""
        self._drops[cache] = drop
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read_forever(redis))

    async def close(self) -> None:
        """Read no more."""
        if self._task is not None:
            await end(self._task)

    async def read(self, redis: Client) -> None:
        """Apply the notes that came since the last call."""
        notes = await redis.xrange(_KEY, min=f"({self._last}", count=NOTES_MAX)
        if not notes:
            return
        if len(notes) == NOTES_MAX:
            for drop in self._drops.values():
                drop(None)
        else:
            for _, note in notes:
                self._apply(note)
        self._last = notes[-1][0].decode()

    def _apply(self, note: dict[bytes, Any]) -> None:
        cache, name = note.get(b"cache", b"").decode(), note.get(b"name", b"").decode()
        if cache in self._drops:
            logger.debug("Dropping %s from the cache %r: it was forgotten", name, cache)
            self._drops[cache](name)

    async def _read_forever(self, redis: Client) -> None:
        while True:
            try:
                await self.read(redis)
            except RedisAway:
                # The heartbeat logs it.
                pass
            except Exception:
                logger.exception("Reading invalidated cache entries failed; trying again")
            await asyncio.sleep(_READ_S)
