"""Release a host when a fetch ended, with the delay to its next one. Downloader middleware."""

from __future__ import annotations

import logging
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Self

from scrapy import signals

from crawler.download.errors import failure_of
from crawler.monitoring.process_stats import ProcessStats
from crawler.politeness.host_delays import Fetch, HostDelays, retry_after_s
from crawler.scheduler import Scheduler
from crawler.scheduling.options import CrawlOptions
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import CRAWL_DELAY, FETCH, FETCH_STARTED, LEASE, MAY_FETCH

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from crawler.frontier import Lease

logger = logging.getLogger(__name__)


class PolitenessMiddleware:
    """Downloader middleware nearest to the downloader, so that it times only the fetch."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._host_delays = HostDelays.of(crawler)
        self._observe = ProcessStats.of(crawler).fetch.observe

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        _warn_of_other_delays(crawler.settings)
        middleware = cls(crawler)
        crawler.signals.connect(middleware._opened, signals.spider_opened)
        return middleware

    async def _opened(self) -> None:
        await self._host_delays.open()
        self._scheduler.options_watcher.subscribe(self._use)

    @cached_property
    def _scheduler(self) -> Scheduler:
        return Scheduler.of(self._crawler)

    def _use(self, now: CrawlOptions) -> None:
        self._host_delays.delays = now.host_delays

    def process_request(self, request: Request) -> Request | None:
        lease = request.meta.get(LEASE)
        if lease is not None:
            leases = self._scheduler.leases
            if not leases.may_fetch(lease):
                # Another process may be fetching from this host by now.
                return leases.put_off(request, 0)
            request.meta[MAY_FETCH] = partial(leases.may_fetch, lease)
            if lease.entry.attempts == 0 and self._scheduler.recrawls.was_visited(lease.entry):
                self._scheduler.count("recrawls/begun")
        request.meta[FETCH_STARTED] = monotonic()
        return None

    async def process_response(self, request: Request, response: Response) -> Response:
        # Not by its get(): the names of headers are written like this one already.
        asked = dict.get(response.headers, b"Retry-After")
        wait = retry_after_s(asked[-1]) if asked else None
        lease = await self._release(request, response.status, retry_after=wait)
        if lease is not None:
            await self._host_delays.answered(lease.entry.host)
        return response

    async def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, OutOfSockets):
            # The host was not contacted: its lease is handed back as it is.
            request.meta.pop(FETCH_STARTED, None)
            return
        # The host has answered if only what was to be made of its response failed.
        answered = FETCH in request.meta or failure_of(exception).answered
        lease = await self._release(request, None, unanswered=answered is False)
        if lease is not None and answered:
            await self._host_delays.answered(lease.entry.host)

    async def _release(
        self,
        request: Request,
        status: int | None,
        *,
        retry_after: float | None = None,
        unanswered: bool = False,
    ) -> Lease | None:
        started = request.meta.pop(FETCH_STARTED, None)
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None or started is None:
            # No lease, or a middleware ended the request before it was fetched.
            return None
        # What was made of the response is not the host's time. Its clock starts now all the same.
        fetch = request.meta.pop(FETCH, None) or Fetch(monotonic() - started, status, retry_after)
        self._observe(fetch.duration_s)
        request.meta["fetch_ms"] = round(fetch.duration_s * 1000)
        delay = await self._host_delays.after(
            lease.entry.host,
            fetch,
            crawl_delay_s=request.meta.get(CRAWL_DELAY, 0.0),
            unanswered=unanswered,
        )
        self._scheduler.leases.release(lease, delay.ms, usual=delay.is_usual)
        return lease


def _warn_of_other_delays(settings: BaseSettings) -> None:
    """Warn of Scrapy's own delays: they are added, and make hosts look slow."""
    for name, is_on in (
        ("DOWNLOAD_DELAY", settings.getfloat("DOWNLOAD_DELAY") > 0),
        ("AUTOTHROTTLE_ENABLED", settings.getbool("AUTOTHROTTLE_ENABLED")),
    ):
        if is_on:
            logger.warning(
                "%s is %s: Scrapy waits in each process, on top of the frontier's delays, and "
                "hosts look slow. Remove it from your settings; DELAY_MIN and DELAY_FACTOR apply "
                "to the whole fleet",
                *(name, settings[name]),
            )
