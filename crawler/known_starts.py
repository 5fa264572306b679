"""Log start requests that are not fetched, since the crawl knows them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawler.frontier import Added, Sizes
from crawler.masking import shown

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)


class KnownStarts:
    """The known start requests of one run: the first is logged, all are counted.

    `anew` says how to fetch them once more.
    """

    def __init__(self, crawl: str, anew: str, count: Callable[[str, int], None]) -> None:
        self._crawl = crawl
        self._anew = anew
        self._count = count
        self._known = 0
        self._new = 0
        self._was_finished = False

    def begin(self, sizes: Sizes) -> None:
        """The run begins with a crawl of these sizes."""
        self._was_finished = sizes.added > 0 and not sizes.unfinished

    def look(self, request: Request, sent: asyncio.Future[Added] | None) -> None:
        """A start request was sent to the frontier; None: that surely has it."""
        if sent is None:
            self._met(request)
        else:
            sent.add_done_callback(lambda answered: self._answered(request, answered))

    def add(self, *, known: int, new: int) -> None:
        """So many seeds were known, and so many were not."""
        self._known += known
        self._new += new

    def warn_if_all(self) -> None:
        """Warn if the crawl was finished and all start requests were known. For a run that crawled
        nothing."""
        if self._was_finished and self._known and not self._new:
            logger.warning(
                "Nothing was crawled: the crawl %r was finished before, and knows all start "
                "requests of this run (%d). %s",
                *(self._crawl, self._known, self._anew),
            )

    def _answered(self, request: Request, sent: asyncio.Future[Added]) -> None:
        if sent.cancelled() or sent.exception() is not None:
            return
        if sent.result().new:
            self._new += 1
        else:
            self._met(request)

    def _met(self, request: Request) -> None:
        self._known += 1
        self._count("scheduler/start_known", 1)
        if self._known == 1:
            logger.info(
                "<%s %s> is known to the crawl %r and not fetched again, and so are other start "
                "requests that scheduler/start_known counts. %s",
                *(request.method, shown(request.url), self._crawl, self._anew),
            )


def how_to_start_anew(spider: str, *, has_commands: bool) -> str:
    """What a user does to have a finished crawl once more."""
    fresh = f"`scrapy crawl {spider} --fresh` starts it anew"
    if not has_commands:
        fresh = f'with COMMANDS_MODULE = "crawler.commands" in the settings {fresh}'
    return f"-s CRAWL=NAME begins another crawl, {fresh}"
