"""What MongoDB has of a URL, if it is there: the rest of the API does not wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from pymongo.errors import PyMongoError

from crawler.errors import CrawlerError
from crawler.storage.stored_pages import StoredPages

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.extensions.servers import Servers

logger = logging.getLogger(__name__)

# A server that does not answer is asked again after so long.
_AGAIN_S = 10.0
_ANSWER_S = 2.0


class Pages:
    """The stored pages; connects when it is first asked."""

    @classmethod
    def of_settings(cls, settings: BaseSettings, servers: Servers) -> Self:
        """Those of the settings' database."""
        folder = Path(settings["CRAWL_DIR"], "mongo")
        # An embedded server would make an empty one.
        if settings["PAGES_STORE"] != "mongo" or not (settings["MONGO_URI"] or folder.is_dir()):
            return cls()

        async def connect() -> StoredPages:
            return StoredPages((await servers.mongo())[settings["MONGO_DATABASE"]])

        return cls(connect)

    def __init__(self, connect: Callable[[], Awaitable[StoredPages]] | None = None) -> None:
        """`connect` is None where pages are not stored in MongoDB."""
        self._connect = connect
        self._stored: StoredPages | None = None
        self._away_until = 0.0

    async def of(self, url: str) -> tuple[dict[str, Any] | None, str]:
        """The record of a canonical URL, or None and why there is none."""
        if self._connect is None:
            return None, "Pages are not stored in MongoDB (PAGES_STORE)."
        if monotonic() < self._away_until:
            return None, "MongoDB does not answer."
        try:
            async with asyncio.timeout(_ANSWER_S):
                if self._stored is None:
                    self._stored = await self._connect()
                page = await self._stored.metadata(url)
        except (PyMongoError, CrawlerError, TimeoutError) as error:
            self._away_until = monotonic() + _AGAIN_S
            logger.warning("Admin API: MongoDB does not answer: %s", error)
            return None, "MongoDB does not answer."
        return page, "" if page is not None else "It is not stored."
