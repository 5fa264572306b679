"""Fetch over HTTP with aiohttp: our resolver, a guard at connect time, limits on time and size."""

from __future__ import annotations

import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from aiohttp.client_exceptions import ClientConnectorDNSError
from scrapy import signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers
from scrapy.utils._download_handlers import check_stop_download, make_response
from scrapy.utils.ssl import _make_ssl_context

from crawler.resolver import Guard, RefusedAddress, Resolver

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_MAX_HEADER_BYTES = 32 * 1024


class DownloadHandler(BaseDownloadHandler):
    """One per scheme; the session inside is bounded by the engine's concurrency."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self._guard = Guard(settings.getlist("ALLOW_NETWORKS"))
        self._max_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._ssl = _make_ssl_context(settings)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=Resolver(settings.getdict("DNS_OVERRIDES")),
                use_dns_cache=True,
                ttl_dns_cache=60,
                limit=0,
                keepalive_timeout=settings.getfloat("DOWNLOAD_KEEPALIVE"),
                socket_factory=self._socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            max_line_size=_MAX_HEADER_BYTES,
            max_field_size=_MAX_HEADER_BYTES,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        )

        # aiohttp would repeat a request at once when a kept connection breaks; when a host is
        # contacted again is the frontier's decision.
        self._session._retry_connection = False  # noqa: SLF001 - there is no public switch

    async def download_request(self, request: Request) -> Response:
        timeout_s = request.meta.get("download_timeout", self._timeout_s)
        started = monotonic()
        try:
            async with self._session.request(
                request.method,
                yarl.URL(request.url, encoded=True),
                data=request.body or None,
                headers=[
                    # aiohttp writes UTF-8 and nothing else.
                    (name.decode("latin-1"), value.decode("utf-8", "replace"))
                    for name, values in request.headers.items()
                    for value in values
                ],
                timeout=aiohttp.ClientTimeout(total=timeout_s),
                ssl=self._ssl,
                allow_redirects=False,
                proxy=request.meta.get("proxy"),
            ) as response:
                request.meta["download_latency"] = monotonic() - started
                return await self._read(request, response)
        except TimeoutError as error:
            raise DownloadTimeoutError(
                f"{request.url} took longer than {timeout_s:g} seconds"
            ) from error
        except aiohttp.InvalidURL as error:
            raise UnsupportedURLSchemeError(str(error)) from error
        except ClientConnectorDNSError as error:
            raise CannotResolveHostError(str(error)) from error
        except RefusedAddress as error:
            raise DownloadCancelledError(str(error)) from error
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, RefusedAddress):
                raise DownloadCancelledError(str(error.os_error)) from error
            raise DownloadConnectionRefusedError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise DownloadFailedError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._session.close()

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        """aiohttp asks for a socket per address it is about to connect to: the place to judge."""
        family, kind, protocol, _, target = address
        self._guard.check(target[0])
        sock = socket.socket(family=family, type=kind, proto=protocol)
        sock.setblocking(False)
        return sock

    async def _read(self, request: Request, response: aiohttp.ClientResponse) -> Response:
        # As bytes: they need not be text in any encoding.
        headers = Headers(list(response.raw_headers))
        arguments: dict[str, Any] = {
            "url": request.url,
            "status": response.status,
            "headers": headers,
            "protocol": "HTTP/1.1",
        }
        max_bytes = request.meta.get("download_maxsize", self._max_bytes)
        # Read no further than this and keep what came: enough of a robots.txt is enough.
        cut = request.meta.get("download_cut")
        length = None if cut else response.content_length
        if max_bytes and length is not None and length > max_bytes:
            raise self._too_big(request, length, max_bytes)
        stop = check_stop_download(
            signals.headers_received,
            self.crawler,
            request,
            headers=headers,
            body_length=length,
        )
        if stop:
            return make_response(**arguments, stop_download=stop)
        body = bytearray()
        try:
            async for chunk in response.content.iter_any():
                body += chunk
                if cut and len(body) >= cut:
                    break
                if max_bytes and len(body) > max_bytes:
                    raise self._too_big(request, len(body), max_bytes)
        except aiohttp.ClientPayloadError as error:
            raise ResponseDataLossError(str(error)) from error
        return make_response(**arguments, body=bytes(body))

    @staticmethod
    def _too_big(request: Request, size: int, limit: int) -> DownloadCancelledError:
        return DownloadCancelledError(
            f"{request.url} has {size} bytes or more; DOWNLOAD_MAXSIZE is {limit}"
        )
