"""Read the records of runs from the table `crawl_jobs`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from crawler.storage.runs import LOST, LOST_AFTER, RUNNING, Run, WantedRuns

# Field of a run → its column, where they differ: `user` is a word of SQL.
_COLUMNS = {"crawl": "name", "user": "user_name"}
_FIELDS = tuple(Run.__dataclass_fields__)
_SELECT = f"SELECT {', '.join(_COLUMNS.get(name, name) for name in _FIELDS)} FROM crawl_jobs"  # noqa: S608 - our own names

# Returns the rows of a query with these values.
Ask = Callable[[str, Sequence[Any]], Awaitable[list[tuple[Any, ...]]]]


class PostgresRuns:
    """Reader of the runs of one catalogue."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def find(self, wanted: WantedRuns) -> list[Run]:
        """Return the runs that are wanted, the newest first."""
        where, values = _filter(wanted)
        # Ids begin with the time of the start.
        query = f"{_SELECT} WHERE {where} ORDER BY id DESC LIMIT %s"
        found = await self._ask(query, [*values, wanted.limit])
        return [Run(*row).as_of(wanted.now) for row in found]

    async def get(self, run_id: str, now: datetime) -> Run | None:
        """Return one run; None if there is no record of it."""
        # PostgreSQL takes no NUL in a text.
        if "\0" in run_id:
            return None
        found = await self._ask(f"{_SELECT} WHERE id = %s", [run_id])
        return Run(*found[0]).as_of(now) if found else None


def _filter(wanted: WantedRuns) -> tuple[str, list[Any]]:
    parts: list[str] = ["true"]
    values: list[Any] = []
    silent_since = wanted.now - LOST_AFTER
    if wanted.crawl is not None:
        parts.append("name = %s")
        values.append(wanted.crawl.replace("\0", ""))
    if wanted.since is not None:
        parts.append("started >= %s")
        values.append(wanted.since)
    if wanted.state == RUNNING:
        parts.append("state = %s AND seen >= %s")
        values += [RUNNING, silent_since]
    elif wanted.state == LOST:
        parts.append("(state = %s OR state = %s AND seen < %s)")
        values += [LOST, RUNNING, silent_since]
    elif wanted.state is not None:
        parts.append("state = %s")
        values.append(wanted.state)
    return " AND ".join(parts), values
