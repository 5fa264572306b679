"""Sinks for tests: one in memory that can be away, slow or choosy, and one in an SQLite file."""

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from crawler.items import Page
from crawler.storage import Results, Sink


def page(number: int, **fields: Any) -> Page:
    """A page whose URL ends with this number."""
    url = f"http://a.test/{number}"
    values: dict[str, Any] = {
        "crawled_at": datetime(2026, 1, 2, tzinfo=UTC),
        "status": 200,
        "body": b"body",
        "size_bytes": 4,
        "crawl": "web",
        **fields,
    }
    return Page(url=url, final_url=url, **values)


class MemorySink(Sink):
    """Keeps pages by URL, and counts how often each was written."""

    def __init__(self, *, bodies: bool = False) -> None:
        super().__init__()
        self.keeps_bodies = bodies  # type: ignore[misc]
        self.pages: dict[str, Page] = {}
        # Places that each page had when it was written.
        self.places: dict[str, Any] = {}
        self.writes: list[str] = []
        self.is_open = False
        self.error: Exception | None = None
        self.refused: set[str] = set()
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def open(self) -> None:
        self.is_open = True

    async def write(self, pages: Sequence[Page]) -> Results | None:
        await self.is_free.wait()
        if self.error is not None:
            raise self.error
        results: dict[int, Any] = {}
        for i, page in enumerate(pages):
            if page.url in self.refused:
                results[i] = ValueError(f"{page.url} is refused")
                continue
            self.pages[page.url] = page
            self.places[page.url] = dict(page.places)
            self.writes.append(page.url)
            if self.keeps_bodies:
                results[i] = {"file": "x.warc.gz", "offset": len(self.writes)}
        return results

    async def close(self) -> None:
        self.is_open = False


class SqliteSink(Sink):
    """Keeps the newest record of each page in a table, as a sink of a user's would."""

    async def open(self) -> None:
        self.database = sqlite3.connect(self.target, check_same_thread=False, timeout=0.1)
        with self.database:
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS pages (crawl, url_hash, url, status, body, items, "
                "writes DEFAULT 1, PRIMARY KEY (crawl, url_hash))"
            )

    async def write(self, pages: Sequence[Page]) -> None:
        await asyncio.to_thread(self._write, pages)

    def _write(self, pages: Sequence[Page]) -> None:
        rows = [
            (
                *(page.crawl, page.url_hash, page.url, page.status, page.body),
                json.dumps(list(page.items)),
            )
            for page in pages
        ]
        with self.database:
            self.database.executemany(
                "INSERT INTO pages (crawl, url_hash, url, status, body, items) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (crawl, url_hash) DO UPDATE SET "
                "status = excluded.status, body = excluded.body, writes = writes + 1",
                rows,
            )

    async def close(self) -> None:
        self.database.close()

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError)
