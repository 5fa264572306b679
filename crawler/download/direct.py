"""Send requests through all downloader middlewares, but not through the engine.

Those for robots.txt, and for parts of pages that are rendered: the page that waits for them already
has a place in the engine and in the downloader. Another one would cost twice the room and two
tasks.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.downloader import Downloader

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger(__name__)


class DirectDownloads:
    """Downloads beside those of the engine."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        # Whether Scrapy's downloader delays requests to a host.
        self._is_paced = (
            settings.getbool("AUTOTHROTTLE_ENABLED")
            or settings.getfloat("DOWNLOAD_DELAY") > 0
            or bool(settings.getdict("DOWNLOAD_SLOTS"))
        )

    async def download(self, request: Request) -> Response:
        """Return the response to a request."""
        engine = self._crawler.engine
        assert engine is not None
        downloader = engine.downloader
        if self._is_paced or type(downloader) is not Downloader:
            return await engine.download_async(request)
        found: Request | Response = request
        while isinstance(found, Request):
            request = found
            found = await downloader.middleware.download_async(self._fetch, request)
        found.request = found.request or request
        logger.debug("Crawled (%d) %s", found.status, request)
        self._send(signals.response_received, response=found, request=found.request)
        return found

    async def _fetch(self, request: Request) -> Response:
        assert self._crawler.engine is not None
        self._send(signals.request_reached_downloader, request=request)
        try:
            handlers = self._crawler.engine.downloader.handlers
            response = await handlers.download_request_async(request)
            self._send(signals.response_downloaded, response=response, request=request)
            return response
        finally:
            self._send(signals.request_left_downloader, request=request)

    def _send(self, signal: object, **named: Any) -> None:
        self._crawler.signals.send_catch_log(signal, spider=self._crawler.spider, **named)
