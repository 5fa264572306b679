"""Child process that moves content, and kills itself after the n-th copy.

python -m tests.integration.storage.tiering MONGO_URI DATABASE STORE_URL N
"""

import asyncio
import os
import signal
import sys
from typing import Any

from pymongo import AsyncMongoClient

from crawler.storage.mongo.tiers import Tiering
from crawler.storage.retention import Keep, Retention


class DyingTiering(Tiering):
    """Tiering that dies when so many objects are written."""

    copies = 0

    async def _write(self, copy: Any, storage_class: str) -> Any:
        written = await super()._write(copy, storage_class)
        self.copies -= 1
        if not self.copies:
            os.kill(os.getpid(), signal.SIGKILL)
        return written


async def main(uri: str, database: str, url: str, copies: str) -> None:
    retention = Retention(Keep.from_text("7d/180d/5y"), url)
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        tiering = DyingTiering(client[database], retention, "web", parallel=1)
        tiering.copies = int(copies)
        async for _ in tiering.run():
            pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
