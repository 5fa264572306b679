"""Stores that keep the pages of a crawl, as its frontier knows them.

A frontier and its stores belong together: if one of them is empty, or is another one, a crawl that
went on would end with success and less. storage/losses.py compares them.
"""

from __future__ import annotations

from crawler.frontier import keys
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import answered

# How long it is known that people deleted a crawl, and that its pages may be there without it.
_DELETED_S = 30 * 86_400


class KnownStores:
    """Stores of one crawl: name of the sink → what tells the store from one that was made anew."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._key = keys.stores(crawl)
        self._deleted = keys.deleted(crawl)
        self._rebuilding = keys.rebuilding(crawl)

    async def all(self) -> dict[str, str]:
        """Return the stores that processes of the crawl have written to."""
        found = await self._redis.hgetall(self._key)
        return {name.decode(): identity.decode() for name, identity in found.items()}

    async def note(self, name: str, identity: str) -> None:
        """Note a store before the first page is written to it."""
        await answered(self._redis.hset(self._key, name, identity))

    async def begin_rebuild(self) -> None:
        """Note that the frontier is made anew; until that has ended, nobody may crawl."""
        await answered(self._redis.set(self._rebuilding, "1"))

    async def end_rebuild(self) -> None:
        """Note that the frontier is whole."""
        await answered(self._redis.delete(self._rebuilding))

    async def is_rebuilt(self) -> bool:
        """Return whether the frontier is being made anew, or that was interrupted."""
        return bool(await self._redis.exists(self._rebuilding))

    async def begin_anew(self) -> None:
        """Note that people deleted the crawl: it may begin again beside its old pages."""
        await self._redis.set(self._deleted, "1", ex=_DELETED_S)

    async def is_begun_anew(self) -> bool:
        """Return whether people deleted a crawl of this name."""
        return bool(await self._redis.exists(self._deleted))
