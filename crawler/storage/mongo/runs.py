"""Records of runs in MongoDB: the collection `jobs`, a document for each process of a crawl."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne
from pymongo.operations import DeleteMany, UpdateMany

from crawler.storage.runs import LOST, LOST_AFTER, RUNNING, Run, WantedRuns

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

JOBS = "jobs"
# Ids begin with the time of the start.
_BY_CRAWL = IndexModel([("crawl", ASCENDING), ("_id", DESCENDING)])
_FIELDS = tuple(field.name for field in fields(Run) if field.name != "id")


class MongoRuns:
    """Writer and reader of the runs of one database. The `_id` of a document is that of the run."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]]) -> None:
        self._jobs = database[JOBS]
        self._has_index = False

    async def record(self, run: Run) -> None:
        """Write a run, mark those of its crawl that are lost, and delete those that are too old."""
        if not self._has_index:
            await self._jobs.create_indexes([_BY_CRAWL])
            self._has_index = True
        document = asdict(run)
        chosen = {"_id": document.pop("id")}
        of_crawl = {"crawl": run.crawl}
        silent = {**of_crawl, "state": RUNNING, "seen": {"$lt": run.lost_before}}
        await self._jobs.bulk_write(
            [
                UpdateOne(chosen, {"$set": document}, upsert=True),
                UpdateMany(silent, [{"$set": {"state": LOST, "ended": "$seen"}}]),
                DeleteMany({**of_crawl, "seen": {"$lt": run.forgotten_before}}),
            ]
        )

    async def find(self, wanted: WantedRuns) -> list[Run]:
        """Return the runs that are wanted, the newest first."""
        found = self._jobs.find(_filter(wanted), sort=[("_id", DESCENDING)])
        return [_run(each).as_of(wanted.now) async for each in found.limit(wanted.limit)]

    async def get(self, run_id: str, now: datetime) -> Run | None:
        """Return one run; None if there is no record of it."""
        found = await self._jobs.find_one({"_id": run_id})
        return None if found is None else _run(found).as_of(now)


def _filter(wanted: WantedRuns) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if wanted.crawl is not None:
        parts.append({"crawl": wanted.crawl})
    if wanted.since is not None:
        parts.append({"started": {"$gte": wanted.since}})
    silent_since = wanted.now - LOST_AFTER
    if wanted.state == RUNNING:
        parts.append({"state": RUNNING, "seen": {"$gte": silent_since}})
    elif wanted.state == LOST:
        silent = {"state": RUNNING, "seen": {"$lt": silent_since}}
        parts.append({"$or": [{"state": LOST}, silent]})
    elif wanted.state is not None:
        parts.append({"state": wanted.state})
    return {"$and": parts} if parts else {}


def _run(document: dict[str, Any]) -> Run:
    """Make the run of a document; fields of later versions are left out."""
    known = {name: document[name] for name in _FIELDS if name in document}
    return Run(id=document["_id"], **known)
