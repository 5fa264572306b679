"""How long does MongoDB take for one page, for 50 of them, and to find, scan and drop pages?

One operation at a time, by the asynchronous client that crawls have, on a private embedded mongod.
A page is what a crawl stores of 26 KB: its content (zstd) and its metadata, with unique indexes. As
in a crawl, a page is in the journal on disk before it counts (j: true). The same without waiting
for the disk (j: false), and what a sync of a small file takes, show how much of it is the disk's.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from time import perf_counter
from typing import Any

import bson
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase

from benchmarks.command import run
from benchmarks.figures import Figure
from benchmarks.servers import private_mongo
from benchmarks.store import pages
from crawler.settings import STORE_WRITE_CONCERN
from crawler.storage.mongo.sink import compressor, documents_of

Document = dict[str, Any]
Database = AsyncDatabase[Document]
# By the name of their figures.
_CONCERNS = {
    "": WriteConcern(**STORE_WRITE_CONCERN),
    "_no_journal": WriteConcern(**{**STORE_WRITE_CONCERN, "j": False}),
}
_BATCH = 50
_SYNC_BYTES = 4096
# Fewer times say nothing about the slow ones.
_P95_OF = 20


@dataclass(frozen=True, slots=True)
class Size:
    """How often a round does each; all of its pages are scanned."""

    singles: int
    batches: int
    finds: int
    scans: int
    rounds: int

    @property
    def pages(self) -> int:
        return self.singles + self.batches * _BATCH


_FULL = Size(singles=500, batches=190, finds=1_000, scans=20, rounds=3)
_QUICK = Size(singles=100, batches=20, finds=200, scans=5, rounds=1)


class Latencies:
    """Times that operations took, by name."""

    def __init__(self) -> None:
        self._took_ms: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measure the block."""
        started_s = perf_counter()
        yield
        self._took_ms[name].append((perf_counter() - started_s) * 1000)

    def figures(self) -> Iterator[Figure]:
        """The median of each operation, and what one in twenty exceeds."""
        for name, took_ms in self._took_ms.items():
            yield Figure(f"latency.{name}_ms", statistics.median(took_ms), "ms")
            if len(took_ms) >= _P95_OF:
                p95_ms = statistics.quantiles(took_ms, n=20)[-1]
                yield Figure(f"latency.{name}_p95_ms", p95_ms, "ms")


def measure(quick: bool) -> Iterator[Figure]:
    """Store pages, find them and drop them, in rounds."""
    size = _QUICK if quick else _FULL
    latencies = Latencies()
    with private_mongo() as mongo:
        asyncio.run(_measure(mongo.url, size, latencies))
    _sync(size.singles, latencies)
    yield from latencies.figures()
    yield Figure("latency.pages_scanned", size.pages, "pages")


async def _measure(uri: str, size: Size, latencies: Latencies) -> None:
    documents = _documents(size.pages)
    async with AsyncMongoClient[Document](uri) as client:
        for number in range(size.rounds):
            database = client[f"round{number}"]
            await database["content"].create_index([("crawl", 1), ("page_id", 1)], unique=True)
            await database["metadata"].create_index([("crawl", 1), ("url_hash", 1)], unique=True)
            await _insert(database, size, documents, latencies)
            await _read(database, size, documents, latencies)
            with latencies.timed("drop"):
                await database["content"].drop()
                await database["metadata"].drop()


def _sync(times: int, latencies: Latencies) -> None:
    """Append to a file and sync it, as a journal does, where the servers have their data."""
    with tempfile.TemporaryFile(prefix="bench-", buffering=0) as file:
        for _ in range(times):
            with latencies.timed("sync"):
                file.write(b"x" * _SYNC_BYTES)
                os.fdatasync(file.fileno())


def _documents(count: int) -> list[tuple[Document, Document]]:
    """Content and metadata of pages."""
    compress = compressor("zstd")
    made = (documents_of(page, "zstd", compress) for page in pages(count, "latency"))
    return [
        (bson.decode(each.content), bson.decode(each.metadata))
        for each in made
        if each.content is not None
    ]


async def _insert(
    database: Database, size: Size, documents: list[tuple[Document, Document]], times: Latencies
) -> None:
    """Insert all pages, some alone and the others in batches, with both concerns in turns."""
    content = database["content"]
    waiting = iter(documents)
    turns = cycle(
        (name, database.get_collection("metadata", write_concern=concern))
        for name, concern in _CONCERNS.items()
    )
    for one_content, one_metadata in islice(waiting, size.singles):
        name, metadata = next(turns)
        with times.timed(f"insert{name}"):
            await content.insert_one(one_content)
            await metadata.insert_one(one_metadata)
    while batch := list(islice(waiting, _BATCH)):
        contents, metadatas = zip(*batch, strict=True)
        name, metadata = next(turns)
        with times.timed(f"batch{name}"):
            await content.insert_many(contents, ordered=False)
            await metadata.insert_many(metadatas, ordered=False)


async def _read(
    database: Database, size: Size, documents: list[tuple[Document, Document]], times: Latencies
) -> None:
    """Find pages by their index, and by a field that has none."""
    metadata = database["metadata"]
    chance = random.Random(1)
    for _ in range(size.finds):
        _, wanted = chance.choice(documents)
        with times.timed("find"):
            found = await metadata.find_one(
                {"crawl": wanted["crawl"], "url_hash": wanted["url_hash"]}
            )
        assert found is not None
    for _ in range(size.scans):
        with times.timed("scan"):
            absent = await metadata.find_one({"title": "of no page"})
        assert absent is None


if __name__ == "__main__":
    sys.exit(run("benchmarks.measurements.latency", __doc__, {"latency": measure}))
