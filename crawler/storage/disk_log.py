"""Append records to files in a folder that several processes share, and read them back.

    DiskLog    the files; its methods block
    SharedLog  the same for coroutines, registered in Redis: a crawl is not over while any log of
               its processes has records, on whichever machine

Each process is an owner with a lock file of its own (`<owner>.lock`, held by flock until it ends)
and appends to segments (`<owner>-<number>-<tag>.log`) that only it writes. All records of a segment
have one tag, a short text for the caller. A record is durable when `append` returns. A segment is
deleted when all its records are dealt with: until then a crash brings all of them back. `adopt`
takes over the segments of owners that died.

A record is a header (mark, length, number of things in it, checksums) and a payload. A record that
was cut off by a crash is the last of its segment, and was never acknowledged.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from socket import gethostname
from threading import RLock
from time import time
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote
from zlib import crc32

from xxhash import xxh3_64_intdigest

from crawler.errors import NotStored, SinkAway
from crawler.servers.redis.errors import RedisAway

if TYPE_CHECKING:
    from crawler.frontier.on_disk import OnDisk

logger = logging.getLogger(__name__)

_HEADER = struct.Struct(">4sIIQ")
# Checksum of the header: a wrong length would hide all records after it.
_HEADER_SUM = struct.Struct(">I")
_HEADER_BYTES = _HEADER.size + _HEADER_SUM.size
_MARK = b"LOG1"
_SEGMENTS, _LOCKS = "*-*.log", "*.lock"
# Small enough that little is repeated after a crash, large enough for few files.
SEGMENT_BYTES = 16_000_000


class LogFull(SinkAway):
    """Error of a log whose folder has as many bytes as it may have, or whose disk is full."""


@dataclass(slots=True)
class Segment:
    """File of records, and the number of things in them."""

    path: Path
    count: int = 0
    size_bytes: int = 0
    # When it was begun, or last written to by a process that died; Unix time.
    since_s: float = field(default_factory=time)

    @property
    def owner(self) -> str:
        return self.path.stem.split("-", 2)[0]

    @property
    def tag(self) -> str:
        return self.path.stem.split("-", 2)[2]


class DiskLog:
    """Log of one process in a folder; it may take over those of dead processes.

    All methods block, and may be called from any thread.
    """

    def __init__(self, folder: Path, *, max_bytes: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.owner = ""
        # Identity of the folder: two machines may have folders of one name.
        self.id = ""
        self._max_bytes = max_bytes
        self._segment_bytes = segment_bytes
        self._state = RLock()
        # Own segments and those of dead owners, the oldest first. The last may be written to.
        self._segments: list[Segment] = []
        self._file: FileIO | None = None
        self._serial = 0
        # Lock files by owner: this one's, and those of dead owners.
        self._locks: dict[str, BinaryIO] = {}
        # Bytes of all segments in the folder, of all processes, when they were last counted.
        self._folder_bytes = 0

    # --- this owner ------------------------------------------------------------------------------

    def open(self) -> None:
        """Make the folder, become an owner, and take over what dead owners left."""
        with self._state:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.id = _folder_id(self.folder)
            while not self.owner:
                owner = uuid.uuid4().hex[:12]
                if self._lock(owner):
                    self.owner = owner
            self.adopt()

    def close(self) -> None:
        """Give up all locks. Segments that are left can be taken over by others."""
        with self._state:
            self._end_segment()
            for owner in list(self._locks):
                self._unlock(owner)
            self._segments.clear()
            self.owner = ""

    def append(self, payload: bytes, count: int, tag: str = "") -> None:
        """Append a record with so many things in it; raises LogFull if there is no room."""
        record = _record(payload, count)
        with self._state:
            if not self.owner:
                raise LogFull(f"The log in {self.folder} is closed.")
            try:
                segment, file = self._writable(len(record), tag)
                append_synced(file, record)
            except OSError as error:
                # Half a record may be at its end, and would hide those after it.
                self._end_segment()
                self._drop_empty()
                raise LogFull(f"{self.folder} cannot be written to ({error.strerror}).") from error
            segment.count += count
            segment.size_bytes += len(record)
            self._folder_bytes += len(record)

    def _writable(self, more_bytes: int, tag: str) -> tuple[Segment, FileIO]:
        last = self._segments[-1] if self._file is not None else None
        if (
            last is not None
            and last.tag == tag
            and last.size_bytes + more_bytes <= self._segment_bytes
        ):
            self._check_room(more_bytes)
            assert self._file is not None
            return last, self._file
        self._end_segment()
        self._folder_bytes = _size(self.folder)
        self._check_room(more_bytes)
        self._serial += 1
        segment = Segment(self.folder / f"{self.owner}-{self._serial:06}-{tag}.log")
        file = segment.path.open("xb", buffering=0)
        self._segments.append(segment)
        self._file = file
        sync_folder(self.folder)
        return segment, file

    def _drop_empty(self) -> None:
        """Delete the newest segment if it has no records: each attempt would leave another one."""
        if self._segments and not self._segments[-1].count:
            with suppress(OSError):
                self._segments[-1].path.unlink()
                self._segments.pop()

    def _check_room(self, more_bytes: int) -> None:
        if self._folder_bytes + more_bytes > self._max_bytes:
            self._folder_bytes = _size(self.folder)
            if self._folder_bytes + more_bytes > self._max_bytes:
                raise LogFull(f"{self.folder} has {self._folder_bytes:,} bytes.")

    def _end_segment(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # --- reading ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of things in the segments of this process."""
        return sum(segment.count for segment in self._segments)

    @property
    def size_bytes(self) -> int:
        """Bytes in the segments of this process."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def age_s(self) -> float:
        """Age of the oldest segment in seconds; 0 without any."""
        return time() - self._segments[0].since_s if self._segments else 0.0

    def oldest(self) -> Segment | None:
        """Return the oldest segment, which gets no more records from now on."""
        with self._state:
            if not self._segments:
                return None
            if len(self._segments) == 1:
                self._end_segment()
            return self._segments[0]

    def remove(self, segment: Segment) -> bool:
        """Delete a segment whose records are dealt with; return whether it was its owner's last."""
        with self._state:
            segment.path.unlink(missing_ok=True)
            self._segments.remove(segment)
            self._folder_bytes -= segment.size_bytes
            is_last = not any(each.owner == segment.owner for each in self._segments)
            if is_last and segment.owner != self.owner:
                self._unlock(segment.owner)
            return is_last

    @property
    def owners(self) -> set[str]:
        """This owner, and those whose segments it has taken over."""
        return set(self._locks)

    @property
    def owners_with_records(self) -> set[str]:
        """Those of them that have segments."""
        return {segment.owner for segment in self._segments}

    @property
    def tags(self) -> set[str]:
        """Tags of all segments of this process."""
        return {segment.tag for segment in self._segments}

    # --- dead owners -----------------------------------------------------------------------------

    def adopt(self) -> list[str]:
        """Take over the segments of owners that died; return all owners that died."""
        with self._state:
            owners = {path.stem for path in self.folder.glob(_LOCKS)}
            owners |= {Segment(path).owner for path in self.folder.glob(_SEGMENTS)}
            dead = [owner for owner in owners - self._locks.keys() if self._lock(owner)]
            found: list[Segment] = []
            for owner in dead:
                segments = [_scan(path) for path in self.folder.glob(f"{owner}-*.log")]
                if segments:
                    found += segments
                else:
                    self._unlock(owner)
            found.sort(key=lambda segment: (segment.since_s, segment.path.name))
            # In place: the last one may be written to.
            self._segments[:0] = found
            return dead

    def has(self, owner: str) -> bool:
        """Return whether there is anything of an owner in the folder."""
        return (self.folder / f"{owner}.lock").exists() or any(self.folder.glob(f"{owner}-*.log"))

    def _lock(self, owner: str) -> bool:
        path = self.folder / f"{owner}.lock"
        file = path.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        if not is_same_file(file, path):
            # Whoever had it before has deleted it meanwhile: the lock would be on no file.
            file.close()
            return False
        self._locks[owner] = file
        return True

    def _unlock(self, owner: str) -> None:
        file = self._locks.pop(owner)
        if not any(self.folder.glob(f"{owner}-*.log")):
            (self.folder / f"{owner}.lock").unlink(missing_ok=True)
        file.close()


# Between two attempts to register while Redis is away.
_REGISTER_AGAIN_S = 1.0


def crawl_folder(parent: str | Path, crawl: str) -> Path:
    """Return the folder for the logs of a crawl, whatever its name is."""
    return Path(parent, quote(crawl, safe=""))


class SharedLog:
    """Log of one process, which the fleet knows of while there are records in it.

    `kind` tells logs of different use apart. Without a registry no other process knows of it.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        max_bytes: int,
        segment_bytes: int = SEGMENT_BYTES,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._kind = kind
        self._log = DiskLog(folder, max_bytes=max_bytes, segment_bytes=segment_bytes)
        self._is_closing = is_closing
        self._registry: OnDisk | None = None
        self._is_registered = False
        # Held while the files and the registry change together.
        self._changing = asyncio.Lock()

    async def open(self, registry: OnDisk | None) -> None:
        """Take over the logs of dead processes; OSError if the folder cannot be used."""
        self._registry = registry
        await asyncio.to_thread(self._log.open)

    async def close(self) -> None:
        """Leave what is there to other processes."""
        async with self._changing:
            owner, is_empty = self._log.owner, not self._log.count
            await asyncio.to_thread(self._log.close)
            if is_empty:
                await self._unregister(owner)

    @property
    def folder(self) -> Path:
        return self._log.folder

    @property
    def owner(self) -> str:
        return self._log.owner

    @property
    def count(self) -> int:
        """Number of things in the log."""
        return self._log.count

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def age_s(self) -> float:
        """Age of the oldest segment in seconds; 0 without any."""
        return self._log.age_s

    @property
    def tags(self) -> set[str]:
        """Tags of all segments."""
        return self._log.tags

    @property
    def names(self) -> set[str]:
        """Names in the registry of the logs that this process has."""
        return {self._name(owner) for owner in self._log.owners}

    async def append(self, payload: bytes, count: int, tag: str = "") -> None:
        """Append a record with so many things in it; LogFull if there is no room.

        NotStored if the crawl ends before Redis knows of the log.
        """
        async with self._changing:
            while self._registry is not None and not self._is_registered:
                try:
                    await self._registry.register(self._name(self.owner), self._place)
                except RedisAway as error:
                    if self._is_closing():
                        raise NotStored("Redis does not answer.") from error
                    await asyncio.sleep(_REGISTER_AGAIN_S)
                else:
                    self._is_registered = True
            await asyncio.to_thread(self._log.append, payload, count, tag)

    async def oldest(self) -> Segment | None:
        """Return the oldest segment, which gets no more records from now on."""
        # In a thread: it waits for a record that is being synced.
        return await asyncio.to_thread(self._log.oldest)

    async def read(self, segment: Segment) -> list[bytes]:
        """Return the payloads of a segment."""
        return await asyncio.to_thread(list, records(segment))

    async def remove(self, segment: Segment) -> None:
        """Delete a segment whose records are dealt with."""
        async with self._changing:
            if await asyncio.to_thread(self._log.remove, segment):
                await self._unregister(segment.owner)

    async def refresh(self) -> None:
        """Take over the logs of processes on this machine that died, and correct the registry.

        RedisAway if Redis does not answer.
        """
        async with self._changing:
            await asyncio.to_thread(self._log.adopt)
            if self._registry is None:
                return
            for owner in self._log.owners_with_records:
                # Redis may have lost it.
                await self._registry.register(self._name(owner), self._place)
            for name, place in (await self._registry.places()).items():
                kind, _, owner = name.partition(":")
                # The machine may have another name by now.
                is_here = kind == self._kind and place.endswith(f"({self._log.id})")
                # It died before its first record, or could not tell Redis of its end.
                if is_here and not await asyncio.to_thread(self._log.has, owner):
                    await self._registry.remove(name)

    async def _unregister(self, owner: str) -> None:
        if owner == self.owner:
            self._is_registered = False
        if self._registry is None:
            return
        try:
            await self._registry.remove(self._name(owner))
        except RedisAway as error:
            # `refresh` finds out that nothing is there.
            logger.debug("The log of %s stays registered: %s", owner, error)

    def _name(self, owner: str) -> str:
        return f"{self._kind}:{owner}"

    @property
    def _place(self) -> str:
        """The folder, for people on other machines."""
        return f"{gethostname()}:{self.folder.absolute()} ({self._log.id})"


def records(segment: Segment) -> Iterator[bytes]:
    """Yield the payloads of a segment.

    What a crash cut off is left out. Damage by the disk is logged, and the file is kept.
    """
    left = segment.path.stat().st_size
    with segment.path.open("rb") as file:
        while header := file.read(_HEADER_BYTES):
            left -= len(header)
            if len(header) < _HEADER_BYTES:
                _report_cut(segment, len(header))
                return
            found = _read_header(header)
            if found is None:
                _report_damage(segment, left)
                return
            length, _, checksum = found
            if length > left:
                _report_cut(segment, len(header) + left)
                return
            payload = file.read(length)
            left -= length
            if xxh3_64_intdigest(payload) == checksum:
                yield payload
            else:
                _report_damage(segment, length)


def _report_cut(segment: Segment, size_bytes: int) -> None:
    logger.warning(
        "%s ends in the middle of a record (%d bytes). A process that was killed while it wrote "
        "leaves this, and loses nothing by it; if the file was cut, what was in the rest is lost",
        *(segment.path, size_bytes),
    )


def append_record(path: Path, payload: bytes, count: int) -> None:
    """Append a record to a file that is no segment."""
    with path.open("ab", buffering=0) as file:
        append_synced(file, _record(payload, count))
    sync_folder(path.parent)


def append_synced(file: FileIO, data: bytes) -> None:
    """Append to a file; if that fails, it is as it was before, if possible."""
    at = os.fstat(file.fileno()).st_size
    try:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            file.truncate(at)
        raise


def is_same_file(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _record(payload: bytes, count: int) -> bytes:
    header = _HEADER.pack(_MARK, len(payload), count, xxh3_64_intdigest(payload))
    return header + _HEADER_SUM.pack(crc32(header)) + payload


def _read_header(header: bytes) -> tuple[int, int, int] | None:
    """Return length, count and checksum of a record; None if the header is damaged."""
    mark, length, count, checksum = _HEADER.unpack_from(header)
    (header_sum,) = _HEADER_SUM.unpack_from(header, _HEADER.size)
    if mark != _MARK or header_sum != crc32(header[: _HEADER.size]):
        return None
    return length, count, checksum


def _report_damage(segment: Segment, size_bytes: int) -> None:
    kept = segment.path.with_suffix(".damaged")
    # A second name of the same file takes no room.
    with suppress(OSError):
        os.link(segment.path, kept)
    logger.error(
        "%s is damaged: %d bytes cannot be read, and what was in them is lost. It is kept as %s",
        *(segment.path, size_bytes, kept.name),
    )


def _folder_id(folder: Path) -> str:
    """Return the identity of a folder, which its first user writes."""
    path, made = folder / "id", uuid.uuid4().hex[:12]
    while not (path.exists() and path.stat().st_size):
        # Under another name first, so that it is never half written, not even on a full disk.
        draft = folder / f"id.{made}"
        try:
            draft.write_text(made, encoding="ascii")
            if path.exists():
                # Of an earlier version, whose writer died or had no room.
                draft.replace(path)
            else:
                os.link(draft, path)
        except FileExistsError:
            continue
        finally:
            draft.unlink(missing_ok=True)
    return path.read_text(encoding="ascii")


def _scan(path: Path) -> Segment:
    """Make the segment of a file, by its headers only."""
    status = path.stat()
    segment = Segment(path, size_bytes=status.st_size, since_s=status.st_mtime)
    with path.open("rb") as file:
        while len(header := file.read(_HEADER_BYTES)) == _HEADER_BYTES:
            found = _read_header(header)
            if found is None or file.tell() + found[0] > segment.size_bytes:
                break
            segment.count += found[1]
            file.seek(found[0], os.SEEK_CUR)
    return segment


def scan_below(folder: Path, pattern: str = _SEGMENTS) -> list[Segment]:
    """Return the segments of all owners and logs in a folder, or other files of records."""
    found = []
    for path in folder.rglob(pattern):
        # Another process may delete it meanwhile.
        with suppress(FileNotFoundError):
            found.append(_scan(path))
    return found


def _size(folder: Path) -> int:
    """Count the bytes of all files in a folder."""
    total = 0
    for path in folder.iterdir():
        # Another process may delete it meanwhile.
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
