"""Unpack compressed bodies, as Scrapy does, in half of its time. Downloader middleware.

A small body that is packed once and unpacks without ado is unpacked at once. Big ones and odd ones
are unpacked in a thread, the odd ones by Scrapy's functions; which are big shows in unpacking.
"""

from __future__ import annotations

import logging
from asyncio import to_thread
from collections.abc import Coroutine
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.http import Response
from scrapy.utils._compression import _check_max_size, _DecompressionMaxSizeExceeded

from crawler.download.decompress import HasTail, NotPacked, Unpacking, before_tail, unpacking
from crawler.download.errors import TooBigUnpacked
from crawler.download.handler import DATALOSS
from crawler.download.receiver import make_response

logger = logging.getLogger(__name__)

# Unpacked in about a millisecond; the way to a thread and back is a tenth of that.
_INLINE_BYTES = 200_000
# Header values that need no second look.
_PLAIN = frozenset({b"gzip", b"deflate", b"br", b"zstd"})


class Decompression(HttpCompressionMiddleware):
    """What is asked for, counted, warned of and refused is the same as Scrapy's."""

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
        packed, max_bytes = response.body, request.meta.get("download_maxsize", self._max_size)
        if not packed:
            return self._made(request, response, *self._handle_encoding(packed, names, max_bytes))
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
                    return self._made(request, response, body, [])
                if len(body) < _INLINE_BYTES:
                    # It ended early, or something follows it.
                    begun = None
        return self._apart(request, response, names, max_bytes, begun=begun, body=body)

    async def _apart(
        self,
        request: Request,
        response: Response,
        names: list[bytes],
        max_bytes: int,
        *,
        begun: Unpacking | None,
        body: bytes,
    ) -> Response:
        """Unpack the rest of it in a thread, or all of it if it is odd, which is not `begun`."""
        whole = await to_thread(_whole, begun, body, max_bytes) if begun is not None else None
        if whole is not None:
            if len(whole) > max_bytes:
                raise _too_big(response, len(whole), max_bytes)
            return self._made(request, response, whole, [])
        try:
            unpacked, left = await to_thread(self._handle_encoding, response.body, names, max_bytes)
        except _DecompressionMaxSizeExceeded as error:
            raise _too_big(response, error.decompressed_size, max_bytes) from error
        except EOFError:
            # So little of it came that nothing can be unpacked.
            if DATALOSS not in response.flags:
                raise
            unpacked, left = b"", []
        return self._made(request, response, unpacked, left)

    @staticmethod
    def _decode(body: bytes, encoding: bytes, max_size: int) -> bytes:
        try:
            return HttpCompressionMiddleware._decode(  # noqa: SLF001 - of the class above
                body, encoding, max_size
            )
        except HasTail:
            unpacked = before_tail(encoding, body, max_size)
            _check_max_size(len(unpacked), max_size)
            return unpacked

    def _made(
        self, request: Request, response: Response, body: bytes, left: list[bytes]
    ) -> Response:
        """The response with its unpacked body; `left` are encodings that nobody here knows."""
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
    """What a body is packed by, in this order; names that change nothing are left out."""
    names = (name.strip().lower() for value in values for name in value.split(b","))
    return [name for name in names if name not in (b"", b"identity")]


def _whole(begun: Unpacking, body: bytes, max_bytes: int) -> bytes | None:
    """All of a body whose beginning was unpacked, or more than is allowed; None if it is odd."""
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
