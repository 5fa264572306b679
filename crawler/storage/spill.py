"""Keep URLs that the frontier has no room for, and give them back later.

A URL is written before the lease of its page is settled, and removed after the frontier has it: it
is always in one of the two. In MongoDB (mongo/spill.py) or PostgreSQL (postgres/spill.py) the whole
fleet shares them. Without these each process has files, and the crawl is not over while one of them
has URLs.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgpack

from crawler.frontier.entry import DamagedEntry, Entry, decode, encode
from crawler.frontier.outbox import SeenCache
from crawler.servers.health import ServerHealth
from crawler.storage.disk_log import Segment, SharedLog

if TYPE_CHECKING:
    from crawler.frontier.on_disk import OnDisk

logger = logging.getLogger(__name__)

# All URLs of a segment are in memory while it is taken in: about 10,000.
_SEGMENT_BYTES = 1_000_000
# URLs that are in the files already: the same low link is on most pages of a site.
_KNOWN = 200_000


class Spill(Protocol):
    """Place for URLs that the frontier refuses."""

    # Of the server that keeps them.
    health: ServerHealth

    async def put(self, entries: Sequence[Entry]) -> None:
        """Keep URLs; a URL that is kept already need not be kept twice. LogFull: no room."""

    async def some(self, limit: int) -> list[Entry]:
        """Read some URLs, about as many as `limit`; they stay until dropped."""

    async def drop(self, entries: Sequence[Entry]) -> None:
        """Delete URLs that the frontier has now."""

    @property
    def names(self) -> set[str]:
        """Names in the registry of files that this process reads."""

    async def refresh(self) -> None:
        """Take over the files of processes on this machine that died."""

    def is_away(self, error: Exception) -> bool:
        """Return whether an error passes by itself."""

    async def clear(self) -> None:
        """Delete all URLs of a crawl that is deleted itself."""

    async def close(self) -> None:
        """Close files. URLs that are left stay there."""


class FileSpill:
    """URLs of one crawl in files of this machine."""

    def __init__(
        self,
        folder: Path,
        registry: OnDisk | None,
        *,
        max_bytes: int,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """Files are made at the first use."""
        self.health = ServerHealth(f"The folder {folder}", str)
        self._log = SharedLog(
            *("spill", folder),
            max_bytes=max_bytes,
            segment_bytes=_SEGMENT_BYTES,
            is_closing=is_closing,
        )
        self._registry = registry
        self._is_open = False
        self._opening = asyncio.Lock()
        self._known = SeenCache(_KNOWN)
        # Segment that is being read, and the URLs of it that the frontier does not have yet.
        self._segment: Segment | None = None
        self._left: dict[int, Entry] = {}

    async def put(self, entries: Sequence[Entry]) -> None:
        known = self._known.among([entry.id for entry in entries])
        new = {entry.id: entry for entry in entries if entry.id not in known}
        if new:
            await self._open()
            payload = msgpack.packb([encode(entry) for entry in new.values()])
            await self._log.append(payload, len(new))
            self._known.update(list(new))

    async def some(self, limit: int) -> list[Entry]:
        await self._open()
        while not self._left and (segment := await self._log.oldest()) is not None:
            found = await asyncio.to_thread(_entries, await self._log.read(segment))
            if found:
                # Together: without URLs, a segment is dealt with.
                self._segment, self._left = segment, found
            else:
                await self._log.remove(segment)
        return list(self._left.values())[:limit]

    async def drop(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._left.pop(entry.id, None)
        if not self._left and self._segment is not None:
            segment, self._segment = self._segment, None
            # What is spilled again must be written again.
            self._known.clear()
            await self._log.remove(segment)

    @property
    def names(self) -> set[str]:
        return self._log.names

    async def refresh(self) -> None:
        await self._open()
        await self._log.refresh()

    def is_away(self, error: Exception) -> bool:
        return isinstance(error, OSError)

    async def clear(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._log.folder, ignore_errors=True)

    async def close(self) -> None:
        if self._is_open:
            await self._log.close()

    async def _open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._log.open(self._registry)
                self._is_open = True


def _entries(payloads: Sequence[bytes]) -> dict[int, Entry]:
    """Decode the URLs of a segment; what is damaged is logged and left out."""
    found = {}
    for payload in payloads:
        for data in msgpack.unpackb(payload):
            try:
                entry = decode(data)
            except DamagedEntry as error:
                logger.error("A spilled URL cannot be read (%s): %r", error, data)
            else:
                found[entry.id] = entry
    return found
