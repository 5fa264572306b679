"""Decompress bodies as Scrapy does, in less than half of the time. Downloader middleware.

A small body with one encoding is decompressed at once. A body that turns out to be large is
decompressed to its end in a thread. So is any irregular body, by Scrapy's own functions if it has
no parts.
"""

import logging
import struct
from asyncio import to_thread
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Response
from scrapy.utils._compression import _check_max_size, _DecompressionMaxSizeExceeded

from crawler.download.errors import BadEncoding, TooBigUnpacked
from crawler.download.receiver import DATALOSS, make_response
from crawler.util.decompress import (
    IN_PARTS,
    HasTail,
    NotPacked,
    Unpacking,
    before_tail,
    unpack_parts,
    unpacking,
)

logger = logging.getLogger(__name__)

# Decompressed in about half a millisecond; the switch to a thread and back takes a quarter of that.
_INLINE_BYTES = 500_000
# Also what Scrapy's functions raise.
_NOT_PACKED: tuple[type[Exception], ...] = (*NotPacked, OSError, struct.error)
# Encodings of a body: each one may take as long as the first.
_ENCODINGS_MAX = 5
# Header values that need no parsing.
_PLAIN = frozenset({b"gzip", b"deflate", b"br", b"zstd"})


class Decompression(HttpCompressionMiddleware):
    """Scrapy's HttpCompressionMiddleware, with the same headers, stats, warnings and limits."""

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Response | Coroutine[Any, Any, Response]:
        names = dict.get(response.headers, b"Content-Encoding")
        if not names or request.method == "HEAD":
            return response
        if len(names) > 1 or names[0] not in _PLAIN:
            names = _named(names)
            if not names:
                return response
            if len(names) > _ENCODINGS_MAX:
                raise BadEncoding(
                    f"The body of {response.url} is said to be packed {len(names)} times; "
                    f"at most {_ENCODINGS_MAX} are unpacked"
                )
        packed, max_bytes = response.body, request.meta.get("download_maxsize", self._max_size)
        if not packed:
            return self._response(
                request, response, *self._handle_encoding(packed, names, max_bytes)
            )
        begun = unpacking(names[0], packed) if len(names) == 1 and max_bytes else None
        body = b""
        if begun is not None and len(packed) <= _INLINE_BYTES:
            try:
                body = begun.more(min(_INLINE_BYTES, max_bytes + 1))
            except NotPacked:
                begun = None
            else:
                if len(body) > max_bytes:
                    raise _too_big(response, len(body), max_bytes)
                if begun.is_whole:
                    return self._response(request, response, body, [])
                if len(body) < _INLINE_BYTES:
                    # The body is cut off, or other bytes follow it.
                    begun = None
        return self._in_thread(request, response, names, max_bytes, begun=begun, body=body)

    async def _in_thread(
        self,
        request: Request,
        response: Response,
        names: list[bytes],
        max_bytes: int,
        *,
        begun: Unpacking | None,
        body: bytes,
    ) -> Response:
        """Decompress the rest of a body in a thread; all of it if it is irregular (no `begun`)."""
        whole = await to_thread(_whole, begun, body, max_bytes) if begun is not None else None
        if whole is not None:
            if len(whole) > max_bytes:
                raise _too_big(response, len(whole), max_bytes)
            return self._response(request, response, whole, [])
        try:
            unpacked, left = await to_thread(self._handle_encoding, response.body, names, max_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise _too_big(response, error.decompressed_size, max_bytes) from error
        except _NOT_PACKED as error:
            # Too little of the body may have arrived to decompress anything.
            if not isinstance(error, EOFError) or DATALOSS not in response.flags:
                said = b", ".join(names).decode("latin-1")
                raise BadEncoding(
                    f"The body of {response.url} is said to be {said} and cannot be unpacked: "
                    f"{error}"
                ) from error
            unpacked, left = b"", []
        return self._response(request, response, unpacked, left)

    @staticmethod
    def _decode(body: bytes, encoding: bytes, max_size: int) -> bytes:
        if encoding in IN_PARTS:
            with suppress(*NotPacked):
                unpacked = unpack_parts(encoding, body, max_size)
                _check_max_size(len(unpacked), max_size)
                return unpacked
        # Its first part is damaged. What comes before the damage is taken.
        try:
            return HttpCompressionMiddleware._decode(  # noqa: SLF001 - of the base class
                body, encoding, max_size
            )
        except HasTail:
            unpacked = before_tail(body, max_size)
            _check_max_size(len(unpacked), max_size)
            return unpacked

    def _response(
        self, request: Request, response: Response, body: bytes, left: list[bytes]
    ) -> Response:
        """Make the response with the decompressed body; `left` are the unknown encodings."""
        headers = response.headers
        warn_bytes = request.meta.get("download_warnsize", self._warn_size)
        if len(response.body) < warn_bytes <= len(body):
            logger.warning(
                "%s has %d bytes unpacked, more than the download warning size (%d)",
                response,
                len(body),
                warn_bytes,
            )
        if self.stats is not None:
            self.stats.inc_value("httpcompression/response_bytes", len(body))
            self.stats.inc_value("httpcompression/response_count")
        if left:
            self._warn_unknown_encoding(response, left)
            headers["Content-Encoding"] = left
        else:
            del headers["Content-Encoding"]
        return make_response(
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


def _named(values: list[bytes]) -> list[bytes]:
    """List the encodings of a body in the order they were applied, without `identity`."""
    names = (name.strip().lower() for value in values for name in value.split(b","))
    return [name for name in names if name not in (b"", b"identity")]


def _whole(begun: Unpacking, body: bytes, max_bytes: int) -> bytes | None:
    """Decompress a body to its end, or just beyond `max_bytes`; None if it is irregular."""
    try:
        body += begun.more(max_bytes + 1 - len(body))
    except NotPacked:
        return None
    return body if begun.is_whole or len(body) > max_bytes else None


def _too_big(response: Response, size: int, max_bytes: int) -> TooBigUnpacked:
    text = (
        f"Ignored response {response} because its body ({len(response.body)} B compressed, "
        f"{size} B decompressed so far) exceeded DOWNLOAD_MAXSIZE ({max_bytes} B) during "
        "decompression."
    )
    logger.warning(text)
    return TooBigUnpacked(text)
