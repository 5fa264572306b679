"""Tell the frontier when a fetch ended and how long its host rests. Downloader middleware."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Self

from crawler.policy.politeness import Fetch, Politeness
from crawler.policy.retry_after import retry_after_s
from crawler.requests import LEASE, MAY_FETCH
from crawler.scheduler import Scheduler

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_STARTED = "fetch_started"
CRAWL_DELAY = "crawl_delay"


class AdaptiveDelay:
    """Nearest to the downloader, so that it times the fetch and nothing else."""

    def __init__(self, crawler: Crawler, politeness: Politeness) -> None:
        self._crawler = crawler
        self._politeness = politeness

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        politeness = Politeness(
            factor=settings.getfloat("DELAY_FACTOR"),
            min_s=settings.getfloat("DELAY_MIN"),
            max_s=settings.getfloat("DELAY_MAX"),
        )
        return cls(crawler, politeness)

    def process_request(self, request: Request) -> Request | None:
        lease = request.meta.get(LEASE)
        scheduler = Scheduler.of(self._crawler)
        if lease is not None and not scheduler.may_fetch(lease):
            # Another process may be at this host by now.
            scheduler.hand_back(lease, 0)
            return request
        request.meta[_STARTED] = monotonic()
        if lease is not None:
            request.meta[MAY_FETCH] = partial(scheduler.may_fetch, lease)
        return None

    def process_response(self, request: Request, response: Response) -> Response:
        wait = retry_after_s(response.headers.get("Retry-After"))
        self._release(request, response.status, wait)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._release(request, None, None)

    def _release(self, request: Request, status: int | None, retry_after: float | None) -> None:
        started = request.meta.pop(_STARTED, None)
        lease = request.meta.get(LEASE)
        if lease is None or started is None:
            # No lease, or a middleware ended the request before it was fetched.
            return
        duration_s = monotonic() - started
        fetch = Fetch(duration_s=duration_s, status=status, retry_after_s=retry_after)
        rest_ms = self._politeness.rest_ms(fetch, crawl_delay_s=request.meta.get(CRAWL_DELAY, 0.0))
        Scheduler.of(self._crawler).release(lease, rest_ms)
        request.meta["fetch_ms"] = round(duration_s * 1000)
