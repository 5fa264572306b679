"""Tell of start requests that are not fetched, since the crawl knows them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawler.frontier import Added
from crawler.masking import shown

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)


class KnownStarts:
    """Those of one run: the first is told, all are counted."""

    def __init__(self, crawl: str, count: Callable[[str, int], None]) -> None:
        self._crawl = crawl
        self._count = count
        self._told = False

    def look(self, request: Request, sent: asyncio.Future[Added] | None) -> None:
        """A start request was sent to the frontier; None: that surely has it."""
        if sent is None:
            self._known(request)
        else:
            sent.add_done_callback(lambda answered: self._answered(request, answered))

    def _answered(self, request: Request, sent: asyncio.Future[Added]) -> None:
        if not sent.cancelled() and sent.exception() is None and not sent.result().new:
            self._known(request)

    def _known(self, request: Request) -> None:
        self._count("scheduler/start_known", 1)
        if not self._told:
            self._told = True
            logger.info(
                "<%s %s> is known to the crawl %r and not fetched again, and so are other start "
                "requests that scheduler/start_known counts. -s CRAWL=NAME begins another crawl, "
                "`scrapy frontier delete --crawl %s` forgets this one",
                *(request.method, shown(request.url), self._crawl, self._crawl),
            )
