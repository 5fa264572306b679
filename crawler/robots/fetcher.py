"""Fetch a robots.txt and follow its redirects, also to other hosts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Headers, Response
from w3lib.url import safe_url_string

from crawler.robots.cache import LOCK_S
from crawler.robots.rules import (
    MAX_BYTES,
    MAX_REDIRECTS,
    ForbiddenFile,
    Unreachable,
    content_of,
)
from crawler.urls.canonical import leads_nowhere
from crawler.util.file_limit import OutOfSockets

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# Limit of each request, unless DOWNLOAD_TIMEOUT is less. The lock is extended between them.
_TIMEOUT_S = LOCK_S / 2
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """Last answer to a request for robots.txt. Without a status `error` says why there is none."""

    status: int | None
    body: bytes = b""
    headers: Headers = field(default_factory=Headers)
    error: str = ""

    def content(self) -> bytes | ForbiddenFile | Unreachable:
        """Interpret the answer: rules, rules that are forbidden to read, or no rules yet."""
        if self.status is None:
            return Unreachable(self.error)
        return content_of(self.status, self.body)


class RobotsFetcher:
    """Fetcher of robots.txt files."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        # Limited even where pages have no limit (0): all URLs of the host wait for the file.
        self._timeout_s = min(_TIMEOUT_S, settings.getfloat("DOWNLOAD_TIMEOUT") or _TIMEOUT_S)
        # Whether Scrapy's downloader delays requests to a host.
        self._is_paced = (
            settings.getbool("AUTOTHROTTLE_ENABLED")
            or settings.getfloat("DOWNLOAD_DELAY") > 0
            or bool(settings.getdict("DOWNLOAD_SLOTS"))
        )

    async def fetch(
        self, authority: str, meta: dict[str, Any], before_redirect: Callable[[], Awaitable[None]]
    ) -> RobotsAnswer:
        """Fetch the robots.txt of an authority.

        Too many redirects, or one to nowhere, give an answer with the status of a redirect. A host
        that is redirected to is contacted at once, whatever its clock says: it is asked for rules,
        not pages. Raises DownloadCancelledError if the host is never connected to, OutOfSockets if
        there was no file descriptor.
        """
        url = f"{authority}/robots.txt"
        for hop in range(MAX_REDIRECTS + 1):
            request = Request(
                url,
                # Filters such as the offsite one do not apply: the page passed them.
                dont_filter=True,
                meta={
                    **meta,
                    "dont_redirect": True,
                    "dont_obey_robotstxt": True,
                    "download_timeout": self._timeout_s,
                    "download_cut": MAX_BYTES + 1,
                },
            )
            if hop:
                await before_redirect()
            try:
                response = await self._download(request)
            except Exception as error:
                if hop == 0 and isinstance(error, DownloadCancelledError | OutOfSockets):
                    # The host was not contacted.
                    raise
                return RobotsAnswer(None, error=type(error).__name__)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                break
            target = _target(url, location)
            if target is None:
                break
            url = target
        return RobotsAnswer(response.status, response.body, response.headers)

    async def _download(self, request: Request) -> Response:
        """Send a request through all middlewares, but not through the engine.

        The page that waits for the rules already has a place in the engine and in the downloader:
        another one would cost twice the room and two tasks.
        """
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


def _target(url: str, location: bytes) -> str | None:
    """Return the target of a redirect, or None if it is no URL of the web."""
    if leads_nowhere(location):
        return None
    try:
        target = urljoin(url, safe_url_string(location))
    except ValueError:
        # Brackets or a port that are not valid in a URL.
        return None
    return target if target.startswith(("http://", "https://")) else None
