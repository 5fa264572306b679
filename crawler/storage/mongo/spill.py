"""Keep URLs that the frontier has no room for in MongoDB, and give them back later.

The fleet shares the collection. A URL is written before the lease of its page is settled, and
removed after the frontier has it: it is always in one of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pymongo
from pymongo import ReplaceOne

from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.storage.mongo.schema import LONG_S

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection

logger = logging.getLogger(__name__)


class Spill:
    """URLs of one crawl that wait in MongoDB."""

    def __init__(self, collection: AsyncCollection[dict[str, Any]], crawl: str) -> None:
        self._collection = collection
        self._crawl = crawl

    async def put(self, entries: Sequence[Entry]) -> None:
        """Keep URLs; a URL that is kept already is not kept twice."""
        await self._collection.bulk_write(
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
        """Read some URLs; they stay until dropped. Damaged ones are logged and deleted."""
        entries = []
        async for document in self._collection.find({"crawl": self._crawl}, limit=limit):
            try:
                entries.append(decode(document["entry"]))
            except (DamagedEntry, KeyError, TypeError) as error:
                logger.error("A spilled URL cannot be read (%s): %r", error, document)
                await self._collection.delete_one({"_id": document["_id"]})
        return entries

    async def drop(self, entries: Sequence[Entry]) -> None:
        """Delete URLs that the frontier has now."""
        ids = [self._id(entry) for entry in entries]
        await self._collection.delete_many({"_id": {"$in": ids}})

    async def clear(self) -> None:
        """Delete all URLs of a crawl that is deleted itself."""
        with pymongo.timeout(LONG_S):
            await self._collection.delete_many({"crawl": self._crawl})

    def _id(self, entry: Entry) -> str:
        return f"{self._crawl}:{entry.id:016x}"
