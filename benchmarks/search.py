"""How fast are pages indexed for search, and how fast are they found?

The pages are texts of made-up words with the frequencies of natural language (Zipf), of 365 words
in the median and up to 5,000, with titles. Queries have one to three words, from frequent to rare,
or are a phrase that some page has. Each is one call as `scrapy pages search` makes it: it finds the
best ten of 100,000 pages, counts all, and makes ten snippets.

`index_per_s` is the writer alone, with its commits. The part `mongo` measures `scrapy pages index`
as a whole, from a private embedded mongod with the same texts, and a second run that finds nothing
to do.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import numpy as np
from pymongo import AsyncMongoClient

from benchmarks.command import run
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.servers import private_mongo
from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.search.index import IndexedPage, IndexWriter, SearchSettings
from crawler.storage.search.query import Filters, search
from crawler.storage.search.update import Update

_PAGES, _STORED, _QUERIES = 100_000, 10_000, 1000
_TARGET_PER_S, _TARGET_MS = 2000, 10.0
_VOCABULARY, _LONGEST = 50_000, 5000
_BATCH, _COMMITTED = 100, 20_000
_BEGAN = datetime(2026, 11, 18, tzinfo=UTC)
# Links and headers make metadata as large as those of real pages.
_LINKS = [f"https://www.words.example/library/page/{number}" for number in range(60)]


def vocabulary() -> list[str]:
    """Make words, the most frequent first; those are short."""
    chance = random.Random(1)
    syllables = [first + last for first in "bcdfghklmnprstvw" for last in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < _VOCABULARY:
        length = 1 + min(4, len(words) // 60) if len(words) < 240 else chance.choice((2, 3, 3, 4))
        words["".join(chance.choices(syllables, k=length))] = None
    return list(words)


def pages(count: int, words: list[str]) -> list[IndexedPage]:
    """Make pages of a thousand hosts."""
    chance = np.random.default_rng(1)
    weights = np.cumsum(1 / (np.arange(len(words)) + 2.7))
    lengths = np.minimum(chance.lognormal(5.9, 0.8, count).astype(int) + 5, _LONGEST)
    made = []
    for number, length in enumerate(lengths):
        ranks = np.searchsorted(weights, chance.random(length) * weights[-1])
        text = [words[rank] for rank in ranks]
        made.append(
            IndexedPage(
                crawl="web",
                url_hash=f"{number:016x}",
                crawled_at=_BEGAN + timedelta(milliseconds=5 * number),
                url=f"https://www{number % 1000}.words.example/{text[0]}/{number}",
                title=" ".join(text[:6]).title(),
                text=" ".join(text),
                language="en",
            )
        )
    return made


def queries(count: int, words: list[str], found: list[IndexedPage]) -> Iterator[str]:
    """Make queries, each tenth a phrase."""
    chance = random.Random(2)
    for number in range(count):
        if number % 10 == 0:
            text = chance.choice(found).text.split()
            start = chance.randrange(len(text) - 2)
            yield f'"{text[start]} {text[start + 1]}"'
        else:
            ranks = [int(10 ** chance.uniform(0.5, 4.5)) for _ in range(chance.randint(1, 3))]
            yield " ".join(words[rank] for rank in ranks)


def measure(quick: bool) -> Iterator[Figure]:
    """Index and search."""
    count, asked = (_PAGES // 10, _QUERIES // 10) if quick else (_PAGES, _QUERIES)
    words = vocabulary()
    found = pages(count, words)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        chosen = SearchSettings(Path(folder, "search"))
        started_s = perf_counter()
        with IndexWriter(chosen) as writer:
            for start in range(0, count, _BATCH):
                writer.replace(found[start : start + _BATCH])
                if (start + _BATCH) % _COMMITTED == 0:
                    writer.commit()
            writer.commit()
            took_s = perf_counter() - started_s
        yield Figure(
            "search.index_per_s", count / took_s, "pages/s", target=at_least(_TARGET_PER_S)
        )
        size = sum(path.stat().st_size for path in chosen.folder.iterdir())
        yield Figure("search.bytes_ratio", size / sum(len(page.text) for page in found), "")
        times, totals = [], []
        for text in queries(asked, words, found):
            started_s = perf_counter()
            results = search(chosen.folder, text, Filters())
            times.append((perf_counter() - started_s) * 1000)
            totals.append(results.total)
        print(f"a query matches {median(totals):,.0f} pages in the median", file=sys.stderr)
        p95_ms = quantiles(times, n=20)[-1]
        yield Figure("search.query_ms", p95_ms, "ms", target=at_most(_TARGET_MS))
        yield Figure("search.query_median_ms", median(times), "ms")


def measure_mongo(quick: bool) -> Iterator[Figure]:
    """Index from a store."""
    found = pages(_STORED // 10 if quick else _STORED, vocabulary())
    with private_mongo() as mongo, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        chosen = SearchSettings(Path(folder, "search"))
        first_s, again_s = asyncio.run(_from_mongo(mongo.url, chosen, found))
    yield Figure("search.update_per_s", len(found) / first_s, "pages/s")
    yield Figure("search.compare_per_s", len(found) / again_s, "pages/s")


async def _from_mongo(
    uri: str, chosen: SearchSettings, found: list[IndexedPage]
) -> tuple[float, float]:
    async with AsyncMongoClient[dict[str, object]](uri, tz_aware=True) as client:
        database = client["search"]
        await schema.make_indexes(database)
        for start in range(0, len(found), 1000):
            some = found[start : start + 1000]
            await database[schema.METADATA].insert_many([_metadata(page) for page in some])
            await database[schema.CONTENT].insert_many([_content(page) for page in some])
        took_s = []
        for _ in range(2):
            started_s = perf_counter()
            with IndexWriter(chosen) as writer:
                update = Update(writer, MongoReader(database))
                async for _ in update.run():
                    pass
            took_s.append(perf_counter() - started_s)
            assert update.counts.compared == len(found)
    return took_s[0], took_s[1]


def _metadata(page: IndexedPage) -> dict[str, object]:
    return {
        "crawl": page.crawl,
        "url": page.url,
        "url_hash": page.url_hash,
        "crawled_at": page.crawled_at,
        "title": page.title,
        "language": page.language,
        "status": 200,
        "reason": "",
        "duplicate_of": "",
        "size_bytes": 26_000,
        "links": _LINKS,
    }


def _content(page: IndexedPage) -> dict[str, object]:
    return {
        "crawl": page.crawl,
        "page_id": page.url_hash,
        "crawled_at": page.crawled_at,
        "codec": "none",
        # A body of a page is larger than its text, and compressed to about as much.
        "body": page.text.encode(),
        "text": page.text,
    }


PARTS = {"index": measure, "mongo": measure_mongo}

if __name__ == "__main__":
    sys.exit(run("benchmarks.search", __doc__, PARTS))
