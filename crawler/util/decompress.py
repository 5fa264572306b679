"""Unpack a body in steps of a given size, so that a bomb is not unpacked beyond the limit.

Bodies with several encodings, or with a wrong one, are left to Scrapy's own functions.
"""

import re
import sys
import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]

# Which module it is depends on the version of Python.
from scrapy.utils._compression import zstd  # type: ignore[attr-defined]

# The interface of zlib. isal takes less than half of the time, but has no wheel for some platforms.
inflate: Any
try:
    from isal import isal_zlib
except ImportError:
    inflate = zlib
else:
    inflate = isal_zlib

_STEP_BYTES = 1 << 20
# Brotli is unpacked in pieces of this size to find its end.
_PIECE_BYTES = 1024
# Raised for bytes that were packed otherwise or not at all. EOFError: bytes follow the end.
NotPacked: tuple[type[Exception], ...] = (
    *(zlib.error, inflate.error, brotli.error, zstd.ZstdError),
    EOFError,
)
# Raised by Scrapy's function for bytes that follow the end.
HasTail = (brotli.error,)
# Encodings whose bodies may have several parts: members of gzip, frames of zstd. Of more than this
# the rest is left out: ten megabytes of empty ones would take a thread ten seconds.
IN_PARTS = frozenset({b"gzip", b"x-gzip", b"zstd"})
_PARTS_MAX = 1000
_INPUT_BYTES = 1 << 16
_NOT_ZERO = re.compile(rb"[^\0]")
_UNPACKERS: dict[bytes, Callable[[], Any]] = {
    b"gzip": lambda: inflate.decompressobj(16 + zlib.MAX_WBITS),
    b"deflate": inflate.decompressobj,
    b"br": brotli.Decompressor,
    b"zstd": zstd.ZstdDecompressor,
}


class Unpacking:
    """State of unpacking one body."""

    def __init__(self, encoding: bytes, packed: bytes) -> None:
        self._is_brotli = encoding == b"br"
        self._unpacker = _UNPACKERS[encoding]()
        self._packed = packed

    @property
    def is_whole(self) -> bool:
        """Whether all of the body was unpacked, and nothing follows it."""
        if self._is_brotli:
            return bool(self._unpacker.is_finished())
        return self._unpacker.eof and not self._unpacker.unused_data

    def more(self, limit: int) -> bytes:
        """Unpack the next bytes, about `limit` at most; fewer if there are no more."""
        body: bytes
        if self._is_brotli:
            body = self._unpacker.process(self._packed, output_buffer_limit=limit)
        else:
            body = self._unpacker.decompress(self._packed, limit)
        # Only these two hand back the bytes that they have not read.
        self._packed = getattr(self._unpacker, "unconsumed_tail", b"")
        return body


def unpacking(encoding: bytes, packed: bytes) -> Unpacking | None:
    """Begin to unpack a body; None for an unknown encoding."""
    return Unpacking(encoding, packed) if encoding in _UNPACKERS else None


def is_whole(encoding: bytes, packed: bytes, max_bytes: int) -> bool:
    """Return whether a packed body is complete and nothing follows it. Blocking."""
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


def unpack_parts(encoding: bytes, packed: bytes, max_bytes: int) -> bytes:
    """Unpack a body of one part or several; what comes after damage is left out.

    Unpacks at most one step beyond `max_bytes`. Raises one of NotPacked if nothing can be unpacked.
    """
    body, at, most = bytearray(), 0, max_bytes or sys.maxsize - 1
    make = _UNPACKERS[b"zstd" if encoding == b"zstd" else b"gzip"]
    for _ in range(_PARTS_MAX):
        unpacker, data = make(), b""
        try:
            while not unpacker.eof and len(body) <= most:
                if not data and _takes_input(unpacker):
                    data = packed[at : at + _INPUT_BYTES]
                    at += len(data)
                    if not data:
                        raise EOFError("the body ends too early")
                body += unpacker.decompress(data, min(_STEP_BYTES, most + 1 - len(body)))
                # Only zlib hands back the bytes that it has not read.
                data = getattr(unpacker, "unconsumed_tail", b"")
        except NotPacked:
            if not body:
                raise
            break
        if len(body) > most:
            break
        at -= len(unpacker.unused_data)
        padded = _NOT_ZERO.search(packed, at)
        if padded is None:
            break
        at = padded.start()
    return bytes(body)


def _takes_input(unpacker: Any) -> bool:
    """Whether an unpacker has no more to give of what it got."""
    return bool(getattr(unpacker, "needs_input", True))


def before_tail(packed: bytes, max_bytes: int) -> bytes:
    """Unpack a body of brotli that other bytes follow, which Scrapy's function refuses.

    Unpacks at most one step beyond `max_bytes`. Raises one of NotPacked if the body is damaged.
    """
    return _unbrotli(packed, max_bytes or sys.maxsize - 1)


def _unbrotli(packed: bytes, max_bytes: int) -> bytes:
    """Unpack up to the end, found byte by byte: a call with a byte too many gives nothing."""
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
