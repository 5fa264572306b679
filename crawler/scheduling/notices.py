"""Log once, and count, what would otherwise go unnoticed or flood the log.

That is: start requests that the crawl already knows, and requests that the frontier refuses (a
spider may yield a million of them).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawler.discovery.seeds import why
from crawler.frontier import Added, Sizes
from crawler.scheduling.request_codec import NotCarried
from crawler.urls import Rejected
from crawler.util.secrets import shown

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)


class KnownStarts:
    """Start requests of this run that the crawl knows. The first is logged, all are counted.

    `anew` is the part of the message that says how to fetch them again.
    """

    def __init__(self, crawl: str, anew: str, count: Callable[[str, int], None]) -> None:
        self._crawl = crawl
        self._anew = anew
        self._count = count
        self._known = 0
        self._new = 0
        self._was_finished = False

    def begin(self, sizes: Sizes) -> None:
        """Note the sizes of the crawl at the start of this run."""
        self._was_finished = sizes.added > 0 and not sizes.unfinished

    def sent(self, request: Request, sent: asyncio.Future[Added] | None) -> None:
        """Watch a start request that was sent to the frontier; None: the frontier has it."""
        if sent is None:
            self._met(request)
        else:
            sent.add_done_callback(lambda answered: self._answered(request, answered))

    def add(self, *, known: int, new: int) -> None:
        """Count seeds that were known, and those that were not."""
        self._known += known
        self._new += new

    def warn_if_all(self) -> None:
        """Warn after a run without pages if the crawl was finished, and knew all its requests."""
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
    """Return the advice to a user who wants to run a finished crawl again."""
    fresh = f"`scrapy crawl {spider} --fresh` starts it anew"
    if not has_commands:
        fresh = f'with COMMANDS_MODULE = "crawler.commands" in the settings {fresh}'
    return f"-s CRAWL=NAME begins another crawl, {fresh}"


_LOGGED_MAX = 5


class Rejections:
    """Requests that were refused in this process, by reason."""

    def __init__(self, count: Callable[[str, int], None]) -> None:
        self._count = count
        # By reason.
        self._number: Counter[str] = Counter()

    def add(self, request: Request, found: Rejected | NotCarried) -> None:
        """Count a request that was refused, and log it if it is one of the first."""
        reason = found.reason if isinstance(found, Rejected) else "not_carried"
        name = f"scheduler/rejected/{reason}"
        self._count(name, 1)
        self._number[reason] += 1
        number = self._number[reason]
        if number > _LOGGED_MAX:
            return
        last = f" More of these are only counted, as {name}." if number == _LOGGED_MAX else ""
        if isinstance(found, NotCarried):
            logger.error("%s%s", found, last)
            return
        url = shown(request.url)
        logger.warning("<%s %s> is not fetched: %s.%s", request.method, url, why(reason), last)
