"""Fetch over HTTP with aiohttp: our resolver, a guard at connect time, limits on time and size."""

from __future__ import annotations

import logging
from ipaddress import ip_address
from time import monotonic
from typing import TYPE_CHECKING, Any

import aiohttp
import yarl
from pydispatch.dispatcher import getAllReceivers  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from scrapy.http import Headers
from scrapy.utils._download_handlers import (
    check_stop_download,
    get_dataloss_msg,
    get_warnsize_msg,
    make_response,
)
from scrapy.utils.url import add_http_if_no_scheme

from crawler.fetch_errors import PrivateAddress, TooBig
from crawler.guard import RefusedAddress
from crawler.http_client import MAY_SEND, Answer, HttpClient, timeout_of
from crawler.policy.content_types import AcceptedTypes
from crawler.requests import LEASE, MAY_FETCH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

# Its type is not one of ACCEPT_TYPES: the response has headers only.
TYPE_NOT_ACCEPTED = "type_not_accepted"
_PROXY_AUTHORIZATION = "Proxy-Authorization"


class DownloadHandler(BaseDownloadHandler):
    """One per scheme; the connections behind them are shared."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        assert crawler.stats is not None
        self._count = crawler.stats.inc_value
        self._max_bytes = settings.getint("DOWNLOAD_MAXSIZE")
        self._warn_bytes = settings.getint("DOWNLOAD_WARNSIZE")
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._types = AcceptedTypes(settings.getlist("ACCEPT_TYPES"))
        self._dataloss_said = False
        self._client = HttpClient.join(crawler)

    async def download_request(self, request: Request) -> Response:
        timeout_s = request.meta.get("download_timeout", self._timeout_s)
        started = monotonic()
        MAY_SEND.set(request.meta.get(MAY_FETCH))
        try:
            async with self._client.session.request(
                request.method, timeout=timeout_of(timeout_s), **self._arguments(request)
            ) as answer:
                request.meta["download_latency"] = monotonic() - started
                assert isinstance(answer, Answer)
                return await self._read(request, answer)
        except TimeoutError as error:
            self._count("download/timeouts")
            raise DownloadTimeoutError(
                f"{request.url} took longer than {timeout_s:g} seconds"
            ) from error
        except RefusedAddress as error:
            raise self._refused(request, error) from error
        except aiohttp.ClientConnectorDNSError as error:
            raise CannotResolveHostError(str(error)) from error
        except aiohttp.ClientSSLError as error:
            raise DownloadFailedError(str(error)) from error
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, RefusedAddress):
                raise self._refused(request, error.os_error) from error
            raise DownloadConnectionRefusedError(str(error)) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise UnsupportedURLSchemeError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise DownloadFailedError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        await self._client.leave()

    # -------------------------------------------------------------------------------------------

    def _arguments(self, request: Request) -> dict[str, Any]:
        """The request for aiohttp, with the way of its connection set."""
        url = yarl.URL(request.url, encoded=True)
        proxy = request.meta.get("proxy") or None
        # aiohttp writes UTF-8 and nothing else.
        headers = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, values in request.headers.items()
            for value in values
        ]
        arguments: dict[str, Any] = {
            "url": url,
            "data": request.body or None,
            "headers": headers,
            "allow_redirects": False,
            "ssl": self._client.route(
                by_proxy=proxy is not None, bind=request.meta.get("bindaddress")
            ),
        }
        if proxy is not None:
            # All that can be judged here: the proxy looks names up by itself.
            self._client.guard.check_literal(url.raw_host or "")
            arguments["proxy"] = add_http_if_no_scheme(proxy)
            if url.scheme == "https":
                # For the proxy alone: the server behind the tunnel must not see it.
                secret = [field for field in headers if field[0] == _PROXY_AUTHORIZATION]
                arguments["headers"] = [field for field in headers if field not in secret]
                arguments["proxy_headers"] = dict(secret)
        return arguments

    async def _read(self, request: Request, answer: Answer) -> Response:
        # As bytes: they need not be text in any encoding.
        headers = Headers(list(answer.raw_headers))
        version = answer.version
        arguments: dict[str, Any] = {
            "url": request.url,
            "status": answer.status,
            "headers": headers,
            "ip_address": ip_address(answer.peer.partition("%")[0]) if answer.peer else None,
            "certificate": answer.tls.getpeercert(binary_form=True) if answer.tls else None,
            "protocol": f"HTTP/{version.major}.{version.minor}" if version else None,
        }
        length = None if request.method == "HEAD" else answer.content_length
        if self._is_listened_to(signals.headers_received):
            stop = check_stop_download(
                signals.headers_received,
                self.crawler,
                request,
                headers=headers,
                body_length=length,
            )
            if stop:
                return make_response(**arguments, stop_download=stop)
        if self._is_unwanted(request, answer):
            self._count("download/type_not_accepted")
            return make_response(**arguments, flags=[TYPE_NOT_ACCEPTED])
        body = bytearray()
        try:
            stop = await self._read_body(request, answer, length, body)
        except (aiohttp.ClientPayloadError, aiohttp.http.HttpProcessingError) as error:
            if request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss):
                if not self._dataloss_said:
                    self._dataloss_said = True
                    logger.warning(get_dataloss_msg(request.url))
                raise ResponseDataLossError(str(error)) from error
            return make_response(**arguments, body=bytes(body), flags=["dataloss"])
        return make_response(**arguments, body=bytes(body), stop_download=stop)

    async def _read_body(
        self, request: Request, answer: Answer, length: int | None, body: bytearray
    ) -> Any:
        """Read into `body` as far as the limits go; returns what stopped it, if a signal did."""
        meta = request.meta
        # Read no further than this and keep what came: enough of a robots.txt is enough.
        cut = meta.get("download_cut")
        max_bytes = 0 if cut else meta.get("download_maxsize", self._max_bytes)
        warn_bytes = meta.get("download_warnsize", self._warn_bytes)
        if max_bytes and length is not None and length > max_bytes:
            raise self._too_big(request, length, max_bytes)
        if warn_bytes and length is not None and length > warn_bytes:
            logger.warning(get_warnsize_msg(length, warn_bytes, request, expected=True))
            warn_bytes = 0
        is_listened_to = self._is_listened_to(signals.bytes_received)
        content = answer.content
        while not content.at_eof():
            chunk = await content.readany()
            body += chunk
            if is_listened_to:
                stop = check_stop_download(
                    signals.bytes_received, self.crawler, request, data=chunk
                )
                if stop:
                    return stop
            if cut and len(body) >= cut:
                return None
            if max_bytes and len(body) > max_bytes:
                raise self._too_big(request, len(body), max_bytes)
            if warn_bytes and len(body) > warn_bytes:
                logger.warning(get_warnsize_msg(len(body), warn_bytes, request, expected=False))
                warn_bytes = 0
        return None

    def _is_unwanted(self, request: Request, answer: Answer) -> bool:
        # Without a lease it is no page but, for example, a robots.txt.
        if LEASE not in request.meta or 300 <= answer.status < 400:
            return False
        # A sitemap has many names for its type.
        if request.meta.get("download_any_type"):
            return False
        return answer.headers.get("Content-Type", "") not in self._types

    def _is_listened_to(self, signal: object) -> bool:
        """Sending a signal costs 20 µs, also when nobody listens."""
        return any(True for _ in getAllReceivers(self.crawler, signal))

    def _refused(self, request: Request, error: RefusedAddress) -> PrivateAddress:
        host = yarl.URL(request.url, encoded=True).host_subcomponent or request.url
        self._client.guard.refused(host)
        return PrivateAddress(f"{host}: {error}")

    def _too_big(self, request: Request, size: int, limit: int) -> TooBig:
        self._count("download/too_big")
        return TooBig(f"{request.url} has {size} bytes or more; DOWNLOAD_MAXSIZE is {limit}")
