"""Databases of pages as version 1 of the schema had them: without the names of crawls."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pymongo
import zstandard
from pymongo import ASCENDING, HASHED, IndexModel
from pymongo.database import Database

from crawler.urls import fingerprint

AT = datetime(2026, 1, 2, tzinfo=UTC)
# The indexes of set 2; databases of set 1 lack the one by URL.
_METADATA_INDEXES = [
    IndexModel("url_hash", unique=True),
    IndexModel([("url", HASHED)]),
    IndexModel("domain"),
    IndexModel("crawled_at"),
    IndexModel("content_hash"),
    IndexModel("depth"),
    IndexModel("next_crawl"),
    IndexModel([("status", ASCENDING), ("crawled_at", ASCENDING)]),
]
_BATCH = 5000


def url(number: int) -> str:
    return f"http://a.test/{number}"


def metadata(number: int) -> dict[str, Any]:
    """A page that was crawled once, with every field that the version had."""
    return {
        "url_hash": f"{fingerprint(url(number)):016x}",
        "url": url(number),
        "final_url": url(number),
        "status": 200,
        "crawled_at": AT,
        "fetch_ms": 12,
        "depth": 1,
        "priority": 3,
        "parent": "0" * 16,
        "worker": "one",
        "redirects": [],
        "redirect_statuses": [],
        "flags": [],
        "content_type": "text/html",
        "charset": "utf-8",
        "language": "en",
        "title": f"title {number}",
        "description": "",
        "canonical": "",
        "feeds": [],
        "languages": {},
        "headers": {"etag": '"e"'},
        "size_bytes": 4,
        "content_hash": f"hash {number}",
        "simhash": "",
        "duplicate_of": "",
        "duplicate_distance": None,
        "reason": "",
        "error_count": 0,
        "last_error": "",
        "robots_allowed": True,
        "etag": '"e"',
        "last_modified": "",
        "visits": 1,
        "changes": 0,
        "next_crawl": None,
        "extra": {},
        "host": "a.test",
        "domain": "a.test",
        "links_count": 1,
        "links": [url(number + 1)],
        "first_seen": AT,
        "versions": [{"at": AT, "content_hash": f"hash {number}"}],
    }


def content(number: int, body_bytes: int = 4) -> dict[str, Any]:
    body = zstandard.compress(random.Random(number).randbytes(body_bytes))
    return {
        "page_id": f"{fingerprint(url(number)):016x}",
        "crawled_at": AT,
        "codec": "zstd",
        "original_size": body_bytes,
        "compressed_size": len(body),
        "text": f"text {number}",
        "body": body,
    }


def fill(uri: str, name: str, pages: int, body_bytes: int = 4) -> None:
    """Make a database of version 1 with so many pages."""
    with _database(uri, name) as database:
        database["pages_metadata"].create_indexes(_METADATA_INDEXES)
        database["pages_content"].create_index("page_id", unique=True)
        database["pages_schema"].insert_one(
            {"_id": "pages", "version": 1, "indexes": 2, "created_at": AT}
        )
        for first in range(0, pages, _BATCH):
            numbers = range(first, min(first + _BATCH, pages))
            database["pages_content"].insert_many(content(n, body_bytes) for n in numbers)
            database["pages_metadata"].insert_many(map(metadata, numbers))


def check_migrated(uri: str, name: str, pages: int, crawl: str, body_bytes: int = 4) -> None:
    """Assert that all pages are there, once, as they were, and of this crawl."""
    with _database(uri, name) as database:
        (schema,) = database["pages_schema"].find()
        assert (schema["version"], "migration" in schema) == (2, False)
        for collection, key in (("pages_metadata", "url_hash"), ("pages_content", "page_id")):
            assert database[collection].count_documents({}) == pages
            assert database[collection].count_documents({"crawl": crawl}) == pages
            assert len(database[collection].distinct(key)) == pages
            indexes = database[collection].index_information()
            assert f"{key}_1" not in indexes
            assert indexes[f"crawl_1_{key}_1"]["unique"]
        assert "priority_1_next_crawl_1" in database["pages_metadata"].index_information()
        for number in (0, pages // 2, pages - 1):
            for collection, old in (
                ("pages_metadata", metadata(number)),
                ("pages_content", content(number, body_bytes)),
            ):
                found = database[collection].find_one(
                    {name: old[name] for name in ("url_hash", "page_id") if name in old},
                    {"_id": False},
                )
                assert found == {**old, "crawl": crawl}


def state(uri: str, name: str) -> dict[str, Any]:
    """The schema document, with the state of a migration."""
    with _database(uri, name) as database:
        return database["pages_schema"].find_one() or {}


@contextmanager
def _database(uri: str, name: str) -> Iterator[Database[dict[str, Any]]]:
    with pymongo.MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        yield client[name]
