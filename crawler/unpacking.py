"""Unpack a body in steps of so many bytes each, so that no bomb is unpacked further than wanted.

Pure. What is packed more than once, or in another way than it says, is for Scrapy's own functions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Protocol

import brotli  # type: ignore[import-untyped]

# Which module it is depends on the version of Python.
from scrapy.utils._compression import zstd  # type: ignore[attr-defined]

_AS_GZIP = 16 + zlib.MAX_WBITS
# What the unpackers raise at bytes that are not theirs.
# EOFError: there is more behind the end of what was packed.
NotPacked = (zlib.error, brotli.error, zstd.ZstdError, EOFError)


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
