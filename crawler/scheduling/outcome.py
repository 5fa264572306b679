"""Decide what becomes of a fetch that failed: a retry, a page that says why, or a dead letter.

Every request with a lease gets a SettlingErrback, so that whatever goes wrong (a fetch, a
middleware, a refused URL) ends here. A failure that is worth a retry goes back to the frontier. Any
other is passed to the user's own errback, and the lease is settled when that has finished. Where
pages are stored, the final failure of a URL is stored with them before its lease is settled.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.spider import iterate_spider_output
from twisted.python.failure import Failure

from crawler.config.values import fill, setting, value
from crawler.download.errors import RenderingFull, TooBigUnpacked, TooManyDocuments, failure_of
from crawler.frontier import Kind
from crawler.frontier.entry import DOCUMENTS, MAX_ATTEMPTS
from crawler.items import NOT_MODIFIED, Page
from crawler.parsing.document import Directives, of_headers
from crawler.util.backoff import Backoff
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import GIVEN_UP

if TYPE_CHECKING:
    from scrapy.http import Response
    from scrapy.settings import BaseSettings

    from crawler.frontier import Lease
    from crawler.scheduling.lease_pool import LeasePool
    from crawler.scheduling.page_maker import PageMaker
    from crawler.scheduling.recrawls import Recrawls

_ROBOTS_TAG = b"X-Robots-Tag"
_NOTHING = Directives()


def no_page_stat(response: Response) -> str:
    """Return the stat that counts a final response whose status is not 2xx."""
    if NOT_MODIFIED in response.flags:
        return "pages/not_modified"
    return f"failed/status_{response.status}"


def asked_by_headers(response: Response, crawler_name: str) -> Directives:
    """Return what X-Robots-Tag headers ask of the crawler with this name."""
    values = dict.get(response.headers, _ROBOTS_TAG)
    if not values:
        return _NOTHING
    return of_headers([value.decode("latin-1") for value in values], crawler_name)


@dataclass(frozen=True, slots=True)
class Retry:
    """Decision to fetch a URL again after a delay."""

    delay_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Bury:
    """Decision to give up on a URL: it becomes a dead letter."""

    reason: str


# Reason of a URL that killed process after process.
POISONED = "poison"


class Dropped:
    """Reasons of URLs that ended without a page, and without a failure of their own."""

    # The crawl's options exclude it by now.
    EXCLUDED = "excluded"
    # It led to a URL that the crawl does not take.
    REDIRECT_REFUSED = "redirect_refused"
    # A component took its request, and said nothing of it.
    LOST = "lost"
    REASONS = (EXCLUDED, REDIRECT_REFUSED, LOST)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Number of retries, and the delays before them."""

    times: int = setting("RETRY_TIMES")
    base_s: float = setting("RETRY_BASE")
    max_s: float = setting("RETRY_MAX")
    jitter: float = 0.1

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        times = value(settings, "RETRY_TIMES") if settings.getbool("RETRY_ENABLED") else 0
        # An entry does not count further: a URL that fails would never end.
        return fill(cls, settings, times=min(times, MAX_ATTEMPTS))

    def is_last(self, attempts: int, times: int | None = None) -> bool:
        """Tell whether the next attempt is the last one; `times` is a URL's own limit."""
        return attempts >= (self.times if times is None else times)

    def decide(
        self,
        reason: str,
        attempts: int,
        *,
        chance: float,
        at_least_s: float = 0.0,
        times: int | None = None,
    ) -> Retry | Bury:
        """Decide after so many earlier attempts; `chance` in [0, 1) spreads the delays.

        `at_least_s` is what the host asked for with Retry-After.
        """
        if self.is_last(attempts, times):
            return Bury(reason)
        backoff = Backoff(self.base_s, self.max_s, jitter=self.jitter)
        delay_s = max(backoff.delay_s(attempts + 1, chance), at_least_s)
        return Retry(delay_ms=round(delay_s * 1000), reason=reason)


# Delay of a host for which there was no file descriptor: by then another fetch may have ended.
_OUT_OF_SOCKETS_MS = 1000
# Delay of a document that was too many, and up to twice as long. Until then some others are read.
_DOCUMENT_MS = 10_000
# The same of a page for which no browser is free.
_RENDERING_MS = 5_000


class Failures:
    """Failed URLs of this process: retried, stored as failed, or buried."""

    def __init__(
        self,
        policy: RetryPolicy,
        leases: LeasePool,
        recrawls: Recrawls,
        pages: PageMaker,
        *,
        arrival: Callable[[], Awaitable[bool]],
        run_fewer: Callable[[OutOfSockets], None],
    ) -> None:
        self._policy = policy
        self._leases = leases
        self._recrawls = recrawls
        self._pages = pages
        # Waits until Redis has the requests of errbacks; False if Redis was given up on.
        self.arrival = arrival
        # Reduces the number of fetches at a time for a while.
        self._run_fewer = run_fewer
        # Stores a page without a response; set by the pipeline that stores pages.
        self.record: Callable[[Page], asyncio.Future[None]] | None = None

    def decide(self, lease: Lease, reason: str, *, at_least_s: float = 0.0) -> Retry | Bury:
        """Decide whether a URL that failed is retried."""
        return self._policy.decide(
            reason,
            lease.entry.attempts,
            chance=random.random(),
            at_least_s=at_least_s,
            times=_retry_times(lease),
        )

    def is_last(self, lease: Lease) -> bool:
        """Tell whether this is the last attempt at a URL."""
        return self._policy.is_last(lease.entry.attempts, _retry_times(lease))

    def retry(self, lease: Lease, failure: Failure) -> bool:
        """Requeue a URL whose failure is worth a retry, or is not its own; tells whether it is."""
        if not self._leases.holds(lease):
            return False
        error = failure.value
        if isinstance(error, OutOfSockets):
            self._run_fewer(error)
            self._leases.hand_back(lease, _OUT_OF_SOCKETS_MS)
            return True
        if isinstance(error, TooManyDocuments):
            # By now it is known to be one, whatever its URL says.
            delay_ms = round(_DOCUMENT_MS * (1 + random.random()))
            self._leases.postpone(lease, delay_ms, queue=DOCUMENTS)
            return True
        if isinstance(error, RenderingFull):
            delay_ms = round(_RENDERING_MS * (1 + random.random()))
            self._leases.postpone(lease, delay_ms, queue=lease.entry.queue)
            return True
        kind = failure_of(error)
        if kind.is_final:
            return False
        decision = self.decide(lease, kind.reason)
        if isinstance(decision, Bury):
            return False
        self._leases.fail(lease, decision)
        return True

    def settle(self, lease: Lease, failure: Failure) -> None:
        """Settle the lease of a URL that is not retried."""
        if not self._leases.holds(lease):
            return
        error = failure.value
        if isinstance(error, IgnoreRequest):
            # A URL that a middleware drops did not fail.
            no_page = ""
            if isinstance(error, HttpError):
                page, no_page = self._pages.page_of(error.response), no_page_stat(error.response)
            else:
                page = self._pages.page_without_response(lease, failure_of(error).reason)
                if isinstance(error, TooBigUnpacked):
                    no_page = f"failed/{page.reason}"
            done = partial(self._leases.done, lease, page=False, no_page=no_page)
            again = None
            if isinstance(error, HttpError) and (given_up := error.response.meta.get(GIVEN_UP)):
                done = partial(self._leases.fail, lease, given_up)
                again = self._recrawls.failed(lease)
            self._recrawls.fill_in(page, lease, again)
            self._record(page, lease, done)
        else:
            self.fail(lease, Bury(failure_of(error).reason))

    def drop(self, lease: Lease, reason: str) -> None:
        """Finish a URL that ends without a page for one of `Dropped.REASONS`."""
        page = self._pages.page_without_response(lease, reason)
        # Nothing failed.
        page.error_count, page.last_error = lease.entry.attempts, ""
        self._recrawls.fill_in(page, lease, None)
        self._record(page, lease, partial(self._leases.done, lease, page=False))

    def hand_back(self, lease: Lease) -> None:
        """Requeue a URL at once: it fails again, and its errback runs again."""
        if self._leases.holds(lease):
            self._leases.hand_back(lease, 0)

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        """Carry out a decision about a URL whose fetch, callback or item failed."""
        settle = partial(self._leases.fail, lease, decision)
        if isinstance(decision, Retry):
            settle()
            return
        page = self._pages.page_without_response(lease, decision.reason)
        self._recrawls.fill_in(page, lease, self._recrawls.failed(lease))
        self._record(page, lease, settle)

    def _record(self, page: Page, lease: Lease, settle: Callable[[], None]) -> None:
        """Settle a lease when the page that says why it failed is stored."""
        if self.record is None or lease.entry.kind is not Kind.PAGE:
            settle()
        else:
            self._leases.settle_after(lease, self.record(page), lambda _error: settle())


class SettlingErrback:
    """Errback of a request with a lease; wraps the user's own, if there is one."""

    def __init__(
        self, failures: Failures, lease: Lease, wrapped: Callable[[Failure], Any] | None
    ) -> None:
        self._failures = failures
        self._lease = lease
        self.wrapped = wrapped
        # Whether its output is being read; the lease is settled at the end of that.
        self.draining = False
        self.__name__ = getattr(wrapped, "__name__", "errback")

    def __call__(self, failure: Failure) -> Any:
        if self._failures.retry(self._lease, failure):
            return None
        if self.wrapped is None:
            self._failures.settle(self._lease, failure)
            return failure
        try:
            output = self.wrapped(failure)
        except Exception:
            self._failures.settle(self._lease, failure)
            raise
        if output is None or isinstance(output, Failure):
            self._failures.settle(self._lease, failure)
            return output
        self.draining = True
        return self._drain(output, failure)

    async def _drain(self, output: Any, failure: Failure) -> AsyncIterator[Any]:
        """Yield the errback's output; settle the lease when Redis has its requests."""
        arrived = False
        try:
            try:
                parts = await ensure_awaitable(iterate_spider_output(output))
                async for part in as_async_generator(parts):
                    yield part
            except Exception:
                arrived = await self._failures.arrival()
                raise
            arrived = await self._failures.arrival()
        finally:
            if arrived:
                self._failures.settle(self._lease, failure)
            else:
                self._failures.hand_back(self._lease)


def _retry_times(lease: Lease) -> int | None:
    """Return how often the request asks to be retried (Scrapy's meta keys), or None."""
    meta = lease.entry.tail.get("meta", {})
    if meta.get("dont_retry"):
        return 0
    times = meta.get("max_retry_times")
    # An entry does not count further.
    return None if times is None else min(times, MAX_ATTEMPTS)
