"""Read a body that comes in chunks, as leniently as browsers do. Pure: no I/O.

llhttp refuses chunk lines that end in a line feed only, and does not say at which byte it stopped,
so that nobody could go on from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# What may come between two chunks, or after the last one: a length with its extension, trailers.
MAX_BETWEEN_BYTES = 128 * 1024
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_LAST = re.compile(rb"0+[ \t]*\r?")


class BadChunks(Exception):
    """The bytes where a chunk should begin or end that are neither."""


class Chunks:
    """The reader of one body: takes bytes as they come, gives the parts of the body in them."""

    def __init__(self) -> None:
        # The last chunk came, so that the body is whole; and the empty line after it.
        self.is_last = False
        self.is_ended = False
        # Some line had another form than it should, or something followed the end.
        self.is_odd = False
        # Of the data of the current chunk.
        self._left = 0
        self._is_after_data = False
        # What came of a line that has not ended, and the bytes since the last part of the body.
        self._line = b""
        self._between = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the parts of the body in these bytes; raises BadChunks after the last good one."""
        at, end = 0, len(data)
        while at < end:
            if self._left:
                part = data[at : at + self._left]
                self._left -= len(part)
                at += len(part)
                self._between = 0
                yield part
                continue
            if self.is_ended:
                self.is_odd = True
                return
            stop = data.find(b"\n", at) + 1 or end
            line, at = self._line + data[at:stop], stop
            self._between += len(line) - len(self._line)
            if self._between > MAX_BETWEEN_BYTES:
                raise BadChunks("it has a line without end between its chunks")
            self._line = b"" if line.endswith(b"\n") else line
            if not self._line:
                self._read(line)

    def is_whole(self, *, at_close: bool) -> bool:
        """Did the last chunk come? At the end of a connection its line may have no end."""
        is_begun = not self._is_after_data and _LAST.fullmatch(self._line) is not None
        return self.is_last or (at_close and is_begun)

    def _read(self, line: bytes) -> None:
        """Take a whole line."""
        if not line.endswith(b"\r\n"):
            self.is_odd = True
        text = line.rstrip(b"\r\n")
        if self._is_after_data:
            if text:
                raise BadChunks("a chunk is longer than it says")
            self._is_after_data = False
        elif self.is_last:
            # Trailers are for nobody.
            self.is_ended = not text
        else:
            size = text.partition(b";")[0].strip(b" \t")
            if _SIZE.fullmatch(size) is None:
                raise BadChunks("a chunk has no length")
            self._left = int(size, 16)
            self._is_after_data = self._left > 0
            self.is_last = not self._left
