"""Upload complete WARC files and their indexes to an object store, and remove them then.

Any process with the same folder uploads what is complete in it, also what others left. A file is
locked meanwhile, so two processes do not upload the same one. An object is in the store as a whole
or not at all: after a crash, a file that is not there is uploaded again, and one that is there is
only removed here. No archive is ever overwritten.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from crawler import config
from crawler.errors import ConfigurationError, CrawlerError, SinkAway
from crawler.servers.objects import ObjectStore
from crawler.storage.warc.files import WarcName, locked, warc_names
from crawler.util.format import plural

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

SETTING = "WARC_UPLOAD"


class Uploads:
    """Uploads of one folder to a store."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        if store.folder is not None and store.folder.resolve() == folder.resolve():
            raise ConfigurationError(
                f"{store.url} is the folder of the archive itself; upload it to another place."
            )
        self._store = store
        self._folder = folder
        self._running: asyncio.Task[int] | None = None
        # Something was completed while an upload was running.
        self._is_more = False
        # Names and errors that were logged.
        self._failed: dict[str, str] = {}

    @classmethod
    def from_settings(cls, settings: BaseSettings, folder: Path) -> Uploads | None:
        """Make the uploads of WARC_UPLOAD; None if it is not set."""
        url = config.value(settings, SETTING)
        return cls(ObjectStore.from_url(url, what=SETTING), folder) if url else None

    @property
    def url(self) -> str:
        return self._store.url

    async def open(self) -> None:
        """Check that the store takes objects; SinkAway or ConfigurationError if not."""
        await self._store.check()

    def soon(self) -> None:
        """Upload what is complete, in the background."""
        self._is_more = True
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self.run())

    async def finish(self) -> None:
        """Upload what is complete. What fails stays in the folder for the next start."""
        if self._running is not None:
            await self._running
        left = await self.run()
        if left:
            logger.warning(
                "%s in %s could not be uploaded; the next start tries again, or scrapy archive "
                "upload",
                *(plural(left, "file"), self._folder),
            )

    async def run(self) -> int:
        """Upload everything that is complete; return the number of files that are left."""
        self._is_more = True
        left = 0
        while self._is_more:
            self._is_more, left = False, 0
            names = await asyncio.to_thread(self._complete_ones)
            for number, name in enumerate(names):
                try:
                    await self._upload(name)
                except (CrawlerError, OSError) as error:
                    left += 1
                    self._log_failure(name, error)
                    if isinstance(error, SinkAway):
                        # The others would wait for the store as long, and in vain.
                        left += len(names) - number - 1
                        break
                else:
                    self._failed.pop(name.file, None)
        return left

    def _log_failure(self, name: WarcName, error: Exception) -> None:
        if self._failed.get(name.file) != str(error):
            self._failed[name.file] = str(error)
            logger.warning("%s is not uploaded yet: %s", name.file, error)

    def _complete_ones(self) -> list[WarcName]:
        return [
            name
            for name in warc_names(self._folder)
            if not name.is_open and (self._folder / name.index).exists()
        ]

    async def _upload(self, name: WarcName) -> None:
        with locked(self._folder / name.file) as file:
            if file is None:
                return
            path, index = self._folder / name.file, self._folder / name.index
            size, found = path.stat().st_size, await self._store.size(path.name)
            if found is None:
                await self._store.upload(path.name, path)
            elif found != size:
                raise CrawlerError(
                    f"{self._store.url}/{path.name} has {found:,} bytes, and the file here "
                    f"{size:,}: they are different archives. Upload this one to another prefix."
                )
            # The index after the file: it says that the file is there.
            if await self._store.size(index.name) != index.stat().st_size:
                await self._store.upload(index.name, index)
            # If this is interrupted, the file gets its index again, and nothing stays behind.
            await asyncio.to_thread(index.unlink)
            await asyncio.to_thread(path.unlink)
        logger.info("%s is in %s", name.file, self._store.url)
