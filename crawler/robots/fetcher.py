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

from crawler.robots.rules import MAX_BYTES, MAX_REDIRECTS, Unreachable, Withheld, judge
from crawler.urls.join import leads_nowhere
from crawler.util.file_limit import OutOfSockets

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# For each of its requests; less if DOWNLOAD_TIMEOUT is.
TIMEOUT_S = 10.0
# Of the lock on a file: renewed with each redirect; not longer, for the host's URLs wait for it if
# its holder dies.
LOCK_S = 2 * TIMEOUT_S
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Fetched:
    """The last answer. Without a status there was none, and `error` says why."""

    status: int | None
    body: bytes = b""
    headers: Headers = field(default_factory=Headers)
    error: str = ""

    def verdict(self) -> bytes | Withheld | Unreachable:
        """What the answer says: rules, that there are none to see, or nothing."""
        return Unreachable(self.error) if self.status is None else judge(self.status, self.body)


class RobotsFetch:
    """Ask hosts for their file."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        # No limit for pages, 0, is none for this: all URLs of its host wait for it.
        self._timeout_s = min(TIMEOUT_S, settings.getfloat("DOWNLOAD_TIMEOUT") or TIMEOUT_S)
        # Then Scrapy's downloader has a say in when a host is contacted.
        self._is_paced = (
            settings.getbool("AUTOTHROTTLE_ENABLED")
            or settings.getfloat("DOWNLOAD_DELAY") > 0
            or bool(settings.getdict("DOWNLOAD_SLOTS"))
        )

    async def answer(
        self, authority: str, meta: dict[str, Any], before: Callable[[], Awaitable[None]]
    ) -> Fetched:
        """The answer for an authority; DownloadCancelledError if it is never connected to.

        OutOfSockets if there was no file descriptor for it.

        What redirects too often, or to nowhere, ends with the status of a redirect. A host that is
        redirected to is contacted at once, whatever its clock says: it is asked for rules, not
        pages. `before` is awaited before each request that follows a redirect.
        """
        url = f"{authority}/robots.txt"
        for hop in range(MAX_REDIRECTS + 1):
            request = Request(
                url,
                # Not for filters such as the offsite one: its page passed them.
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
                await before()
            try:
                response = await self._download(request)
            except DownloadCancelledError as error:
                if hop == 0:
                    raise
                return Fetched(None, error=type(error).__name__)
            except OutOfSockets as error:
                if hop == 0:
                    # It says nothing about the host, which was not contacted.
                    raise
                return Fetched(None, error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - whatever it was, the rules are not known
                return Fetched(None, error=type(error).__name__)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                break
            target = _target(url, location)
            if target is None:
                break
            url = target
        return Fetched(response.status, response.body, response.headers)

    async def _download(self, request: Request) -> Response:
        """What a request gives that passes all middlewares.

        Not by way of the engine: the page that waits for the rules has the engine's place and the
        downloader's already, so another would cost twice the room and two tasks.
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
    """Where a redirect leads to, if there is such a place."""
    if leads_nowhere(location):
        return None
    try:
        target = urljoin(url, safe_url_string(location))
    except ValueError:
        # Brackets or a port that no URL has.
        return None
    return target if target.startswith(("http://", "https://")) else None
