"""Keep pages on disk while a sink is away, and give them back when it is there again.

A page in the spool counts as durable: its lease is settled. So an outage costs neither memory nor
refetches, and losing the disk is the price. Pages are spooled in batches, each one record of a log
(disk_log.py): a compressed list of pages. The tag of a segment names the sinks that lack its pages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import zstandard

from crawler.errors import ConfigurationError, ServerAway
from crawler.items import Exchange, Page, plain
from crawler.storage.commit import GroupCommit
from crawler.storage.disk_log import LogFull, SharedLog, append_record, scan_below
from crawler.util.full_disk import REMEDY, is_full

if TYPE_CHECKING:
    from crawler.frontier.on_disk import OnDisk
    from crawler.storage.sink import Results

logger = logging.getLogger(__name__)

# Kind of its logs in the registry.
_KIND = "spool"
# Files with pages that a sink refused. With the ending .log they are segments.
_REFUSED = "refused_*.pages"
# Between the names of sinks in a tag.
_AND = ","
# A page, and the names of the sinks that lack it.
Spooled = tuple[Page, tuple[str, ...]]

_FIELDS = tuple(field.name for field in fields(Page))
# Attributes of a page that are no fields, and that sinks read.
_MORE = ("items", "places", "exchange")
_BATCH_MAX, _BATCH_MAX_BYTES = 200, 16_000_000
# As for bodies in MongoDB, see mongo/sink.py.
_ZSTD_LEVEL = 3


class Spool:
    """Spool of one crawl in a folder that all processes of the machine share."""

    def __init__(self, folder: Path, *, max_bytes: int, is_closing: Callable[[], bool]) -> None:
        self._log = SharedLog(_KIND, folder, max_bytes=max_bytes, is_closing=is_closing)
        self._is_full = False
        self._commit: GroupCommit[Spooled] = GroupCommit(
            self._append, batch_max=_BATCH_MAX, batch_max_bytes=_BATCH_MAX_BYTES
        )

    async def open(self, registry: OnDisk | None) -> None:
        """Take over the pages of processes that died."""
        try:
            await self._log.open(registry)
        except OSError as error:
            if is_full(error):
                raise ServerAway(
                    f"The spool {self._log.folder} has no room ({error.strerror}); {REMEDY}."
                ) from error
            raise ConfigurationError(
                f"SPOOL_DIR: {self._log.folder} cannot be used ({error.strerror}); name another "
                "folder."
            ) from error
        if self._log.count:
            logger.info(
                "%s pages of earlier processes are in the spool %s: they are written first",
                *(f"{self._log.count:,}", self._log.folder),
            )

    async def close(self) -> None:
        """Finish what is being written, and leave the rest to others."""
        await self._commit.drain()
        await self._log.close()

    @property
    def pages(self) -> int:
        """Number of pages that this process has to write to their sinks."""
        return self._log.count

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def lag_s(self) -> float:
        """Seconds that the oldest page has waited."""
        return self._log.age_s

    @property
    def folder(self) -> Path:
        return self._log.folder

    @property
    def is_full(self) -> bool:
        """Whether the last page could not be kept."""
        return self._is_full

    @property
    def names(self) -> set[str]:
        """Names in the registry of what this process drains."""
        return self._log.names

    async def refresh(self) -> None:
        """Take over the spools of processes on this machine that died."""
        await self._log.refresh()

    @property
    def sinks(self) -> set[str]:
        """Names of the sinks that lack pages of this spool."""
        return {name for tag in self._log.tags for name in tag.split(_AND)}

    async def put(self, page: Page, lacking: Sequence[str]) -> bool:
        """Keep a page; return False if there is no room for it."""
        try:
            await self._commit.put((page, tuple(lacking)), page.size_bytes)
        except LogFull as error:
            if not self._is_full:
                logger.warning("The spool is full, so fetching pauses: %s", error)
            self._is_full = True
            return False
        self._is_full = False
        return True

    async def batches(self) -> AsyncIterator[tuple[list[Page], set[str]]]:
        """Yield the oldest pages with the names of the sinks that lack them, batch by batch.

        They are deleted segment by segment. A batch counts as dealt with when the next one is
        asked for.
        """
        while (segment := await self._log.oldest()) is not None:
            lacking = set(segment.tag.split(_AND))
            for payload in await self._log.read(segment):
                yield await asyncio.to_thread(_unpacked, payload), lacking
            await self._log.remove(segment)
            self._is_full = False

    async def set_aside(self, page: Page, sink: str) -> Path:
        """Keep a page that a sink refuses in a file that is not drained; return its path."""
        name = _REFUSED.replace("*", f"{self._log.owner}-000001-{sink}")
        path = self._log.folder / name
        payload = await asyncio.to_thread(_packed, [page])
        await asyncio.to_thread(append_record, path, payload, 1)
        return path

    async def _append(self, batch: Sequence[Spooled]) -> Results | None:
        by_sinks: dict[tuple[str, ...], list[Page]] = {}
        for page, lacking in batch:
            by_sinks.setdefault(lacking, []).append(page)
        for lacking, pages in by_sinks.items():
            payload = await asyncio.to_thread(_packed, pages)
            await self._log.append(payload, len(pages), _AND.join(lacking))
        return None


@dataclass(frozen=True, slots=True)
class SpoolSize:
    """What is in a folder of spools: pages to write, their bytes, pages that sinks refused."""

    pages: int
    size_bytes: int
    refused: int


def measure(folder: Path) -> SpoolSize:
    """Count what all crawls have in SPOOL_DIR, by the headers of its files only. Blocking."""
    segments, refused = scan_below(folder), scan_below(folder, _REFUSED)
    return SpoolSize(
        sum(segment.count for segment in segments),
        sum(segment.size_bytes for segment in segments),
        sum(segment.count for segment in refused),
    )


async def spool_places(registry: OnDisk) -> list[str]:
    """Return where pages of a crawl are spooled, also by processes that have ended."""
    found = await registry.places()
    return sorted({place for name, place in found.items() if name.startswith(f"{_KIND}:")})


def _packed(pages: Sequence[Page]) -> bytes:
    data = [{name: getattr(page, name) for name in (*_FIELDS, *_MORE)} for page in pages]
    packed = msgpack.packb(data, datetime=True, default=plain, unicode_errors="surrogatepass")
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(packed)


def _unpacked(payload: bytes) -> list[Page]:
    data = msgpack.unpackb(
        zstandard.ZstdDecompressor().decompress(payload),
        timestamp=3,
        strict_map_key=False,
        unicode_errors="surrogatepass",
    )
    pages = []
    for values in data:
        # An earlier version may have had other fields.
        page = Page(**{name: values[name] for name in _FIELDS if name in values})
        for name in _MORE:
            setattr(page, name, values.get(name))
        if page.exchange is not None:
            page.exchange = Exchange(*page.exchange)
        pages.append(page)
    return pages
