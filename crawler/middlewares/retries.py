"""Retry the statuses of RETRY_HTTP_CODES, through the frontier. Downloader middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawler.config.values import value
from crawler.politeness.host_delays import retry_after_s
from crawler.scheduler import Scheduler
from crawler.scheduling.outcome import Retry
from crawler.util.request_meta import GIVEN_UP, LEASE

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response


class Retries:
    """Downloader middleware nearest to the engine: all others get the response before."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._statuses = frozenset(value(crawler.settings, "RETRY_HTTP_CODES"))
        # A user who sets it has decided what to do with truncated bodies.
        self._keeps_truncated = not crawler.settings.getpriority("DOWNLOAD_FAIL_ON_DATALOSS")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        lease = request.meta.get(LEASE) if self._keeps_truncated else None
        if lease is not None and Scheduler.of(self._crawler).failures.is_last(lease):
            # A body that is truncated at every attempt is kept.
            request.meta.setdefault("download_fail_on_dataloss", False)

    def process_response(self, request: Request, response: Response) -> Response | Request:
        lease = request.meta.get(LEASE)
        if lease is None or response.status not in self._statuses:
            return response
        meta = request.meta
        if meta.get("dont_retry") or meta.get("handle_httpstatus_all"):
            return response
        if response.status in meta.get("handle_httpstatus_list", ()):
            return response
        scheduler = Scheduler.of(self._crawler)
        wait = retry_after_s(response.headers.get("Retry-After"))
        decision = scheduler.failures.decide(
            lease, f"status_{response.status}", at_least_s=wait or 0.0
        )
        if isinstance(decision, Retry):
            scheduler.leases.fail(lease, decision)
            # This ends the fetch, see LeasePool.put_off.
            return request
        # The spider gets the response. Its lease is settled when sinks have it.
        request.meta[GIVEN_UP] = decision
        return response
