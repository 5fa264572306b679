"""Scrapy's download handler over our HTTP client: the time limit, and Scrapy's responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.exceptions import DownloadTimeoutError, ResponseDataLossError
from scrapy.utils._download_handlers import get_dataloss_msg

from crawler.download.address_guard import RefusedAddress
from crawler.download.client import HttpClient
from crawler.download.errors import PrivateAddress
from crawler.download.receiver import DATALOSS, DownloadLimits, Receiver
from crawler.download.request_writer import write
from crawler.download.response_parser import Truncated
from crawler.util.decompress import is_whole
from crawler.util.request_meta import FINISH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)

# See request_meta.FINISH.
Finish = Callable[["Request", "Response"], Awaitable["Response"]]


class DownloadHandler(BaseDownloadHandler):
    """Handler of one scheme; all handlers of a crawl share a client."""

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        settings = crawler.settings
        self._limits = DownloadLimits.from_crawler(crawler)
        self._timeout_s = settings.getfloat("DOWNLOAD_TIMEOUT")
        self._fail_on_dataloss = settings.getbool("DOWNLOAD_FAIL_ON_DATALOSS")
        self._dataloss_logged = False
        self._client = HttpClient.join(crawler)

    async def download_request(self, request: Request) -> Response:
        self._limits.postpone_document(request)
        timeout_s = request.meta.get("download_timeout", self._timeout_s)
        receiver = Receiver(request, self._limits)
        try:
            # The limit includes the lookup, the connection and the last byte of the body.
            async with asyncio.timeout(timeout_s or None):
                await self._client.fetch(request, receiver)
        except TimeoutError as error:
            self._limits.count("download/timeouts")
            raise DownloadTimeoutError(
                f"{request.url} took longer than {timeout_s:g} seconds"
            ) from error
        except RefusedAddress as error:
            host = write(request).origin.name
            self._client.guard.refused(host)
            raise PrivateAddress(f"{host}: {error}") from error
        except Truncated as error:
            if not await self._is_whole(receiver):
                self._check_loss(request, error)
                receiver.flags += [DATALOSS, f"{DATALOSS}:{error.cause}"]
        response = receiver.response()
        finish: Finish | None = request.meta.get(FINISH)
        return response if finish is None else await finish(request, response)

    async def close(self) -> None:
        await self._client.leave()

    async def _is_whole(self, receiver: Receiver) -> bool:
        """Return whether a packed body has its own end: some servers send the unpacked length."""
        encodings = receiver.headers.getlist("Content-Encoding")
        return len(encodings) == 1 and await asyncio.to_thread(
            is_whole, encodings[0], receiver.content, self._limits.max_bytes
        )

    def _check_loss(self, request: Request, error: Truncated) -> None:
        """Raise ResponseDataLossError unless incomplete bodies are wanted."""
        if request.meta.get("download_fail_on_dataloss", self._fail_on_dataloss):
            if not self._dataloss_logged:
                self._dataloss_logged = True
                logger.warning(get_dataloss_msg(request.url))
            raise ResponseDataLossError(str(error)) from error
