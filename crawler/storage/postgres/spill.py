"""Keep URLs that the frontier has no room for in PostgreSQL; the fleet shares the table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.servers.postgres import may_pass
from crawler.storage.postgres import schema

if TYPE_CHECKING:
    from crawler.servers.health import ServerHealth
    from crawler.servers.postgres import Connection, Database

logger = logging.getLogger(__name__)

# Rows are locked in the order of their keys: two processes never wait for each other in a circle.
_PUT = """
INSERT INTO spilled (crawl, url_hash, entry)
SELECT %s, * FROM unnest(%s::text[], %s::bytea[])
ON CONFLICT (crawl, url_hash) DO UPDATE SET entry = excluded.entry
"""
_SOME = "SELECT url_hash, entry FROM spilled WHERE crawl = %s LIMIT %s"
_DROP = """
WITH chosen AS MATERIALIZED (
    SELECT crawl, url_hash FROM spilled WHERE crawl = %s AND url_hash = ANY (%s)
    ORDER BY url_hash FOR UPDATE)
DELETE FROM spilled USING chosen
WHERE spilled.crawl = chosen.crawl AND spilled.url_hash = chosen.url_hash
"""
_CLEAR = "DELETE FROM spilled WHERE crawl = %s"


class PostgresSpill:
    """URLs of one crawl that wait in PostgreSQL; see storage/spill.py for the methods."""

    def __init__(self, database: Database, crawl: str, health: ServerHealth) -> None:
        self.health = health
        self._database = database
        self._crawl = crawl
        self._is_prepared = False

    async def put(self, entries: Sequence[Entry]) -> None:
        # Each once: a statement may change a row only once.
        new = dict(sorted((_id(entry), encode(entry)) for entry in entries))
        await self._execute(_PUT, self._crawl, list(new), list(new.values()))

    async def some(self, limit: int) -> list[Entry]:
        await self._prepare()

        async def read(connection: Connection) -> list[tuple[str, bytes]]:
            rows = await connection.execute(_SOME, [self._crawl, limit])
            return [(url_hash, bytes(entry)) for url_hash, entry in await rows.fetchall()]

        entries, damaged = [], []
        for url_hash, data in await self._database.run(read):
            try:
                entries.append(decode(data))
            except DamagedEntry as error:
                logger.error("A spilled URL cannot be read (%s): %r", error, data)
                damaged.append(url_hash)
        if damaged:
            await self._execute(_DROP, self._crawl, damaged)
        return entries

    async def drop(self, entries: Sequence[Entry]) -> None:
        await self._execute(_DROP, self._crawl, [_id(entry) for entry in entries])

    @property
    def names(self) -> set[str]:
        return set()

    async def refresh(self) -> None:
        """Take over nothing: the fleet shares the table."""

    def is_away(self, error: Exception) -> bool:
        return may_pass(error)

    async def close(self) -> None:
        await self._database.close()

    async def clear(self) -> None:
        await self._execute(_CLEAR, self._crawl, limit_s=schema.LONG_S)

    async def _prepare(self) -> None:
        if not self._is_prepared:
            await schema.prepare(self._database)
            self._is_prepared = True

    async def _execute(self, statement: str, *values: object, limit_s: float | None = None) -> None:
        await self._prepare()

        async def work(connection: Connection) -> None:
            await connection.execute(statement, values)

        await self._database.run(work, limit_s=limit_s)


def _id(entry: Entry) -> str:
    return f"{entry.id:016x}"
