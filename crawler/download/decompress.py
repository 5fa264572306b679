"""Unpack a body in steps of so many bytes each, so that no bomb is unpacked further than wanted.

Pure. What is packed more than once, or in another way than it says, is for Scrapy's own functions.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any, Protocol

import brotli  # type: ignore[import-untyped]

# Which module it is depends on the version of Python.
from scrapy.utils._compression import zstd  # type: ignore[attr-defined]

_AS_GZIP = 16 + zlib.MAX_WBITS
_STEP_BYTES = 1 << 20
# Of brotli, in which its end is looked for.
_PIECE_BYTES = 1024
# What the unpackers raise at bytes that are not theirs.
# EOFError: there is more behind the end of what was packed.
NotPacked = (zlib.error, brotli.error, zstd.ZstdError, EOFError)
# What Scrapy's functions raise at bytes behind the end of what was packed.
HasTail = (brotli.error, zstd.ZstdError)


class Unpacking(Protocol):
    """Of one body."""

    @property
    def is_whole(self) -> bool:
        """All of it was unpacked, and nothing came after it."""

    def more(self, limit: int) -> bytes:
        """The next bytes of it, about so many at the most; fewer if there are no more."""


def unpacking(encoding: bytes, packed: bytes) -> Unpacking | None:
    """None for an encoding that is not known here."""
    start = _STARTS.get(encoding)
    return start(packed) if start else None


def is_whole(encoding: bytes, packed: bytes, max_bytes: int) -> bool:
    """Does a body end where what packed it says that it does? Blocking."""
    begun, size = unpacking(encoding, packed), 0
    try:
        while begun is not None and not begun.is_whole:
            part = begun.more(_STEP_BYTES)
            size += len(part)
            if not (part or begun.is_whole) or (max_bytes and size > max_bytes):
                return False
    except NotPacked:
        return False
    return begun is not None


def before_tail(encoding: bytes, packed: bytes, max_bytes: int) -> bytes:
    """Unpack a body with bytes behind its end that are not packed: Scrapy's functions refuse it.

    No more than one step beyond `max_bytes`. Raises one of NotPacked if the body itself is odd.
    """
    return (_unzstd if encoding == b"zstd" else _unbrotli)(packed, max_bytes or sys.maxsize - 1)


def _unzstd(packed: bytes, max_bytes: int) -> bytes:
    body = b""
    while packed and len(body) <= max_bytes:
        unpacker = zstd.ZstdDecompressor()
        try:
            body += unpacker.decompress(packed, max_bytes + 1 - len(body))
        except zstd.ZstdError:
            if not body:
                raise
            break
        packed = unpacker.unused_data if unpacker.eof else b""
    return body


def _unbrotli(packed: bytes, max_bytes: int) -> bytes:
    """The end is looked for byte by byte: a call with a byte too many fails and gives nothing."""
    good = _bytes_before_failure(packed, max_bytes)
    unpacker = brotli.Decompressor()
    body = _fed(unpacker, packed[:good], max_bytes)
    for at in range(good, len(packed)):
        if unpacker.is_finished() or len(body) > max_bytes:
            break
        body += _fed(unpacker, packed[at : at + 1], max_bytes)
    return body


def _bytes_before_failure(packed: bytes, max_bytes: int) -> int:
    unpacker, size = brotli.Decompressor(), 0
    for at in range(0, len(packed), _PIECE_BYTES):
        if size > max_bytes:
            return at
        try:
            size += len(_fed(unpacker, packed[at : at + _PIECE_BYTES], max_bytes))
        except brotli.error:
            return at
    return len(packed)


def _fed(unpacker: Any, packed: bytes, max_bytes: int) -> bytes:
    body: bytes = unpacker.process(packed, output_buffer_limit=_STEP_BYTES)
    while len(body) <= max_bytes and not unpacker.can_accept_more_data():
        body += unpacker.process(b"", output_buffer_limit=_STEP_BYTES)
    return body


class _Decompressing:
    """By zlib or zstd."""

    def __init__(self, unpacker: Any, packed: bytes) -> None:
        self._unpacker = unpacker
        self._packed = packed

    @property
    def is_whole(self) -> bool:
        return self._unpacker.eof and not self._unpacker.unused_data

    def more(self, limit: int) -> bytes:
        body: bytes = self._unpacker.decompress(self._packed, limit)
        # zstd keeps to itself what it has not come to.
        self._packed = getattr(self._unpacker, "unconsumed_tail", b"")
        return body


class _Brotli:
    def __init__(self, packed: bytes) -> None:
        self._unpacker = brotli.Decompressor()
        self._packed = packed

    @property
    def is_whole(self) -> bool:
        return bool(self._unpacker.is_finished())

    def more(self, limit: int) -> bytes:
        packed, self._packed = self._packed, b""
        body: bytes = self._unpacker.process(packed, output_buffer_limit=limit)
        return body


_STARTS: dict[bytes, Callable[[bytes], Unpacking]] = {
    b"gzip": lambda packed: _Decompressing(zlib.decompressobj(_AS_GZIP), packed),
    b"deflate": lambda packed: _Decompressing(zlib.decompressobj(), packed),
    b"br": _Brotli,
    b"zstd": lambda packed: _Decompressing(zstd.ZstdDecompressor(), packed),
}
