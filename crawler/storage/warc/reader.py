"""Read archives: list their files, find and read captures, verify everything, merge the indexes.

An archive is in a folder, in an object store, or in both while files are uploaded.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol, TypeVar

from scrapy.utils.gz import gunzip

from crawler.errors import CrawlerError, NotFound
from crawler.storage.warc.files import (
    CAPTURES,
    INDEX,
    OPEN,
    WarcName,
    is_readable,
    members,
    read_record,
)
from crawler.storage.warc.index import (
    Line,
    find,
    merged,
    timestamp_of,
    whole_lines,
    write_sorted,
)
from crawler.storage.warc.keys import surt
from crawler.storage.warc.records import REVISIT
from crawler.util.decompress import NotPacked, unpacking
from crawler.util.format import plural

if TYPE_CHECKING:
    from fastwarc.warc import WarcRecord

    from crawler.servers.objects import ObjectStore

Read = TypeVar("Read")

_HEAD_END = re.compile(rb"\r?\n\r?\n")
# Captures that are followed from a revisit to its body: not modified, a duplicate, the original.
_CHAIN_MAX = 4
# Damaged places of a file that are listed.
_SHOWN = 10


class Source(Protocol):
    """Place that has files of an archive."""

    # For people.
    where: str

    async def names(self) -> list[tuple[str, int]]:
        """List all files with their sizes."""

    async def read(self, name: str, start: int, length: int) -> bytes:
        """Read a part of a file."""

    async def copy(self, name: str, folder: Path) -> Path:
        """Return a file of this name on this machine, which may be a copy in the folder."""


class FolderSource:
    """Folder with an archive."""

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._folder = folder

    async def names(self) -> list[tuple[str, int]]:
        if not self._folder.is_dir():
            return []
        found = []
        for path in self._folder.iterdir():
            # Processes complete and remove files meanwhile.
            with suppress(FileNotFoundError):
                found.append((path.name, path.stat().st_size))
        return sorted(found)

    async def read(self, name: str, start: int, length: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            file.seek(start)
            return file.read(length)

    async def copy(self, name: str, folder: Path) -> Path:
        return self._folder / name


class StoreSource:
    """Object store with an archive."""

    def __init__(self, store: ObjectStore) -> None:
        self.where = store.url
        self._store = store

    async def names(self) -> list[tuple[str, int]]:
        return sorted([each async for each in self._store.list()])

    async def read(self, name: str, start: int, length: int) -> bytes:
        return await self._store.get_range(name, start, length)

    async def copy(self, name: str, folder: Path) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        await self._store.download(name, path)
        return path


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """WARC file of an archive, and its index."""

    name: WarcName
    size_bytes: int
    # None: there is no index.
    index_bytes: int | None
    source: Source

    @property
    def stored_name(self) -> str:
        return f"{self.name.file}{OPEN if self.name.is_open else ''}"

    @property
    def index_name(self) -> str:
        return f"{self.name.index}{OPEN if self.name.is_open else ''}"


@dataclass(slots=True)
class Verified:
    """What a check of files found."""

    files: int = 0
    size_bytes: int = 0
    records: int = 0
    # Captures, and those of them that the merged index has.
    captures: int = 0
    indexed: int = 0
    damage: list[str] = field(default_factory=list)
    # Number of damaged places, of which `damage` has the first.
    damaged: int = 0

    def add(self, text: str) -> None:
        """Note a damaged place."""
        self.damaged += 1
        if self.damaged <= _SHOWN:
            self.damage.append(text)


class Archive:
    """Archive in one or more places."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    @property
    def where(self) -> str:
        return " and ".join(source.where for source in self._sources)

    async def files(self) -> list[ArchiveFile]:
        """List the files; one that is being uploaded counts once."""
        found: dict[str, ArchiveFile] = {}
        for source in self._sources:
            sizes = dict(await source.names())
            for stored, size in sizes.items():
                name = WarcName.of(stored)
                if name is None or name.file in found:
                    continue
                file = ArchiveFile(name, size, None, source)
                index = sizes.get(file.index_name)
                found[name.file] = ArchiveFile(name, size, index, source)
        return [found[name] for name in sorted(found)]

    async def find(self, urls: Sequence[str], url_hash: str = "") -> list[Line]:
        """Find the captures of a URL in any of these spellings, the latest last.

        If there is none, those of the page with this hash: it may have been fetched by another
        spelling.
        """
        found = await self._find_all(urls)
        if not found and url_hash:
            for file in await self.files():
                found += await self._on(file, partial(_with_hash, url_hash))
            found.sort(key=lambda line: line.timestamp)
        # Of the captures of one visit, the latest.
        return sorted(
            {line.visit: line for line in found}.values(), key=lambda line: line.timestamp
        )

    async def _find_all(self, urls: Sequence[str]) -> list[Line]:
        """Find all captures of a URL in order, also those that a later one of a visit replaced."""
        found: list[Line] = []
        for file in await self.files():
            for key in {surt(url) for url in urls}:
                found += await self._on(file, partial(_with_key, key))
        return sorted(found, key=lambda line: line.timestamp)

    async def _on(self, file: ArchiveFile, read: Callable[[ArchiveFile], Awaitable[Read]]) -> Read:
        """Read from a file, and once more where it is now if it has been completed or uploaded."""
        try:
            return await read(file)
        except (FileNotFoundError, NotFound):
            for now in await self.files():
                if now.name.file == file.name.file:
                    return await read(now)
            raise

    async def read(self, line: Line) -> bytes:
        """Read the record of a capture, as it is in its file; NotFound if the file is gone."""
        wanted = line.fields["filename"]
        # Twice: a file may be completed or uploaded between two of the places.
        for source in (*self._sources, *self._sources):
            for name in (wanted, f"{wanted}{OPEN}"):
                with suppress(FileNotFoundError, NotFound):
                    return await source.read(name, line.offset, line.length)
        raise NotFound(f"{wanted}, in which {line.fields['url']} is, is not in {self.where}.")

    async def payload(self, line: Line) -> tuple[bytes, bytes]:
        """Read head and body of a capture as they came, the body of a revisit where it is."""
        for _ in range(_CHAIN_MAX):
            data = await self.read(line)
            record = unpacked(data, line.fields["filename"], parse_http=False)
            if record.headers.get("WARC-Type") != "revisit":
                return _split(record.reader.read())
            line = await self._original(record, line)
        raise NotFound(f"The body of {line.fields['url']} is in none of the captures before it.")

    async def conversion(self, line: Line) -> bytes:
        """Read the content of a conversion at this place."""
        data = await self.read(line)
        record = unpacked(data, line.fields["filename"], parse_http=False)
        content: bytes = record.reader.read()
        return content

    async def _original(self, revisit: WarcRecord, line: Line) -> Line:
        """Find the capture that a revisit refers to: not a later one, if possible."""
        headers = revisit.headers
        uri = headers.get("WARC-Refers-To-Target-URI") or line.fields["url"]
        date = headers.get("WARC-Refers-To-Date")
        until = timestamp_of(date) if date else line.timestamp
        digest = headers.get("WARC-Payload-Digest")
        if digest is not None:
            found = [
                each
                for each in await self._find_all([uri])
                if each.fields.get("mime") != REVISIT and each.fields.get("digest") == digest
            ]
        else:
            # Not modified since the last time it was there, be it as a revisit.
            found = [
                each
                for each in await self._find_all([uri])
                if each.fields.get("status", "").startswith("2") and each.visit != line.visit
            ]
        if not found:
            raise NotFound(
                f"{line.fields['url']} was not modified or has the body of {uri}, and that is not "
                f"in {self.where}."
            )
        return next((each for each in reversed(found) if each.timestamp <= until), found[0])

    @asynccontextmanager
    async def indexes(self) -> AsyncIterator[Iterator[bytes]]:
        """Merge the indexes of all files: the block gets their lines, in order."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="cdxj-")))
            paths = []
            for file in await self.files():
                if file.index_bytes is None:
                    raise NotFound(
                        f"{file.stored_name} has no index; scrapy pages repair makes it."
                    )
                paths.append(await self._on(file, partial(_sorted_index, folder)))
            yield merged(paths)

    async def verify(self, total: Verified) -> AsyncIterator[ArchiveFile]:
        """Read all records of all files; yields each file when it is checked, and adds it up."""
        for file in await self.files():
            found = await self._on(file, _verified)
            total.files += 1
            total.size_bytes += file.size_bytes
            total.records += found.records
            total.captures += found.captures
            total.damage += [f"{file.stored_name}: {text}" for text in found.damage]
            if found.damaged > _SHOWN:
                total.damage.append(f"{file.stored_name}: {found.damaged - _SHOWN} more like these")
            total.damaged += found.damaged
            yield file
        for name in await self._without_files():
            total.damaged += 1
            total.damage.append(f"{name}: its WARC file is gone")
        with suppress(CrawlerError):
            async with self.indexes() as lines:
                total.indexed = await asyncio.to_thread(lambda: sum(1 for _ in lines))

    async def _without_files(self) -> list[str]:
        """List the indexes whose WARC files are in no place."""
        stems = {file.name.stem for file in await self.files()}
        names = [name for source in self._sources for name, _ in await source.names()]
        return [
            name for name in names if name.endswith(INDEX) and name.removesuffix(INDEX) not in stems
        ]


def unpacked(data: bytes, filename: str, *, parse_http: bool = True) -> WarcRecord:
    """Read the record in these bytes of a file; CrawlerError if they are damaged."""
    name = WarcName.of(filename)
    for _, _, content in members(BytesIO(data), name.packed if name is not None else ""):
        record = read_record(content, parse_http=parse_http)
        if record is not None:
            return record
    raise NotFound(f"A record in {filename} is damaged; scrapy archive verify lists them all.")


def _split(block: bytes) -> tuple[bytes, bytes]:
    """Return the head and the body of a response, however its lines end."""
    end = _HEAD_END.search(block)
    return (block[: end.end()], block[end.end() :]) if end else (block, b"")


_ENCODING = re.compile(rb"^content-encoding[ \t]*:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_STEP_BYTES = 1 << 24


def unpacked_body(head: bytes, body: bytes) -> bytes:
    """Undo the content encodings of a body; one that it does not have is left alone."""
    names = [name.strip().lower() for each in _ENCODING.findall(head) for name in each.split(b",")]
    for name in reversed(names):
        # What is not packed, or is damaged, stays as it is.
        with suppress(OSError, *NotPacked):
            body = _without_encoding(name, body)
    return body


def _without_encoding(name: bytes, body: bytes) -> bytes:
    if name in (b"gzip", b"x-gzip"):
        # Also of several members, and cut ones.
        return gunzip(body)
    begun = unpacking(name, body)
    if begun is None:
        return body
    parts = []
    try:
        while not begun.is_whole and (part := begun.more(_STEP_BYTES)):
            parts.append(part)
    except NotPacked:
        if name != b"deflate":
            raise
        # Some servers leave the frame of zlib out.
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(body)
    return b"".join(parts)


async def _with_key(key: str, file: ArchiveFile) -> list[Line]:
    """Find the captures with this key in a file."""
    if file.index_bytes is None:
        return []
    if file.name.is_open:
        return [line async for line in _lines(file) if line.key == key]

    async def read(start: int, length: int) -> bytes:
        return await file.source.read(file.index_name, start, length)

    return await find(read, file.index_bytes, key)


async def _with_hash(url_hash: str, file: ArchiveFile) -> list[Line]:
    """Find the captures of a page in a file."""
    return [line async for line in _lines(file) if line.fields.get("urlhash") == url_hash]


async def _lines(file: ArchiveFile) -> AsyncIterator[Line]:
    """Yield all lines of an index."""
    with TemporaryDirectory(prefix="cdxj-") as folder:
        if file.index_bytes is None:
            return
        path = await file.source.copy(file.index_name, Path(folder))
        for line in whole_lines(path):
            yield Line.decoded(line)


async def _sorted_index(folder: Path, file: ArchiveFile) -> Path:
    """Return the index of a file, sorted; a copy in the folder if it is not there."""
    path = await file.source.copy(file.index_name, folder)
    if not await asyncio.to_thread(is_readable, path):
        raise NotFound(
            f"{file.index_name} is damaged; delete it, and {_REPAIR}, or scrapy archive verify "
            "finds all damage."
        )
    if not file.name.is_open:
        return path
    target = folder / f"{file.name.index}.sorted"
    await asyncio.to_thread(write_sorted, whole_lines(path), target)
    return target


async def _verified(file: ArchiveFile) -> Verified:
    with TemporaryDirectory(prefix="warc-") as name:
        folder, index = Path(name), None
        path = await file.source.copy(file.stored_name, folder)
        if file.index_bytes is not None:
            index = await file.source.copy(file.index_name, folder)
        return await asyncio.to_thread(_verify, file, path, index)


def _verify(file: ArchiveFile, path: Path, index: Path | None) -> Verified:
    """Check all records of a file, and that its index has the place of each capture."""
    found = Verified()
    lines = _Lines()
    if index is None:
        found.add("it has no index; scrapy pages repair makes it")
    else:
        try:
            for line in map(Line.decoded, whole_lines(index)):
                lines.add(line)
        except ValueError:
            found.add(f"its index is damaged; delete {index.name}, and {_REPAIR}")
    lines.offsets = array("Q", sorted(lines.offsets))
    at: int | None = 0
    with path.open("rb") as opened:
        while at is not None:
            for start, end, content in members(opened, file.name.packed, at):
                at = end
                found.records += 1
                record = read_record(content, parse_http=False)
                if record is None or not _has_digest(record):
                    found.add(f"the record at {start} is damaged")
                elif record.headers.get("WARC-Type") in CAPTURES:
                    found.captures += 1
                    lines.check(record, start, end)
            later = lines.offsets[bisect_left(lines.offsets, at) :]
            # What a process is writing now need not be whole.
            if at < file.size_bytes and (later or not file.name.is_open):
                found.add(f"the record at {at} is damaged")
            at = next((offset for offset in later if offset > at), None)
    if lines.places:
        found.add(f"{plural(len(lines.places), 'line')} of its index have no record")
    if lines.unknown and index is not None and not file.name.is_open:
        lacking = f"its index lacks {plural(lines.unknown, 'capture')}"
        found.add(f"{lacking}; delete {index.name}, and {_REPAIR}")
    return found


_REPAIR = "scrapy pages repair makes it again"


class _Lines:
    """Lines of an index, as far as they are compared with a file."""

    def __init__(self) -> None:
        self.offsets = array("Q")
        # Hash of length and URL by offset, of lines whose record was not found yet.
        self.places: dict[int, int] = {}
        self._visits: set[int] = set()
        # Number of captures that no line has.
        self.unknown = 0

    def add(self, line: Line) -> None:
        self.offsets.append(line.offset)
        self.places[line.offset] = hash((line.length, line.fields["url"]))
        self._visits.add(hash(line.visit))

    def check(self, record: WarcRecord, start: int, end: int) -> None:
        """Find the line of a capture, or of a later one of the same visit."""
        get = record.headers.get
        if self.places.get(start) == hash((end - start, get("WARC-Target-URI"))):
            del self.places[start]
            return
        visit = get("WARC-Crawl"), get("WARC-URL-Hash"), get("WARC-Visit")
        self.unknown += hash(visit) not in self._visits


def _has_digest(record: WarcRecord) -> bool:
    """Return whether the block of a record has the digest that its headers promise, if any."""
    return not record.headers.get("WARC-Block-Digest") or bool(record.verify_block_digest())
