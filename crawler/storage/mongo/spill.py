"""Keep URLs that the frontier has no room for in MongoDB; the fleet shares the collection."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import pymongo
from pymongo import ReplaceOne
from pymongo.errors import PyMongoError

from crawler.errors import ServerAway
from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.servers.mongo import may_pass
from crawler.storage.mongo.schema import LONG_S

if TYPE_CHECKING:
    from pymongo import AsyncMongoClient
    from pymongo.asynchronous.collection import AsyncCollection

    from crawler.servers.health import ServerHealth

logger = logging.getLogger(__name__)

SPILLED = "spilled"


class MongoSpill:
    """URLs of one crawl that wait in MongoDB; see storage/spill.py for the methods."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncMongoClient[dict[str, Any]]]],
        database: str,
        crawl: str,
        health: ServerHealth,
    ) -> None:
        self.health = health
        self._connect = connect
        self._database = database
        self._crawl = crawl
        self._has_index = False

    async def put(self, entries: Sequence[Entry]) -> None:
        collection = await self._collection()
        if not self._has_index:
            await collection.create_index("crawl")
            self._has_index = True
        await collection.bulk_write(
            [
                ReplaceOne(
                    {"_id": self._id(entry)},
                    {"_id": self._id(entry), "crawl": self._crawl, "entry": encode(entry)},
                    upsert=True,
                )
                for entry in entries
            ],
            ordered=False,
        )

    async def some(self, limit: int) -> list[Entry]:
        entries = []
        collection = await self._collection()
        async for document in collection.find({"crawl": self._crawl}, limit=limit):
            try:
                entries.append(decode(document["entry"]))
            except (DamagedEntry, KeyError, TypeError) as error:
                logger.error("A spilled URL cannot be read (%s): %r", error, document)
                await collection.delete_one({"_id": document["_id"]})
        return entries

    async def drop(self, entries: Sequence[Entry]) -> None:
        ids = [self._id(entry) for entry in entries]
        await (await self._collection()).delete_many({"_id": {"$in": ids}})

    @property
    def names(self) -> set[str]:
        return set()

    async def refresh(self) -> None:
        """Take over nothing: the fleet shares the collection."""

    def is_away(self, error: Exception) -> bool:
        if isinstance(error, PyMongoError):
            return may_pass(error)
        return isinstance(error, ServerAway)

    async def close(self) -> None:
        """Close nothing: the connection is shared."""

    async def clear(self) -> None:
        with pymongo.timeout(LONG_S):
            await (await self._collection()).delete_many({"crawl": self._crawl})

    async def _collection(self) -> AsyncCollection[dict[str, Any]]:
        return (await self._connect())[self._database][SPILLED]

    def _id(self, entry: Entry) -> str:
        return f"{self._crawl}:{entry.id:016x}"
