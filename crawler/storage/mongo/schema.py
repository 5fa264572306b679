"""Collections of pages in MongoDB: names, indexes and version.

`pages_metadata` has a document for each URL that was crawled, `pages_content` one for each page
whose content is kept (its `page_id` is the `url_hash` of the metadata). Indexes are made once: the
collection `pages_schema` has the version of the documents and the number of the index set.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pymongo
from pymongo import ASCENDING, HASHED, IndexModel
from pymongo.errors import DuplicateKeyError

from crawler.errors import ConfigurationError, ServerAway
from crawler.servers.mongo import READ_ONLY

if TYPE_CHECKING:
    from pymongo.asynchronous.database import AsyncDatabase

METADATA, CONTENT = "pages_metadata", "pages_content"
# Raised when documents change so that other versions of this program would misread them.
VERSION = 1
# Seconds that an operation on a whole collection may take, whatever MONGO_TIMEOUT is.
LONG_S = 3600.0

_SCHEMA = "pages_schema"
_ID = "pages"
# For people who ask by URL. Hashed: 20 to 40 bytes a page, where the URLs take 50 to 60.
_BY_URL = IndexModel([("url", HASHED)])
_INDEXES = {
    METADATA: [
        IndexModel("url_hash", unique=True),
        _BY_URL,
        IndexModel("domain"),
        IndexModel("crawled_at"),
        IndexModel("content_hash"),
        IndexModel("depth"),
        IndexModel("next_crawl"),
        IndexModel([("status", ASCENDING), ("crawled_at", ASCENDING)]),
    ],
    CONTENT: [IndexModel("page_id", unique=True)],
}
# The number of this set of indexes. Databases of set 1 lack the index by URL.
_INDEX_SET = 2


async def prepare(database: AsyncDatabase[dict[str, Any]]) -> bool:
    """Make the indexes of a new database; returns whether an older one lacks some.

    Raises ConfigurationError for a database of another version.
    """
    found = await check(database)
    if found is not None:
        return bool(found.get("indexes", 1) < _INDEX_SET)
    await make_indexes(database)
    document = {
        "_id": _ID,
        "version": VERSION,
        "indexes": _INDEX_SET,
        "created_at": datetime.now(UTC),
    }
    try:
        await database[_SCHEMA].insert_one(document)
    except DuplicateKeyError:
        # Another process was faster, and may be of another version.
        await check(database)
    return False


async def check_writable(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Raise ServerAway if the server takes no writes now."""
    hello = await database.client.admin.command("hello")
    if not hello.get("isWritablePrimary"):
        raise ServerAway(f"MongoDB cannot be written to: {READ_ONLY}.")


async def check(database: AsyncDatabase[dict[str, Any]]) -> dict[str, Any] | None:
    """Read the schema; None for a new database, ConfigurationError for another version."""
    found = await database[_SCHEMA].find_one({"_id": _ID})
    if found is not None and found["version"] != VERSION:
        raise ConfigurationError(
            f"The database {database.name!r} has pages of version {found['version']}, and this "
            f"program knows version {VERSION}: use the program that wrote them, or another "
            "database (-s MONGO_DATABASE=…)."
        )
    return found


async def make_indexes(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Make all indexes that are missing."""
    with pymongo.timeout(LONG_S):
        for name, indexes in _INDEXES.items():
            await database[name].create_indexes(indexes)


async def add_indexes(database: AsyncDatabase[dict[str, Any]]) -> None:
    """Make the indexes that were added to the list since; slow for many pages.

    Other missing indexes stay missing: somebody dropped them on purpose.
    """
    with pymongo.timeout(LONG_S):
        await database[METADATA].create_indexes([_BY_URL])
    await database[_SCHEMA].update_one({"_id": _ID}, {"$set": {"indexes": _INDEX_SET}})
