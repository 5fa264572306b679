"""URLs in the place of leased ones, as by a redirect: a lease is settled when Redis has its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crawler.frontier import Added, Entry, Lease
from crawler.frontier.health import GaveUp
from crawler.policy.retry import Bury
from crawler.requests import as_given

if TYPE_CHECKING:
    from scrapy import Request

    from crawler.scheduler import Scheduler


class Replacements:
    """Those of one process."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        # Leases that are settled when the new URL is in the frontier.
        self.awaited: set[tuple[int, bytes]] = set()

    def entry(self, request: Request, lease: Lease) -> Entry | None:
        """The entry of a request that a middleware put in the leased one's place, as a redirect."""
        scheduler = self._scheduler
        source = lease.entry
        request = as_given(request, source)
        # Where a sitemap is redirected to is one too.
        entry = scheduler.entry_of(request, depth=source.depth, parent=source.id, kind=source.kind)
        if entry is None or not scheduler.is_scoped:
            return entry
        if reason := scheduler.orders.refuses_redirect(entry, source):
            scheduler.count(f"redirects/refused/{reason}")
        return None if reason else entry

    def settle(self, lease: Lease, sent: asyncio.Future[Added] | None) -> None:
        """The URL of this lease is done when another has arrived; None: that is so already."""
        if sent is None:
            self._scheduler.done(lease, page=False)
            return
        self.awaited.add(lease.key)
        sent.add_done_callback(lambda future: self._arrived(lease, future))

    def _arrived(self, lease: Lease, sent: asyncio.Future[Added]) -> None:
        self.awaited.discard(lease.key)
        if not self._scheduler.holds(lease):
            return
        error = asyncio.CancelledError() if sent.cancelled() else sent.exception()
        if error is None:
            self._scheduler.done(lease, page=False)
        elif isinstance(error, (GaveUp, asyncio.CancelledError)):
            self._scheduler.hand_back(lease, 0)
        else:
            self._scheduler.fail(lease, Bury(f"unsendable: {error}"[:200]))
