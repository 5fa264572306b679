"""Count what a database of pages has."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from crawler.storage.schema import CONTENT, METADATA
from crawler.storage.stored_pages import KEPT

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

_MOST = 10
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Overview:
    """All of one database. The dicts have the most frequent first."""

    urls: int = 0
    pages: int = 0
    duplicates: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    # Of the bodies as they were fetched, and of all that is stored, on the server's disk.
    fetched_bytes: int = 0
    disk_bytes: int = 0
    first_crawled: datetime | None = None
    last_crawled: datetime | None = None


async def overview(database: AsyncDatabase[Document]) -> Overview:
    """Reads all metadata, and no content."""
    metadata = database[METADATA]
    total = await _one(
        metadata.aggregate(
            [
                {
                    "$group": {
                        "_id": None,
                        "urls": {"$sum": 1},
                        "first": {"$min": "$crawled_at"},
                        "last": {"$max": "$crawled_at"},
                        "duplicates": {"$sum": {"$cond": [{"$gt": ["$duplicate_of", ""]}, 1, 0]}},
                    }
                }
            ]
        )
    )
    kept = await _one(
        metadata.aggregate(
            [
                {"$match": KEPT},
                {"$group": {"_id": None, "n": {"$sum": 1}, "bytes": {"$sum": "$size_bytes"}}},
            ]
        )
    )
    disk_bytes = 0
    for name in (METADATA, CONTENT):
        found = await database.command("collStats", name)
        disk_bytes += int(found["storageSize"] + found["totalIndexSize"])
    return Overview(
        urls=total.get("urls", 0),
        pages=kept.get("n", 0),
        duplicates=total.get("duplicates", 0),
        statuses=await _most(database, "status", {}),
        reasons=await _most(database, "reason", {"reason": {"$gt": ""}}),
        domains=await _most(database, "domain", {}),
        fetched_bytes=kept.get("bytes", 0),
        disk_bytes=disk_bytes,
        first_crawled=total.get("first"),
        last_crawled=total.get("last"),
    )


async def _most(database: AsyncDatabase[Document], name: str, match: Document) -> dict[Any, int]:
    cursor = await database[METADATA].aggregate(
        [
            {"$match": match},
            {"$group": {"_id": f"${name}", "n": {"$sum": 1}}},
            {"$sort": {"n": -1, "_id": 1}},
            {"$limit": _MOST},
        ]
    )
    return {each["_id"]: each["n"] async for each in cursor}


async def _one(cursor: Any) -> Document:
    """The only document of an aggregation, or none."""
    found: list[Document] = await (await cursor).to_list()
    return found[0] if found else {}
