"""The parts of Scrapy's engine that the scheduler looks into; private ones are used only here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from crawler.requests import LEASE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.frontier import Lease


class Engine:
    """What the engine has room for, and what it is busy with."""

    def __init__(self, crawler: Crawler, concurrency: int) -> None:
        self._crawler = crawler
        self._concurrency = concurrency

    def room(self) -> int | None:
        """How many fetches could start now; None while the engine closes."""
        engine = self._crawler.engine
        if self._slot() is None:
            return None
        scraper_slot = engine.scraper.slot
        if scraper_slot is None or scraper_slot.needs_backout() or engine.paused:
            return 0
        return self._concurrency - len(engine.downloader.active)

    def starting(self) -> bool:
        """Is the spider's start() still being read?"""
        return self._crawler.engine._start is not None  # noqa: SLF001

    def wake(self) -> None:
        """Let the engine ask for requests; by itself it would look every 5 s only."""
        slot = self._slot()
        if slot is not None:
            slot.nextcall.schedule()

    def lost(self, leases: Iterable[Lease]) -> list[Lease]:
        """Those of the leases whose requests the engine has no more; none while it closes."""
        slot = self._slot()
        if slot is None:
            return []
        found = (request.meta.get(LEASE) for request in slot.inprogress)
        busy = {lease.key for lease in found if lease is not None}
        return [lease for lease in leases if lease.key not in busy]

    @staticmethod
    def is_closing(crawler: Crawler) -> bool:
        """Has the crawl begun to end? Requests and items under way are still being finished."""
        slot = crawler.engine._slot  # noqa: SLF001
        return slot is not None and slot.closing is not None

    def _slot(self) -> Any:
        slot = self._crawler.engine._slot  # noqa: SLF001
        return slot if slot is not None and slot.closing is None else None
