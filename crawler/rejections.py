"""Tell of requests that the frontier does not take: the first few of each kind, and count them all.

A spider that yields such a request may yield a million of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from crawler.masking import shown
from crawler.requests import NotCarried
from crawler.seeds import why
from crawler.urls import Rejected

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)

_TOLD = 5


class Rejections:
    """What was refused in this process, by reason."""

    def __init__(self, count: Callable[[str, int], None]) -> None:
        self._count = count
        # As many as there are reasons.
        self._told: Counter[str] = Counter()

    def add(self, request: Request, found: Rejected | NotCarried) -> None:
        """A request was refused for its URL, or for what it has beside it."""
        reason = found.reason if isinstance(found, Rejected) else "not_carried"
        name = f"scheduler/rejected/{reason}"
        self._count(name, 1)
        self._told[reason] += 1
        if self._told[reason] > _TOLD:
            return
        last = f" More of these are only counted, as {name}." if self._told[reason] == _TOLD else ""
        if isinstance(found, NotCarried):
            logger.error("%s%s", found, last)
            return
        url = shown(request.url)
        logger.warning("<%s %s> is not fetched: %s.%s", request.method, url, why(reason), last)
