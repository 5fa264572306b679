"""Keep screenshots of rendered pages, in a folder or an object store.

A screenshot is named after its crawl and its page: <crawl>/<2 digits>/<url_hash>.webp. The next
visit of the page replaces it. One that cannot be kept is left out, and its page says so. Pictures
are worth less than pages: no page waits for long, and none is fetched again for its picture.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from crawler import config
from crawler.errors import CrawlerError
from crawler.servers.objects import ObjectStore
from crawler.storage.objects import folder_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

# Seconds for one screenshot.
_DEADLINE_S = 10.0


class Screenshots:
    """Place of the screenshots of a crawl."""

    def __init__(self, where: Path | ObjectStore, count: Callable[[str], None]) -> None:
        self._where = where
        self._count = count
        self._is_logged = False

    @classmethod
    def from_settings(cls, settings: BaseSettings, count: Callable[[str], None]) -> Self:
        """Make the place that RENDER_SCREENSHOTS names."""
        given = config.value(settings, "RENDER_SCREENSHOTS")
        if given and "://" in given:
            return cls(ObjectStore.from_url(given, what="RENDER_SCREENSHOTS"), count)
        folder = Path(given or Path(config.value(settings, "CRAWL_DIR"), "screenshots"))
        return cls(folder.absolute(), count)

    async def put(self, crawl: str, url_hash: str, image: bytes) -> str:
        """Keep the screenshot of a page; return where it is, or nothing if it cannot be kept."""
        name = f"{folder_name(crawl)}/{url_hash[:2]}/{url_hash}.webp"
        try:
            async with asyncio.timeout(_DEADLINE_S):
                if isinstance(self._where, ObjectStore):
                    await self._where.put(name, image)
                    place = f"{self._where.url.rstrip('/')}/{name}"
                else:
                    place = str(self._where / name)
                    await asyncio.to_thread(_write, self._where / name, image)
        except (OSError, CrawlerError) as error:
            self._count("screenshots/failed")
            if not self._is_logged:
                self._is_logged = True
                why = error if str(error) else f"no answer within {_DEADLINE_S:g} s"
                logger.warning("A screenshot is not kept: %s. More of them are only counted", why)
            return ""
        self._count("screenshots/kept")
        return place


def _write(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
