"""Apply the recrawl policy to the leases of this process.

The entry of a page carries what is known of it: `visit` (see scheduling/recrawl_policy.py), the
validators `etag` and `last_modified`, and for URLs of sitemaps `hints`. So no visit has to query a
database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_64_digest

from crawler.frontier import Again, Entry, Kind, Lease
from crawler.items import Page
from crawler.parsing.sitemap import Located
from crawler.scheduling import recrawl_policy
from crawler.scheduling.recrawl_policy import (
    CHANGEFREQ_S,
    Hints,
    RecrawlPolicy,
    RecrawlTuning,
    Visit,
    VisitResult,
)

if TYPE_CHECKING:
    from scrapy.http import Response

logger = logging.getLogger(__name__)

# Status of a page that was removed for good.
GONE = 410
_VISIT, _HINTS = "visit", "hints"
# New pages are found within a day, until the sitemap turns out to change less or more often.
_SITEMAP_S = CHANGEFREQ_S["daily"]
_VALIDATORS = ("etag", "last_modified")
# Parts of a tail that the next visit does not need.
_DROPPED = frozenset({_VISIT, _HINTS, "history", *_VALIDATORS})
# Longer validators would make entries large: such a page is compared by its content.
_VALIDATOR_MAX = 200


class Recrawls:
    """Decisions about the next visits of leased pages, each taken when its lease is settled."""

    def __init__(self, tuning: RecrawlTuning = recrawl_policy.DEFAULTS) -> None:
        self._tuning = tuning
        self._text = recrawl_policy.OFF
        self.policy: RecrawlPolicy | None = None
        # Bounded by the leases a process holds.
        self._decided: dict[tuple[int, bytes], Again] = {}

    def use(self, text: str) -> None:
        """Apply the option `recrawl`."""
        if text == self._text:
            return
        self._text = text
        self.policy = recrawl_policy.policy_of(text, self._tuning)
        fixed_s, least_s = getattr(self.policy, "fixed_s", None), self._tuning.min_s
        if fixed_s is not None and fixed_s < least_s:
            logger.warning(
                "recrawl is %s; pages are visited every %g s, the least that RECRAWL has (min_s)",
                text,
                least_s,
            )

    def is_unwanted(self, entry: Entry) -> bool:
        """Tell whether an entry is a recrawl, although recrawls are off."""
        return self.policy is None and _VISIT in entry.tail

    @staticmethod
    def was_visited(entry: Entry) -> bool:
        """Tell whether an entry is a recrawl."""
        return _VISIT in entry.tail

    def visited(
        self,
        lease: Lease,
        found: VisitResult,
        headers: Mapping[str, str],
        *,
        queue_of: Callable[[bool], int],
        now_s: float,
    ) -> recrawl_policy.VisitAgain | None:
        """Decide on the next visit of a page that was there; None while nothing is recrawled.

        `headers` have lower-case names. `queue_of` gives the queue of a changed or unchanged page.
        """
        if self.policy is None:
            return None
        before, hints = visit_of(lease.entry), _hints(lease.entry, headers)
        decision = self.policy.visited(before, found, hints, now_s=now_s)
        # A new content's validators replace the old one's, all of them.
        known = lease.entry.tail if not found.digest else {}
        names = {"etag": "etag", "last_modified": "last-modified"}
        validators = {
            name: headers.get(header) or known.get(name) for name, header in names.items()
        }
        entry = replace(lease.entry, queue=queue_of(decision.changed))
        self._decide(lease, decision, entry, validators)
        return decision

    def visited_sitemap(self, lease: Lease, response: Response) -> None:
        """Decide on the next visit of a sitemap, which is compared by its bytes."""
        if response.status not in (200, 304):
            self.gave_no_page(lease, gone=response.status == GONE)
            return
        headers = {
            name: (response.headers.get(name) or b"").decode("latin-1")
            for name in ("etag", "last-modified", "cache-control")
        }
        self.visited(
            lease,
            VisitResult(xxh3_64_digest(response.body) if response.status == 200 else b""),
            headers,
            queue_of=lambda _changed: lease.entry.queue,
            now_s=time.time(),
        )

    def hints(self, pages: Iterable[Located]) -> dict[str, dict[str, Any]]:
        """Return what a sitemap says about the changes of its pages, as tails of their entries."""
        if self.policy is None:
            return {}
        return {
            page.url: {
                _HINTS: [
                    CHANGEFREQ_S.get(page.changefreq),
                    round(page.modified.timestamp()) if page.modified is not None else None,
                ]
            }
            for page in pages
            if page.changefreq in CHANGEFREQ_S or page.modified is not None
        }

    def gave_no_page(self, lease: Lease, *, gone: bool = False) -> recrawl_policy.VisitAgain | None:
        """Decide on the next visit of a known page that gave an error; None: there is none."""
        decision = self.failed(lease, gone=gone)
        if decision is not None:
            self._decide(lease, decision, lease.entry, lease.entry.tail)
        return decision

    def after_failures(self, lease: Lease) -> Again | None:
        """Return how a known page comes back after all its retries failed; None: it does not."""
        self.gave_no_page(lease)
        return self.take(lease)

    @staticmethod
    def fill_in(page: Page, lease: Lease, decision: recrawl_policy.VisitAgain | None) -> None:
        """Fill in the fields of a page about its visits."""
        before = visit_of(lease.entry)
        if before is not None:
            page.visits, page.changes = before.visits + 1, before.changes
        if decision is not None:
            page.changes = decision.visit.changes
            page.next_crawl = page.crawled_at + timedelta(seconds=decision.wait_s)
            page.recrawl_interval_s = decision.wait_s

    def take(self, lease: Lease) -> Again | None:
        """Return and forget the decision for a lease that is being settled."""
        return self._decided.pop(lease.key, None)

    def failed(self, lease: Lease, *, gone: bool = False) -> recrawl_policy.VisitAgain | None:
        """Return the next visit of a page that gave an error; None for one that has none."""
        before = visit_of(lease.entry)
        if self.policy is None or before is None:
            return None
        return self.policy.failed(before, gone=gone)

    def _decide(
        self,
        lease: Lease,
        decision: recrawl_policy.VisitAgain,
        entry: Entry,
        validators: Mapping[str, Any],
    ) -> None:
        tail = {name: value for name, value in entry.tail.items() if name not in _DROPPED}
        for name in _VALIDATORS:
            value = validators.get(name)
            if value and len(value) <= _VALIDATOR_MAX:
                tail[name] = value
        tail[_VISIT] = decision.visit.packed()
        again = replace(entry, attempts=0, reclaims=0, tail=tail)
        self._decided[lease.key] = Again(round(decision.wait_s * 1000), again)


def visit_of(entry: Entry) -> Visit | None:
    """Return what is known of a page's earlier visits."""
    return Visit.unpacked(entry.tail[_VISIT]) if _VISIT in entry.tail else None


def _hints(entry: Entry, headers: Mapping[str, str]) -> Hints:
    changefreq_s, modified_at_s = entry.tail.get(_HINTS, (None, None))
    if entry.kind is Kind.SITEMAP:
        changefreq_s = _SITEMAP_S
    return Hints(
        changefreq_s, modified_at_s, recrawl_policy.max_age_s(headers.get("cache-control", ""))
    )
