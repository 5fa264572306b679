"""Write the WARC files of a process, and mend what processes left that died. Blocking.

    <name>.warc.gz.open   is being written by a process, which holds a lock on it
    <name>.cdxj.open      its index, a line for each page that is durable, in the order of writing
    <name>.warc.gz        is complete
    <name>.cdxj           its index, sorted

The records of a batch are synced before the lines of their index are, and those before the pages
count as stored. So whatever follows the last whole line in both files is cut off by a repair: its
pages are fetched again.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import BytesIO, FileIO
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import zstandard
from xxhash import xxh3_64_hexdigest

from crawler.storage.disk_log import append_synced, is_same_file, sync_folder
from crawler.storage.sink import Place
from crawler.storage.warc.index import Line, line_of, whole_lines, write_sorted
from crawler.storage.warc.records import CODECS, EXTRA, REVISIT, Capture, RecordMaker, Records
from crawler.util.extras import optional
from crawler.util.full_disk import is_full

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord

logger = logging.getLogger(__name__)

OPEN = ".open"
INDEX = ".cdxj"
WARC = ".warc"
# Small, as what follows a record in a piece is copied once for each record in it.
_READ_BYTES = 64 * 1024
# Characters of a crawl's name in the names of files, which have 255 at most.
_CRAWL_CHARS = 100
# Names that are tried for a new file.
_TRIES = 100
# Types of records that an index has.
CAPTURES = frozenset({"response", "revisit", "resource"})
_LENGTH = re.compile(rb"^Content-Length:[ \t]*(\d{1,15})", re.IGNORECASE | re.MULTILINE)
_NAME = re.compile(rf"(?P<stem>.+){re.escape(WARC)}(?P<packed>\.gz|\.zst|)(?P<open>\.open|)")


@dataclass(frozen=True, slots=True)
class WarcName:
    """Name of a WARC file, complete or not."""

    stem: str
    # ".gz", ".zst" or nothing.
    packed: str
    is_open: bool

    @property
    def file(self) -> str:
        """Name of the file when it is complete."""
        return f"{self.stem}{WARC}{self.packed}"

    @property
    def index(self) -> str:
        """Name of its index when it is complete."""
        return f"{self.stem}{INDEX}"

    @classmethod
    def of(cls, name: str) -> WarcName | None:
        """Read a name; None for other files."""
        found = _NAME.fullmatch(name)
        return cls(found["stem"], found["packed"], bool(found["open"])) if found else None


def warc_names(folder: Path) -> list[WarcName]:
    """List the WARC files of a folder, the oldest names first."""
    found = [WarcName.of(path.name) for path in sorted(folder.iterdir())]
    return [name for name in found if name is not None]


@contextmanager
def locked(path: Path) -> Iterator[FileIO | None]:
    """Lock a file during the block, which gets it; None if it is locked, or is gone."""
    try:
        file = path.open("r+b", buffering=0)
    except FileNotFoundError:
        yield None
        return
    with file:
        yield file if _is_locked(file, path) else None


def _is_locked(file: FileIO, path: Path) -> bool:
    """Lock a file; return whether it is locked by this process, and still has its name."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    # Its process may have completed, removed or uploaded it meanwhile.
    return is_same_file(file, path)


@dataclass(slots=True)
class _Writing:
    """File that is being written, and its index."""

    name: WarcName
    file: FileIO
    index: FileIO
    began_s: float
    # Of what is durable.
    size_bytes: int
    index_bytes: int = 0


class WarcFiles:
    """Files of one process in a folder. All methods are called in one thread."""

    def __init__(
        self,
        folder: Path,
        crawl: str,
        maker: RecordMaker,
        *,
        codec: str,
        info: Mapping[str, str],
        max_bytes: int,
        max_age_s: float,
    ) -> None:
        """`info` are the fields of the record at the beginning of each file."""
        self.folder = folder
        self._crawl = _shortened(quote(crawl, safe=""))
        self._maker = maker
        self._packed = CODECS[codec]
        self._info = info
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        # Containers may have the same host name and number: only the last part tells them apart.
        process = f"{gethostname()}.{os.getpid()}.{token_hex(3)}"
        self._process = re.sub(r"[^\w.]", "_", process, flags=re.ASCII)
        self._serial = 0
        self._current: _Writing | None = None

    def append(self, batch: Sequence[Records], now_s: float) -> list[Place]:
        """Append the records of pages; return where each lies, when all of them are durable."""
        writing = self._current or self._begin(now_s)
        places: list[Place] = []
        lines, at = [], writing.size_bytes
        for records in batch:
            at += len(records.data)
            place = _place(writing.name, records, at)
            places.append(place)
            lines.append(_line(records.capture, records.digest, records.mime, place).encoded())
        try:
            append_synced(writing.file, b"".join(records.data for records in batch))
            append_synced(writing.index, b"".join(lines))
        except OSError:
            # The file goes on after what is whole. If that cannot be cut off, a repair does it.
            try:
                writing.file.truncate(writing.size_bytes)
                writing.index.truncate(writing.index_bytes)
            except OSError:
                self._abandon()
            raise
        writing.size_bytes = at
        writing.index_bytes += sum(map(len, lines))
        return places

    def rotate(self, now_s: float, *, at_end: bool = False) -> Callable[[], WarcName] | None:
        """Let the next batch begin a new file if this one is large or old, or at the end.

        Returns the function that completes this one, or None. It takes a while, and may be called
        in another thread.
        """
        writing = self._current
        if writing is None:
            return None
        is_old = now_s - writing.began_s >= self._max_age_s
        if not (at_end or is_old or writing.size_bytes >= self._max_bytes):
            return None
        self._current = None
        return partial(self._complete, writing)

    def _begin(self, now_s: float) -> _Writing:
        at = datetime.fromtimestamp(now_s, UTC)
        with ExitStack() as stack:
            name, file = self._created(at)
            paths = self.folder / f"{name.file}{OPEN}", self.folder / f"{name.index}{OPEN}"
            stack.enter_context(file)
            try:
                index = stack.enter_context(_created(paths[1]))
                info = self._maker.info(name.file, self._info, at)
                append_synced(file, info)
                sync_folder(self.folder)
            except OSError:
                for path in paths:
                    path.unlink(missing_ok=True)
                raise
            stack.pop_all()
        self._current = _Writing(name, file, index, now_s, len(info))
        return self._current

    def _created(self, at: datetime) -> tuple[WarcName, FileIO]:
        """Create the next file, and lock it."""
        for _ in range(_TRIES):
            self._serial += 1
            stem = f"{self._crawl}-{at:%Y%m%d%H%M%S}-{self._process}-{self._serial:05}"
            name = WarcName(stem, self._packed, is_open=True)
            path = self.folder / f"{name.file}{OPEN}"
            file = _created(path)
            if _is_locked(file, path):
                return name, file
            # A repair took it for a file that a dead process left, and removes it.
            file.close()
        raise OSError(errno.EAGAIN, "other processes remove new files")

    def _abandon(self) -> None:
        writing, self._current = self._current, None
        if writing is not None:
            writing.index.close()
            writing.file.close()

    def _complete(self, writing: _Writing) -> WarcName:
        with writing.file, writing.index:
            unsorted = self.folder / f"{writing.name.index}{OPEN}"
            _complete(self.folder, writing.name, whole_lines(unsorted))
        return writing.name


def _shortened(name: str) -> str:
    """Return a name that fits into that of a file, and differs from those of others."""
    if len(name) <= _CRAWL_CHARS:
        return name
    return f"{name[:_CRAWL_CHARS]}~{xxh3_64_hexdigest(name.encode())}"


def check_writable(folder: Path) -> None:
    """Raise OSError if nobody may write to a folder; a full disk is no error."""
    try:
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if not is_full(error):
            raise


def _created(path: Path) -> FileIO:
    """Create a file that is only appended to, also after its end was cut off."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_APPEND, 0o644)

    return FileIO(path, "xb", opener=opener)


def _complete(folder: Path, name: WarcName, lines: Iterable[bytes]) -> None:
    """Write the index of a whole file, and give both their final names. The file is locked."""
    write_sorted(lines, folder / name.index)
    (folder / f"{name.file}{OPEN}").rename(folder / name.file)
    sync_folder(folder)
    # A repair may have been faster.
    (folder / f"{name.index}{OPEN}").unlink(missing_ok=True)


def _place(name: WarcName, records: Records, end: int) -> Place:
    """Return where the records of a page lie that end there."""
    offset, length = end - records.length, records.converted_length
    place: dict[str, str | int] = {"file": name.file, "offset": offset, "length": records.length}
    if length:
        place |= {"rendered_offset": offset - length, "rendered_length": length}
    return place


def _line(capture: Capture, digest: str, mime: str, place: Place) -> Line:
    return line_of(
        capture.uri,
        capture.date,
        mime=mime,
        status=capture.status,
        digest=digest,
        length=place["length"],
        offset=place["offset"],
        filename=place["file"],
        crawl=capture.crawl,
        urlhash=capture.url_hash,
        visit=capture.visit,
    )


# --- repair ---------------------------------------------------------------------------------------


@dataclass(slots=True)
class FolderRepair:
    """What a repair found in a folder, and mended unless it was a dry run."""

    # Files that a process left open, and the bytes of pages in them that are fetched again.
    closed: list[WarcName] = field(default_factory=list)
    cut_bytes: int = 0
    # Complete files that had no index.
    indexed: list[WarcName] = field(default_factory=list)


def repair(folder: Path, *, dry_run: bool = False) -> FolderRepair:
    """Complete what processes left open that died, and make indexes that are missing."""
    found = FolderRepair()
    for name in warc_names(folder):
        try:
            _repair_file(folder, name, found, dry_run=dry_run)
        except (ValueError, KeyError) as error:
            logger.error("%s cannot be read, and stays as it is (%s)", folder / name.file, error)
    for path in folder.glob(f"*{INDEX}{OPEN}"):
        # Its process died when the file had its final name, or before it was begun.
        stem = path.name.removesuffix(f"{INDEX}{OPEN}")
        if not dry_run and not any(folder.glob(f"{_escaped(stem)}{WARC}*{OPEN}")):
            path.unlink(missing_ok=True)
    return found


def _repair_file(folder: Path, name: WarcName, found: FolderRepair, *, dry_run: bool) -> None:
    path = folder / f"{name.file}{OPEN if name.is_open else ''}"
    if not name.is_open and (folder / name.index).exists():
        return
    with locked(path) as file:
        if file is None:
            return
        if name.is_open:
            _repair_open(folder, name, file, found, dry_run=dry_run)
            return
        found.indexed.append(name)
        if not dry_run:
            write_sorted((line.encoded() for line in scan(path, name)), folder / name.index)
            sync_folder(folder)


def _escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


def _repair_open(
    folder: Path, name: WarcName, file: FileIO, found: FolderRepair, *, dry_run: bool
) -> None:
    path, index = folder / f"{name.file}{OPEN}", folder / f"{name.index}{OPEN}"
    size = os.fstat(file.fileno()).st_size

    def stored() -> Iterator[Line]:
        if has_index:
            yield from map(Line.decoded, whole_lines(index))
        else:
            # Somebody deleted or damaged it: all records that are whole count.
            yield from scan(path, name)

    has_index = is_readable(index)
    ends = [line.offset + line.length for line in stored()]
    end = max((each for each in ends if each <= size), default=0)
    if lost := sum(each > size for each in ends):
        logger.error(
            "%s has lost %d pages that were stored in it: its disk did not keep what it confirmed",
            *(path, lost),
        )
    found.closed.append(name)
    found.cut_bytes += size - end
    if dry_run:
        return
    if not end:
        path.unlink(missing_ok=True)
        index.unlink(missing_ok=True)
        return
    file.truncate(end)
    os.fsync(file.fileno())
    kept = (line.encoded() for line in stored() if line.offset + line.length <= end)
    _complete(folder, name, kept)


def is_readable(index: Path) -> bool:
    """Return whether all lines of an index can be read."""
    try:
        for line in whole_lines(index):
            Line.decoded(line)
    except (FileNotFoundError, ValueError):
        return False
    return True


def scan(path: Path, name: WarcName) -> Iterator[Line]:
    """Read a file without an index; yield the line of each capture that is whole."""
    with path.open("rb") as file:
        for start, end, content in members(file, name.packed):
            record = read_record(content)
            line = _captured(record, name, start, end) if record is not None else None
            if line is not None:
                yield line


def _captured(record: WarcRecord, name: WarcName, start: int, end: int) -> Line | None:
    """Return the line of a record; None if it is no capture."""
    headers, kind = record.headers, record.headers.get("WARC-Type")
    uri, date = headers.get("WARC-Target-URI"), headers.get("WARC-Date")
    if kind not in CAPTURES or not uri or not date:
        return None
    return line_of(
        uri,
        date,
        mime=REVISIT if kind == "revisit" else record.http_content_type,
        status=record.http_headers.status_code if record.http_headers is not None else None,
        digest=headers.get("WARC-Payload-Digest"),
        length=end - start,
        offset=start,
        filename=name.file,
        crawl=headers.get("WARC-Crawl"),
        urlhash=headers.get("WARC-URL-Hash"),
        visit=headers.get("WARC-Visit"),
    )


def read_record(data: bytes, *, parse_http: bool = True) -> WarcRecord | None:
    """Read one record that is decompressed; None if there is none.

    The headers of a response are not parsed if one of them is longer than the library allows.
    """
    warc = optional("fastwarc.warc", extra=EXTRA, what="An archive")
    records = warc.ArchiveIterator(BytesIO(data), parse_http=parse_http, strict_mode=False)
    # The library has errors of many classes, also OSError, for what is no record.
    with suppress(Exception):
        for record in records:
            found: WarcRecord = record
            # Its content is in a buffer that the iterator owns.
            found.freeze()
            return found
    return read_record(data, parse_http=False) if parse_http else None


def members(file: BinaryIO, packed: str, start: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """Yield start, end and content of each record that is whole, up to one that is not."""
    file.seek(start)
    rest = b""
    while True:
        member = _Member(packed)
        data, rest = rest, b""
        while (data or (data := file.read(_READ_BYTES))) and not member.feed(data):
            data = b""
        if not member.is_whole:
            return
        rest = member.rest
        end = file.tell() - len(rest)
        yield start, end, member.content
        start = end


class _Member:
    """Record of a file that is read piece by piece."""

    def __init__(self, packed: str) -> None:
        self.is_whole = False
        # Bytes that follow the record.
        self.rest = b""
        self._parts: list[bytes] = []
        self._packed = packed
        self._unpack: Any = None
        if packed == ".gz":
            self._unpack = zlib.decompressobj(31)
        elif packed == ".zst":
            self._unpack = zstandard.ZstdDecompressor().decompressobj()

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)

    def feed(self, data: bytes) -> bool:
        """Take more bytes; return whether the record has ended, or is damaged."""
        if self._unpack is None:
            return self._feed_plain(data)
        try:
            self._parts.append(self._unpack.decompress(data))
        except (zlib.error, zstandard.ZstdError):
            return True
        self.is_whole, self.rest = self._unpack.eof, self._unpack.unused_data
        return self.is_whole

    def _feed_plain(self, data: bytes) -> bool:
        self._parts = [self.content + data]
        (content,) = self._parts
        head, end, _ = content.partition(b"\r\n\r\n")
        if not end:
            return False
        length = _LENGTH.search(head)
        if length is None:
            return True
        size = len(head) + 4 + int(length[1]) + 4
        if len(content) >= size:
            self._parts, self.rest = [content[:size]], content[size:]
            self.is_whole = self._parts[0].endswith(b"\r\n\r\n")
            return True
        return False
