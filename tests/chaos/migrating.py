"""A process that prepares a database of pages, as a crawl does before its first write.

python -m tests.chaos.migrating URI DATABASE CRAWL BATCH LOCK_MS
"""

import asyncio
import logging
import sys
from typing import Any

from pymongo import AsyncMongoClient

from crawler.storage.mongo import schema


async def main(uri: str, name: str, crawl: str, batch: int, lock_ms: int) -> None:
    schema._BATCH = batch
    schema._LOCK_END = {"$add": ["$$NOW", lock_ms]}
    schema._RENEW_S = lock_ms / 4000
    async with AsyncMongoClient[dict[str, Any]](uri) as client:
        await schema.prepare(client[name], crawl)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(main(*sys.argv[1:4], *map(int, sys.argv[4:])))
