"""Unpack compressed bodies, as Scrapy does, in half of its time. Downloader middleware.

A body that is packed once and unpacks without ado is unpacked in one call, and its response keeps
its headers. All others, too big ones among them, go to Scrapy's middleware.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

# Which module it is depends on the version of Python.
from scrapy.utils._compression import zstd  # type: ignore[attr-defined]

from crawler import responses
from crawler.fetch_errors import TooBigUnpacked

_AS_GZIP = 16 + zlib.MAX_WBITS


class Decompression(HttpCompressionMiddleware):
    """What is asked for, counted, warned of and refused is Scrapy's affair."""

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        headers = response.headers
        names = dict.get(headers, b"Content-Encoding")
        if not names:
            return response
        max_bytes = request.meta.get("download_maxsize", self._max_size)
        warn_bytes = request.meta.get("download_warnsize", self._warn_size)
        body = None
        if request.method != "HEAD" and len(names) == 1 and max_bytes:
            body = unpacked(names[0], response.body, max_bytes)
        if body is None or (warn_bytes and len(body) >= warn_bytes):
            try:
                return super().process_response(request, response)
            except IgnoreRequest as error:
                # Its only reason, which is recorded with the URL.
                raise TooBigUnpacked(str(error)) from error
        if self.stats is not None:
            self.stats.inc_value("httpcompression/response_bytes", len(body))
            self.stats.inc_value("httpcompression/response_count")
        del headers["Content-Encoding"]
        return responses.make(
            response.url,
            headers,
            body,
            status=response.status,
            flags=response.flags,
            request=response.request,
            certificate=response.certificate,
            ip_address=response.ip_address,
            protocol=response.protocol,
        )


def unpacked(encoding: bytes, packed: bytes, max_bytes: int) -> bytes | None:
    """A body of at most so many bytes; None if it is not, or there is anything odd about it."""
    unpack = _UNPACK.get(encoding)
    if unpack is None:
        return None
    try:
        body = unpack(packed, max_bytes + 1)
    except (zlib.error, brotli.error, zstd.ZstdError):
        return None
    return None if body is None or len(body) > max_bytes else body


def _by_zlib(window_bits: int) -> Callable[[bytes, int], bytes | None]:
    def unpack(packed: bytes, limit: int) -> bytes | None:
        unpacker = zlib.decompressobj(window_bits)
        return _whole(unpacker, unpacker.decompress(packed, limit))

    return unpack


def _unzstd(packed: bytes, limit: int) -> bytes | None:
    unpacker = zstd.ZstdDecompressor()
    return _whole(unpacker, unpacker.decompress(packed, limit))


def _whole(unpacker: Any, body: bytes) -> bytes | None:
    return body if unpacker.eof and not unpacker.unused_data else None


def _unbrotli(packed: bytes, limit: int) -> bytes | None:
    unpacker = brotli.Decompressor()
    body: bytes = unpacker.process(packed, output_buffer_limit=limit)
    return body if unpacker.is_finished() else None


_UNPACK: dict[bytes, Callable[[bytes, int], bytes | None]] = {
    b"gzip": _by_zlib(_AS_GZIP),
    b"deflate": _by_zlib(zlib.MAX_WBITS),
    b"br": _unbrotli,
    b"zstd": _unzstd,
}
