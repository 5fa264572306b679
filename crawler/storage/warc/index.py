"""CDXJ indexes: a line for each capture, in the order of their keys (SURT) and times. Blocking.

    test,s0)/ 20261118042500 {"url": …, "mime": …, "status": …, "digest": …, "length": …,
        "offset": …, "filename": …, "crawl": …, "urlhash": …, "visit": …}

Replay tools read the fields up to the filename. The last three tell which visit of a page it was: a
page that was fetched twice, because a process died before it counted as stored, has two captures
with the same ones. `distinct` keeps the later one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from crawler.storage.warc.keys import surt

# Lines that are sorted at once: longer runs would keep other threads waiting.
_RUN_LINES = 5000
# Files that are merged at once.
_MERGED_MAX = 100
# Bytes that a search reads at once.
_BLOCK_BYTES = 16 * 1024


class Line(NamedTuple):
    """Line of an index."""

    key: str
    timestamp: str
    fields: dict[str, str]

    @property
    def visit(self) -> tuple[str, ...]:
        """Identity of the visit; captures of other programs are told apart by their place."""
        fields = self.fields
        if {"crawl", "urlhash", "visit"} <= fields.keys():
            return fields["crawl"], fields["urlhash"], fields["visit"]
        return fields["filename"], fields["offset"]

    @property
    def offset(self) -> int:
        return int(self.fields["offset"])

    @property
    def length(self) -> int:
        return int(self.fields["length"])

    def encoded(self) -> bytes:
        return f"{self.key} {self.timestamp} {json.dumps(self.fields)}\n".encode()

    @classmethod
    def decoded(cls, line: bytes) -> Line:
        """Read a line; ValueError if it is none."""
        key, timestamp, fields = line.decode().split(" ", 2)
        try:
            found = json.loads(fields)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(found, dict) or not {"url", "offset", "length", "filename"} <= {*found}:
            raise ValueError("a field is missing")
        if not all(isinstance(value, str) for value in found.values()):
            # Other programs write numbers as such.
            found = {name: str(value) for name, value in found.items()}
        if not (found["offset"].isdecimal() and found["length"].isdecimal()):
            raise ValueError("a place is no number")
        return cls(key, timestamp, found)


def line_of(url: str, date: str, **fields: Any) -> Line:
    """Make a line; `date` is that of the record, as 2026-11-18T04:25:00Z."""
    timestamp = timestamp_of(date)
    values = {name: str(value) for name, value in fields.items() if value}
    return Line(surt(url), timestamp, {"url": url, **values, "offset": str(fields["offset"])})


def timestamp_of(date: str) -> str:
    """Return the date of a record as indexes have it: 20261118042500."""
    return "".join(filter(str.isdigit, date))[:14]


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of an index that is being written; a cut one at the end is left out."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield line


def distinct(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield sorted lines, of captures of one visit only the latest."""
    for _, group in groupby(lines, lambda line: line.partition(b" ")[0]):
        found = list(group)
        if len(found) > 1:
            found = sorted({Line.decoded(each).visit: each for each in found}.values())
        yield from found


def write_sorted(lines: Iterable[bytes], path: Path) -> int:
    """Write an index in order, whole or not at all; return the number of its lines."""
    lines, number = iter(lines), 0
    part = path.with_name(f"{path.name}.part")
    with ExitStack() as stack:
        runs: list[IO[bytes]] = []
        while run := sorted(islice(lines, _RUN_LINES)):
            runs.append(_written(run, stack, path.parent))
            if len(runs) == _MERGED_MAX:
                # As file descriptors are few.
                whole = _written(merge(*runs), stack, path.parent)
                for file in runs:
                    file.close()
                runs = [whole]
        try:
            with part.open("wb") as out:
                for line in distinct(merge(*runs)):
                    out.write(line)
                    number += 1
                out.flush()
                os.fsync(out.fileno())
        except OSError:
            part.unlink(missing_ok=True)
            raise
    part.replace(path)
    return number


def _written(lines: Iterable[bytes], stack: ExitStack, folder: Path | None = None) -> IO[bytes]:
    """Write lines to a temporary file that is closed with the stack, and begin to read it."""
    file = stack.enter_context(TemporaryFile(dir=folder))  # noqa: SIM115 - the stack closes it
    file.writelines(lines)
    file.seek(0)
    return file


def merged(paths: Sequence[Path]) -> Iterator[bytes]:
    """Yield the lines of sorted indexes, in order and of one visit only the latest."""
    with ExitStack() as stack:
        yield from distinct(_merged(paths, stack))


def _merged(paths: Sequence[Path], stack: ExitStack) -> Iterable[bytes]:
    if len(paths) <= _MERGED_MAX:
        return merge(*(stack.enter_context(path.open("rb")) for path in paths))
    files: list[IO[bytes]] = []
    size = -(-len(paths) // _MERGED_MAX)
    for at in range(0, len(paths), size):
        with ExitStack() as inner:
            files.append(_written(_merged(paths[at : at + size], inner), stack))
    return merge(*files)


Read = Callable[[int, int], Awaitable[bytes]]


async def find(read: Read, size_bytes: int, key: str) -> list[Line]:
    """Search a sorted index for a key. `read` gets an offset and a number of bytes."""
    wanted = f"{key} ".encode()
    low, high = 0, size_bytes
    # `low` is where a line begins that is not after the wanted ones.
    while high - low > _BLOCK_BYTES:
        middle = (low + high) // 2
        at, line = await _line_after(read, middle, size_bytes)
        if line and line < wanted:
            low = at
        else:
            high = middle
    found, data = [], b""
    while low < size_bytes:
        data += await read(low, min(_BLOCK_BYTES, size_bytes - low))
        low += _BLOCK_BYTES
        *lines, data = data.split(b"\n")
        found += [Line.decoded(line) for line in lines if line.startswith(wanted)]
        if lines and lines[-1] > wanted and not lines[-1].startswith(wanted):
            break
    return found


async def _line_after(read: Read, at: int, size_bytes: int) -> tuple[int, bytes]:
    """Return the first whole line that begins after an offset, and where; empty if none does."""
    data = b""
    while at + len(data) < size_bytes:
        data += await read(at + len(data), min(_BLOCK_BYTES, size_bytes - at - len(data)))
        begin = data.find(b"\n") + 1
        end = data.find(b"\n", begin) + 1
        if begin and end:
            return at + begin, data[begin:end]
    return size_bytes, b""
