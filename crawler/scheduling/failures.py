"""Settle the lease of a request that ended without a response.

Every leased request gets this errback, so that whatever goes wrong (a fetch, a middleware, a
refused URL) comes through here: a failure worth repeating goes back to the frontier, any other is
shown to the user's own errback and settled when that has finished. Where pages are stored, the last
word on a URL is recorded with them before its lease is settled.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import IgnoreRequest
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.spider import iterate_spider_output
from twisted.python.failure import Failure

from crawler.download.errors import Forbidden, TooBigUnpacked, failure_of
from crawler.frontier import Kind, Lease
from crawler.frontier.entry import MAX_ATTEMPTS
from crawler.items import Page, parent_of
from crawler.scheduling.outcome import no_page_stat, page_of
from crawler.scheduling.retry_policy import Bury, Retry, RetryPolicy
from crawler.util.file_limit import OutOfSockets

if TYPE_CHECKING:
    from crawler.scheduling.lease_pool import LeasePool
    from crawler.scheduling.recrawls import Recrawls

# Other hosts have their turn before this one: by then a fetch may have ended.
_OUT_OF_SOCKETS_MS = 1000


class Failures:
    """Make errbacks that settle leases."""

    def __init__(
        self,
        policy: RetryPolicy,
        leases: LeasePool,
        recrawls: Recrawls,
        arrival: Callable[[], Awaitable[bool]],
        run_fewer: Callable[[OutOfSockets], None],
    ) -> None:
        self._policy = policy
        self._leases = leases
        self._recrawls = recrawls
        # Returns when Redis has the requests that errbacks gave; False if it was given up on.
        self.arrival = arrival
        # Start fewer fetches for a while.
        self._run_fewer = run_fewer
        # Set by whoever stores pages: takes one without an answer, done when it is durable.
        self.record: Callable[[Page], asyncio.Future[None]] | None = None

    def decide(self, lease: Lease, reason: str, *, at_least_s: float = 0.0) -> Retry | Bury:
        """Repeat this URL later, or give up on it?"""
        return self._policy.decide(
            reason,
            lease.entry.attempts,
            chance=random.random(),
            at_least_s=at_least_s,
            times=_retry_times(lease),
        )

    def is_last(self, lease: Lease) -> bool:
        """Is this the last attempt at a URL?"""
        return self._policy.is_last(lease.entry.attempts, _retry_times(lease))

    def errback(self, lease: Lease, wrapped: Callable[[Failure], Any] | None) -> SettlingErrback:
        """The errback of a leased request, around the user's own."""
        return SettlingErrback(self, lease, wrapped)

    def retry(self, lease: Lease, failure: Failure) -> bool:
        """Put the URL off if its failure is worth another attempt, or is none of its own."""
        if not self._leases.holds(lease):
            return False
        error = failure.value
        if isinstance(error, OutOfSockets):
            self._run_fewer(error)
            self._leases.hand_back(lease, _OUT_OF_SOCKETS_MS)
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
        """The last word on a failed URL."""
        if not self._leases.holds(lease):
            return
        error = failure.value
        if isinstance(error, IgnoreRequest):
            # A URL that a middleware leaves out did not fail.
            no_page = ""
            if isinstance(error, HttpError):
                page, no_page = page_of(error.response), no_page_stat(error.response)
            else:
                page = _unanswered(lease, failure_of(error).reason)
                if isinstance(error, TooBigUnpacked):
                    no_page = f"failed/{page.reason}"
            self._recrawls.fill_in(page, lease, None)
            done = partial(self._leases.done, lease, page=False, no_page=no_page)
            self._record(page, lease, done)
        else:
            self.fail(lease, Bury(failure_of(error).reason))

    def hand_back(self, lease: Lease) -> None:
        """A failed URL has its last word later."""
        if self._leases.holds(lease):
            self._leases.hand_back(lease, 0)

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        """A fetch failed, or what was made of its response."""
        settle = partial(self._leases.fail, lease, decision)
        if isinstance(decision, Retry):
            settle()
            return
        page = _unanswered(lease, decision.reason)
        self._recrawls.fill_in(page, lease, self._recrawls.failed(lease))
        self._record(page, lease, settle)

    def _record(self, page: Page, lease: Lease, settle: Callable[[], None]) -> None:
        """Settle a lease when its last word is durable."""
        if self.record is None or lease.entry.kind is not Kind.PAGE:
            settle()
        else:
            self._leases.settle_after(lease, self.record(page), lambda _error: settle())


class SettlingErrback:
    """The user's errback, or none, with a lease to settle at its end."""

    def __init__(
        self, failures: Failures, lease: Lease, wrapped: Callable[[Failure], Any] | None
    ) -> None:
        self._failures = failures
        self._lease = lease
        self.wrapped = wrapped
        # Its output is being read, and the lease is settled at the end of it.
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
        """Pass the errback's output on; its requests are in Redis before the settlement."""
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
                # Nobody waits for them any more: the URL fails again, and they come with it.
                self._failures.hand_back(self._lease)


def _retry_times(lease: Lease) -> int | None:
    """How often its request wants to be tried again, in Scrapy's words; None: as all others."""
    meta = lease.entry.tail.get("meta", {})
    if meta.get("dont_retry"):
        return 0
    times = meta.get("max_retry_times")
    # An entry counts no further.
    return None if times is None else min(times, MAX_ATTEMPTS)


def _unanswered(lease: Lease, reason: str) -> Page:
    """The record of a URL without an answer that counts."""
    entry = lease.entry
    # What was forbidden is no error.
    error = "" if reason in Forbidden.REASONS else reason
    return Page(
        url=entry.url,
        final_url=entry.written_url,
        status=0,
        crawled_at=datetime.now(UTC),
        depth=entry.depth,
        priority=entry.queue,
        parent=parent_of(entry),
        stored=False,
        reason=reason,
        error_count=entry.attempts + bool(error),
        last_error=error,
        robots_allowed=reason != Forbidden.BY_ROBOTS,
    )
