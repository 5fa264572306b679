"""What the errors of a MongoDB mean, whether they may pass, and whether it answers now.

One log line when it goes away, one when it is back.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING

from pymongo.errors import ConnectionFailure, NotPrimaryError, OperationFailure, PyMongoError

from crawler.errors import ConfigurationError, CrawlerError, ServerAway
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


# Codes of MongoDB's answers.
DUPLICATE_KEY = 11000
_UNAUTHORIZED, _AUTHENTICATION_FAILED = 13, 18
_DISK_FULL = 14031
_NOT_PRIMARY = frozenset({10107, 13435, 13436, 10058, 189})
_SAID = {
    _AUTHENTICATION_FAILED: "it does not accept the user and the password of MONGO_URI",
    _UNAUTHORIZED: "the user of MONGO_URI may not do this: give it the role readWrite on "
    "MONGO_DATABASE",
    _DISK_FULL: "its disk is full: make room there",
}
READ_ONLY = (
    "it takes no writes now, as a secondary or a replica set without a primary: name all "
    "members of the set in MONGO_URI, with ?replicaSet=…"
)
# Of one write in a batch: the next try may work, and the document is not at fault.
_PASSING = _NOT_PRIMARY | {_UNAUTHORIZED, _DISK_FULL}


def may_pass(error: PyMongoError) -> bool:
    """Does it make sense to try again? Errors of single documents are not asked here."""
    return isinstance(error, ConnectionFailure | OperationFailure)


def code_may_pass(code: int) -> bool:
    """The same for the error of one document in a batch."""
    return code in _PASSING


def start_error(error: PyMongoError | TimeoutError, text: str) -> CrawlerError:
    """The error of a start that failed for this reason.

    Rights and passwords are for people to correct; nearly all else passes by itself.
    """
    if isinstance(error, OperationFailure) and not error.timeout:
        passes = error.code is not None and code_may_pass(error.code)
        if not passes or error.code == _UNAUTHORIZED:
            return ConfigurationError(text)
    return ServerAway(text)


def explain(error: PyMongoError) -> str:
    """What people should know of an error."""
    code = error.code if isinstance(error, OperationFailure) else None
    if code in _SAID:
        return _SAID[code]
    text = str(error).partition(", Timeout:")[0].partition(" (configured timeouts:")[0]
    is_without_primary = "Primary()" in text or "No primary available" in text
    if isinstance(error, NotPrimaryError) or code in _NOT_PRIMARY or is_without_primary:
        return READ_ONLY
    return text.partition(", full error:")[0]


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
