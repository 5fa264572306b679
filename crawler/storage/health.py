"""Know whether MongoDB answers: one log line when it goes away, one when it is back."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from pymongo.errors import PyMongoError

from crawler.shared import shared
from crawler.storage.trouble import explain

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

# What waits for it. One may work while another fails: a full disk is read, and not written to.
PAGES, REFUSED_LINKS, SPILLED_URLS = "pages", "links without room in Redis", "URLs kept there"


class MongoHealth:
    """State of the MongoDB of one process, shared by all that talk to it."""

    def __init__(self) -> None:
        # By what waits for it: why.
        self._failing: dict[str, str] = {}
        self._away_since = 0.0

    @classmethod
    def of(cls, crawler: Crawler) -> MongoHealth:
        """That of this crawl's process."""
        return shared(cls, crawler, cls)

    def failed(self, what: str, error: PyMongoError) -> None:
        """A call got no answer, or was refused for a while."""
        if not self._failing:
            self._away_since = monotonic()
            logger.warning(
                "MongoDB is away (%s); %s wait until it is back", *(explain(error), what)
            )
        self._failing[what] = explain(error)

    def worked(self, what: str) -> None:
        """A call was answered."""
        was_failing = bool(self._failing)
        # What can be written to can be read: a look at those may be some time away.
        for answered in (what, SPILLED_URLS):
            self._failing.pop(answered, None)
        if was_failing and not self._failing:
            logger.warning("MongoDB is back after %.1f s", monotonic() - self._away_since)

    @property
    def trouble(self) -> str:
        """What is the matter at this moment; empty if nothing is."""
        if not self._failing:
            return ""
        waiting, why = ", ".join(self._failing), next(iter(self._failing.values()))
        away_s = monotonic() - self._away_since
        return f"MongoDB has not answered for {away_s:.0f} s; {waiting} wait ({why})"
