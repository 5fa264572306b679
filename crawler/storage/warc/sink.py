"""Sink that writes WARC files: SINKS="warc:archive/"; finished ones go to WARC_UPLOAD, if set.

A batch of pages is durable when their records and the lines of their index are synced, see
files.py. What processes left open that died is completed at the start, and every minute.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Self, TypeVar

from crawler import config
from crawler.errors import ConfigurationError, ServerAway
from crawler.items import Page
from crawler.storage.disk_log import sync_folder
from crawler.storage.sink import Place, Repairs, Results, Sink, SinkContext, SinkReport
from crawler.storage.warc.files import (
    FolderRepair,
    WarcFiles,
    WarcName,
    check_writable,
    repair,
    warc_names,
)
from crawler.storage.warc.records import Original, RecordMaker, Records, capture_of
from crawler.storage.warc.upload import Uploads
from crawler.util.format import plural, size
from crawler.util.full_disk import REMEDY, is_full
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

FOLDER = "archive"
# Between two looks at whether the current file is old, or a process has died.
_LOOK_S = 60.0
# Payloads and pages that a process knows the captures of, two for each page: about 40 MB.
_KNOWN_MAX = 100_000
# Files for which the disk should have room.
_DISK_FILES = 3
# Time limit for completing the last file; with uploads it is longer.
_CLOSE_S, _CLOSE_UPLOADING_S = 60.0, 900.0


@dataclass(frozen=True, slots=True)
class WarcSettings:
    """Settings of WARC files."""

    codec: str = config.setting("WARC_CODEC")
    level: int = config.setting("WARC_LEVEL")
    max_bytes: int = config.setting("WARC_MAX_BYTES")
    max_age_s: float = config.setting("WARC_MAX_AGE")
    metadata: bool = config.setting("WARC_METADATA")
    operator: str = config.setting("WARC_OPERATOR")

    def __post_init__(self) -> None:
        most = {"gzip": 9, "zstd": 19}.get(self.codec, self.level)
        if not 1 <= self.level <= most:
            raise ConfigurationError(
                f"WARC_LEVEL is {self.level}; give 1 to {most}, the levels of {self.codec}."
            )


class WarcSink(Sink):
    """Sink of WARC files in a folder that the processes of a machine may share."""

    keeps_bodies = True
    archives = True

    def __init__(
        self,
        target: str,
        *,
        crawl: str,
        settings: WarcSettings,
        info: Mapping[str, str],
        uploads: Uploads | None = None,
    ) -> None:
        """`info` are the fields of the record at the beginning of each file."""
        super().__init__(target)
        self.folder = Path(target or FOLDER)
        self._settings = settings
        self._maker = RecordMaker(settings.codec, settings.level, what="SINKS=warc")
        self._files = WarcFiles(
            *(self.folder, crawl, self._maker),
            codec=settings.codec,
            info=info,
            max_bytes=settings.max_bytes,
            max_age_s=settings.max_age_s,
        )
        self._uploads = uploads
        # By the digest of a payload and the url_hash of a page; those used longest ago first.
        self._known: OrderedDict[str, Original] = OrderedDict()
        # One thread: a write that was given up on ends before the next one begins.
        self._thread = ThreadPoolExecutor(1, "warc")
        self._completing: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop

    @classmethod
    def from_context(cls, context: SinkContext) -> Self:
        settings = context.settings
        own = config.fill(WarcSettings, settings)
        if "://" in context.target:
            raise ConfigurationError(
                f"SINKS has warc:{context.target.partition(':')[0]}://…; WARC files are written to "
                "a folder first. Use warc:archive/, and WARC_UPLOAD for an object store."
            )
        uploads = Uploads.from_settings(settings, Path(context.target or FOLDER))
        info = warcinfo(context.crawl, own.operator, settings)
        return cls(context.target, crawl=context.crawl, settings=own, info=info, uploads=uploads)

    async def open(self) -> None:
        try:
            await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)
            await asyncio.to_thread(check_writable, self.folder)
            await asyncio.to_thread(sync_folder, self.folder.absolute().parent)
            await self._repair()
        except OSError as error:
            if is_full(error):
                raise ServerAway(
                    f"SINKS: warc:{self.folder} has no room ({error.strerror}); {REMEDY}."
                ) from error
            raise ConfigurationError(
                f"SINKS: warc:{self.folder} cannot be used ({error.strerror}); name another folder."
            ) from error
        if self._uploads is not None:
            await self._uploads.open()
        self._loop = asyncio.get_running_loop()
        self._looking = self._loop.create_task(self._look_forever())

    async def close(self) -> None:
        if self._looking is not None:
            await end(self._looking)
        await self._rotate(at_end=True)
        self._thread.shutdown(wait=False)
        while self._completing:
            await asyncio.wait(self._completing)
        # Also what could not be completed before, as the disk was full.
        with suppress(OSError):
            await self._repair()
        if self._uploads is not None:
            await self._uploads.finish()

    def prepare(self, page: Page) -> Records | None:
        capture = capture_of(page, metadata=self._settings.metadata)
        return None if capture is None else self._maker.records(capture, self._known)

    async def write(self, batch: Sequence[Records | None]) -> Results:
        chosen = [i for i, records in enumerate(batch) if records is not None]
        written = [records for records in batch if records is not None]
        if not written:
            return {}
        places = await self._in_thread(partial(self._append, written, time.time()))
        for records in written:
            self._remember(records)
        return dict(zip(chosen, places, strict=True))

    @property
    def close_timeout_s(self) -> float:
        return _CLOSE_S if self._uploads is None else _CLOSE_UPLOADING_S

    async def repair(self, *, dry_run: bool) -> Repairs:
        if not self.folder.is_dir():
            return {}
        found = await asyncio.to_thread(repair, self.folder, dry_run=dry_run)
        return {
            "warc_files_left_open": len(found.closed),
            "bytes_of_torn_warc_records": found.cut_bytes,
            "warc_files_without_index": len(found.indexed),
        }

    async def check(self) -> SinkReport:
        folder = self.folder
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            await asyncio.to_thread(check_writable, folder)
            names = await asyncio.to_thread(warc_names, folder)
            free = (await asyncio.to_thread(disk_usage, folder)).free
        except OSError as error:
            raise ConfigurationError(f"{folder}: {error.strerror}; name another folder.") from error
        text = f"{plural(len(names), 'WARC file')} in {folder.absolute()}, {size(free)} free"
        if self._uploads is not None:
            await self._uploads.open()
            text += f", uploaded to {self._uploads.url}"
        warnings = {}
        if free < _DISK_FILES * self._settings.max_bytes:
            warnings[f"its disk has {size(free)} free"] = (
                "Make room, or set WARC_UPLOAD: fetching pauses while the disk is full."
            )
        return SinkReport(text, warnings)

    def _remember(self, records: Records) -> None:
        """Know the capture of a payload, so that others with the same payload refer to it."""
        capture = records.capture
        if capture.is_not_modified or capture.truncated or not capture.body:
            return
        original = Original(capture.uri, capture.date)
        self._known.setdefault(records.digest, original)
        self._known.move_to_end(records.digest)
        if 200 <= capture.status < 300:
            # For visits that find the page not modified.
            self._known[capture.url_hash] = original
            self._known.move_to_end(capture.url_hash)
        while len(self._known) > _KNOWN_MAX:
            self._known.popitem(last=False)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, work)

    def _append(self, batch: Sequence[Records], now_s: float) -> list[Place]:
        """Write a batch, to a new file if the current one is large or old. In the thread."""
        complete = self._files.rotate(now_s)
        if complete is not None:
            # The batch does not wait for it.
            self._loop.call_soon_threadsafe(self._complete_soon, complete)
        return self._files.append(batch, now_s)

    async def _rotate(self, *, at_end: bool = False) -> None:
        """Complete the current file in the background, if it is large or old, or at the end."""
        rotate = partial(self._files.rotate, time.time(), at_end=at_end)
        complete = await self._in_thread(rotate)
        if complete is not None:
            self._complete_soon(complete)

    def _complete_soon(self, complete: Callable[[], WarcName]) -> None:
        task = self._loop.create_task(self._complete(complete))
        self._completing.add(task)
        task.add_done_callback(self._completing.discard)

    async def _complete(self, complete: Callable[[], WarcName]) -> None:
        try:
            name = await asyncio.to_thread(complete)
        except OSError as error:
            logger.error(
                "A file in %s stays open (%s); the next start or scrapy pages repair completes it",
                *(self.folder, error.strerror),
            )
            return
        logger.info("%s is complete", self.folder / name.file)
        if self._uploads is not None:
            self._uploads.soon()

    async def _look_forever(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK_S, self._settings.max_age_s))
            try:
                await self._rotate()
                await self._repair()
            except Exception as error:  # noqa: BLE001 - the next look may work
                logger.warning("%s was not looked after: %s", self.folder, error)
            if self._uploads is not None:
                self._uploads.soon()

    async def _repair(self) -> None:
        found: FolderRepair = await asyncio.to_thread(repair, self.folder)
        if found.closed:
            logger.info(
                "Completed %s in %s that was left open, and cut off %s of pages not stored",
                *(plural(len(found.closed), "WARC file"), self.folder, size(found.cut_bytes)),
            )


def warcinfo(crawl: str, operator: str, settings: BaseSettings) -> dict[str, str]:
    """Return the fields of the record at the beginning of each file."""
    try:
        release = version("mercator-crawler")
    except PackageNotFoundError:
        # It runs from a clone.
        release = "0"
    obeys = settings.getwithbase("DOWNLOADER_MIDDLEWARES").get(
        "crawler.middlewares.robots.Robots"
    ) is not None or settings.getbool("ROBOTSTXT_OBEY")
    fields = {
        "software": f"mercator-crawler/{release} scrapy/{version('scrapy')}",
        "format": "WARC File Format 1.1",
        "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "operator": operator,
        "http-header-user-agent": str(settings["USER_AGENT"] or ""),
        "robots": "obey" if obeys else "ignore",
        "isPartOf": crawl,
        "description": f"Pages of the crawl {crawl}",
    }
    return {name: value for name, value in fields.items() if value}
