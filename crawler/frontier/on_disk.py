"""Processes that keep a part of the crawl on their disks: pages in a spool, or spilled URLs.

A crawl is not over while there are any, wherever they run. A process registers before it writes the
first record to its disk, and whoever has dealt with the last one removes it.
"""

from __future__ import annotations

from crawler.frontier import keys
from crawler.servers.redis.connection import Client


class OnDisk:
    """Registry of one crawl: owner of files → where they are, for people."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._key = keys.on_disk(crawl)

    async def register(self, owner: str, place: str) -> None:
        """Note that an owner is about to write to its disk."""
        await self._redis.hset(self._key, owner, place)

    async def remove(self, *owners: str) -> None:
        """Note that nothing of these owners is on a disk any more."""
        if owners:
            await self._redis.hdel(self._key, *owners)

    async def places(self) -> dict[str, str]:
        """Return all owners and their places."""
        found = await self._redis.hgetall(self._key)
        return {owner.decode(): place.decode() for owner, place in found.items()}
