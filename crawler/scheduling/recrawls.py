"""Apply the recrawl policy to the leases of this process.

The entry of a page carries what is known of it: `visit` (see scheduling/recrawl_policy.py), `at`
(unix time of the last visit that found the page, which lua/forward.lua reads), the validators
`etag` and `last_modified`, and for URLs of sitemaps `hints`. So no visit has to query a database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_64_digest

from crawler.discovery.follow import past_s
from crawler.frontier import Again, Entry, Kind, Lease
from crawler.items import Page
from crawler.parsing.sitemap import Located
from crawler.scheduling import recrawl_policy
from crawler.scheduling.recrawl_plan import Counted, RecrawlPlan
from crawler.scheduling.recrawl_policy import (
    CHANGEFREQ_S,
    Hints,
    RecrawlPolicy,
    RecrawlTuning,
    Visit,
    VisitResult,
)
from crawler.util.recent import RecentDict, text_bytes

if TYPE_CHECKING:
    from scrapy.http import Response

logger = logging.getLogger(__name__)

# Status of a page that was removed for good.
GONE = 410
_VISIT, _HINTS, _AT = "visit", "hints", "at"
# New pages are found within a day, until the sitemap turns out to change less or more often.
_SITEMAP_S = CHANGEFREQ_S["daily"]
_DAY_S = 86_400
_VALIDATORS = ("etag", "last_modified")
# Parts of a tail that the next visit does not need.
_DROPPED = frozenset({_VISIT, _HINTS, _AT, "history", *_VALIDATORS})
# Hosts for which it is counted whether changes that they told of had happened, some 10,000.
_HOSTS_MAX_BYTES = 2_000_000
# After so many visits for nothing, a host is believed only if this part of its news was true.
_FALSE_MAX, _TRUE_SHARE = 20, 0.1
# Until then, so many pages of a host are brought forward a day.
_UNPROVEN_MAX = 1000
# Longer validators would make entries large: such a page is compared by its content.
_VALIDATOR_MAX = 200


class _News(NamedTuple):
    """What a host told of changes of its pages: visits that found one, and those that did not."""

    true: int = 0
    false: int = 0
    # Pages that it told of on a day (of unix time).
    told: int = 0
    day: int = 0


class Recrawls:
    """Decisions about the next visits of leased pages, each taken when its lease is settled."""

    def __init__(self, tuning: RecrawlTuning = recrawl_policy.DEFAULTS) -> None:
        self._tuning = tuning
        self._text = recrawl_policy.OFF
        self.policy: RecrawlPolicy | None = None
        # Bounded by the leases a process holds.
        self._decided: dict[tuple[int, bytes], Again] = {}
        self._news = RecentDict[str, _News](_HOSTS_MAX_BYTES, text_bytes)

    def use(self, text: str) -> None:
        """Apply the option `recrawl`."""
        if text == self._text:
            return
        self._text = text
        before = self.plan
        self.policy = recrawl_policy.policy_of(text, self._tuning)
        if self.plan is not None and before is not None:
            # What is known of the pages stays.
            self.plan.go_on(before)
        fixed_s, least_s = getattr(self.policy, "fixed_s", None), self._tuning.min_s
        if fixed_s is not None and fixed_s < least_s:
            logger.warning(
                "recrawl is %s; pages are visited every %g s, the least that RECRAWL has (min_s)",
                text,
                least_s,
            )

    @property
    def plan(self) -> RecrawlPlan | None:
        """Plan of a budget."""
        return self.policy.plan if self.policy is not None else None

    @property
    def longest_s(self) -> float:
        """Longest interval between visits, if a budget does not ask for longer ones."""
        fixed_s = self.policy.fixed_s if self.policy is not None else None
        return max(self._tuning.max_s, fixed_s or 0)

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
        is_feed: bool = False,
    ) -> recrawl_policy.VisitAgain | None:
        """Decide on the next visit of a page that was there; None while nothing is recrawled.

        `headers` have lower-case names. `queue_of` gives the queue of a changed or unchanged page.
        """
        if self.policy is None:
            return None
        before, hints = visit_of(lease.entry), _hints(lease.entry, headers)
        host: str | None = lease.entry.host
        if lease.entry.kind is Kind.SITEMAP:
            host = None
        elif self.plan is not None:
            hints = replace(hints, rank=int(is_feed))
            if hints.modified_at_s is None:
                modified_s = recrawl_policy.http_date_s(headers.get("last-modified", ""))
                hints = replace(hints, modified_at_s=modified_s)
        decision = self.policy.visited(before, found, hints, now_s=now_s, host=host)
        if before is not None and before.is_early(now_s):
            self._count_news(lease.entry.host, was_true=decision.changed)
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
            for name in ("etag", "last-modified", "cache-control", "expires", "date")
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
        now_s, found = time.time(), {}
        for page in pages:
            changefreq_s = CHANGEFREQ_S.get(page.changefreq)
            at_s = past_s(page.modified.timestamp(), now_s) if page.modified is not None else None
            if changefreq_s is not None or at_s is not None:
                found[page.url] = {_HINTS: [changefreq_s, at_s]}
        return found

    def hints_of_feed(self, times: Mapping[str, float]) -> dict[str, dict[str, Any]]:
        """Return the same for the pages of a feed: when each changed."""
        if self.policy is None:
            return {}
        now_s = time.time()
        past = {url: past_s(at, now_s) for url, at in times.items()}
        return {url: {_HINTS: [None, at_s]} for url, at_s in past.items() if at_s is not None}

    def gave_no_page(self, lease: Lease, *, gone: bool = False) -> recrawl_policy.VisitAgain | None:
        """Decide on the next visit of a known page that gave an error; None: there is none."""
        decision = self.failed(lease, gone=gone)
        if decision is not None:
            self._decide(lease, decision, lease.entry, lease.entry.tail)
        return decision

    def accept_news(self, host: str, *, now_s: float) -> bool:
        """Tell whether a page of a host is to be visited now since a sitemap says that it changed.

        Some sitemaps name the time at which they were made as that of the last change of every
        page. So a host may tell of some pages at first, and of all when its news turn out true.
        """
        news, day = self._news.get(host, _News()), int(now_s // _DAY_S)
        visits = news.true + news.false
        if visits >= _FALSE_MAX:
            return news.false < _FALSE_MAX or news.true > _TRUE_SHARE * visits
        told = news.told if news.day == day else 0
        self._news[host] = news._replace(told=told + 1, day=day)
        return told < _UNPROVEN_MAX

    def _count_news(self, host: str, *, was_true: bool) -> None:
        news = self._news.get(host, _News())
        self._news[host] = news._replace(
            true=news.true + was_true, false=news.false + (not was_true)
        )

    def settled(self, entry: Entry, again: Again | None) -> None:
        """Count a page whose lease is settled in the plan, as it will come back or not."""
        if self.plan is not None:
            after = counted(visit_of(again.entry)) if again is not None else None
            self.plan.moved(entry.host, counted(visit_of(entry)), after)

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
        tail |= recrawl_tail(decision.visit, validators)
        again = replace(entry, attempts=0, reclaims=0, tail=tail)
        self._decided[lease.key] = Again(round(decision.wait_s * 1000), again)


def recrawl_tail(visit: Visit, validators: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the entry of a page that is visited again carries in its tail."""
    tail = {
        name: value
        for name in _VALIDATORS
        if (value := validators.get(name)) and len(value) <= _VALIDATOR_MAX
    }
    tail[_VISIT] = visit.packed()
    if visit.at_s:
        tail[_AT] = visit.at_s
    return tail


def visit_of(entry: Entry) -> Visit | None:
    """Return what is known of a page's earlier visits."""
    if _VISIT not in entry.tail:
        return None
    at_s = entry.tail.get(_AT, 0)
    return Visit.unpacked(entry.tail[_VISIT], at_s if isinstance(at_s, int) else 0)


def counted(visit: Visit | None) -> Counted | None:
    """Return as what a plan counts a page; None if it does not."""
    if visit is None or visit.evidence is None:
        return None
    return Counted(visit.evidence.number, round(visit.interval_s))


def last_visit_s(entry: Entry, *, now_s: float) -> int:
    """Return when a page was visited last, or else when its URL was found; unix time."""
    before = visit_of(entry)
    if before is None:
        return entry.discovered_s
    # Earlier releases did not note it.
    return before.at_s or int(now_s - before.interval_s)


def _hints(entry: Entry, headers: Mapping[str, str]) -> Hints:
    changefreq_s, modified_at_s = entry.tail.get(_HINTS, (None, None))
    if entry.kind is Kind.SITEMAP:
        changefreq_s = _SITEMAP_S
    return Hints(
        *(changefreq_s, modified_at_s, recrawl_policy.max_age_s(headers)),
        immutable=recrawl_policy.is_immutable(headers),
    )
