"""Decide when a page is visited again. Pure: time is an argument.

`fixed:7d` visits every page at one interval. `adaptive` learns each page's own: it grows while the
page stays the same and shrinks when it changed. `budget:1000000/d` spends so many visits where they
keep most pages fresh (recrawl_plan.py); sitemaps are visited as by `adaptive`. What sites say
(sitemaps, Cache-Control) counts for the first interval, and as the least one. Visits of pages that
give errors become rarer, and end.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from crawler.config.values import value
from crawler.dedup.content import distance
from crawler.errors import ConfigurationError
from crawler.scheduling.change_rate import ChangeRate
from crawler.scheduling.recrawl_plan import (
    LONGEST_S,
    Budget,
    RecrawlPlan,
    class_of,
    class_of_interval,
    rank_of,
)
from crawler.util.backoff import Backoff
from crawler.util.format import seconds

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

OFF, ADAPTIVE = "off", "adaptive"
_FIXED = "fixed:"
_HOUR_S = 3600.0
_DAY_S = 86_400.0
# Bytes of a content hash that an entry keeps: as many as content-seen knows a page by.
DIGEST_BYTES = 12
# changefreq of sitemaps; "always" and "never" are within the bounds anyway.
CHANGEFREQ_S: Mapping[str, float] = {
    "always": _HOUR_S,
    "hourly": _HOUR_S,
    "daily": _DAY_S,
    "weekly": 7 * _DAY_S,
    "monthly": 30 * _DAY_S,
    "yearly": 365 * _DAY_S,
    "never": 365 * _DAY_S,
}
_MAX_AGE = re.compile(r"(?:^|,)\s*max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_IMMUTABLE = re.compile(r"(?:^|,)\s*immutable\s*(?:,|$)", re.IGNORECASE)
# Older observations count less: what is known of a page is worth so many changes at the most, and
# so long a time.
_MOST_CHANGES, _MOST_TIME_S = 30.0, 730 * _DAY_S
# What a site says of a page counts as half of a change seen, in this time at the most: few visits
# must suffice to find out that it is wrong.
_SAID, _SAID_MAX_S = 0.5, 100 * _DAY_S
# A Last-Modified so close to the visit is that of a page which is made for each request.
_JUST_MADE_S = 3600.0
# A visit after less than this share of the interval was brought forward.
_EARLY = 0.95


@dataclass(frozen=True, slots=True)
class RecrawlTuning:
    """Values of the setting RECRAWL."""

    # Seconds to the second visit, and the least and the most between two; fixed intervals have
    # the least as well.
    start_s: float = 7 * _DAY_S
    min_s: float = _HOUR_S
    max_s: float = 30 * _DAY_S
    # The interval is multiplied by these.
    unchanged: float = 1.5
    changed: float = 0.7
    # More changes in a row than these: at least daily, at least hourly.
    daily_after: int = 5
    hourly_after: int = 10
    # Bits of the SimHash in which two versions may differ and still be the same.
    distance: int = 3
    # More failed visits in a row than this end it; each makes the wait twice as long.
    failures: int = 3

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            whole = field.type == "int"
            if type(value) not in ((int,) if whole else (int, float)) or not 0 <= value < 1e12:
                kind = "whole number" if whole else "number"
                raise ValueError(f"has {field.name} {value!r}; give a {kind}, 0 or more")
        if not 0 < self.min_s <= self.max_s <= LONGEST_S:
            raise ValueError(
                f"has min_s {self.min_s:g} and max_s {self.max_s:g}; give 0 < min_s <= max_s, 10 "
                "years at the most"
            )
        if not (0 < self.changed <= 1 <= self.unchanged):
            raise ValueError(
                f"has changed {self.changed:g} and unchanged {self.unchanged:g}; give a factor up "
                "to 1 and one from 1 on"
            )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Return the defaults with some values changed; ValueError says what is wrong."""
        names = [field.name for field in fields(cls)]
        unknown = set(given) - set(names)
        if unknown:
            raise ValueError(f"has no {min(unknown)!r}; it has {', '.join(names)}")
        return cls(**given)


DEFAULTS = RecrawlTuning()


def recrawl_tuning(settings: BaseSettings) -> RecrawlTuning:
    """Return the defaults as RECRAWL changes them, or raise ConfigurationError."""
    try:
        return RecrawlTuning.from_mapping(value(settings, "RECRAWL"))
    except ValueError as error:
        raise ConfigurationError(f"RECRAWL {error}.") from error


_EVIDENCE = struct.Struct(">ffi")
# More than any number in it: what msgpack can pack.
_MOST = 2**64


class Evidence(NamedTuple):
    """What the visits of a page taught about its rate of changes, beyond what its host's do.

    `changes` and `time_s` are added to the shape and the time of a ChangeRate. `number` is the
    class by which the fleet counts the page.
    """

    changes: float
    time_s: float
    number: int

    def rate(self, before: ChangeRate) -> ChangeRate:
        """Return what is believed now, given what was before the first visit."""
        return ChangeRate(before.shape + self.changes, before.time_s + self.time_s)


@dataclass(frozen=True, slots=True)
class Visit:
    """Memory of a page's visits. It travels in the page's entry, see `packed`."""

    interval_s: float
    # Digest and SimHash of the last version that was seen.
    digest: bytes
    simhash: int | None = None
    # Words of the version that it last changed to, see dedup/content.py.
    words: bytes = b""
    visits: int = 1
    changes: int = 0
    changes_in_a_row: int = 0
    failures_in_a_row: int = 0
    # SimHash of the version that it last changed to, if that is another one: so small changes
    # that add up are noticed.
    since: int | None = None
    # With a budget only.
    evidence: Evidence | None = None
    # Unix time of the last visit that found the page, 0 if it is not known. Not in `packed`.
    at_s: int = 0

    def is_early(self, now_s: float) -> bool:
        """Tell whether a visit now was brought forward."""
        return self.at_s > 0 and now_s - self.at_s < _EARLY * self.interval_s

    def packed(self) -> list[Any]:
        """Return a short list of plain values."""
        numbers = [self.visits, self.changes, self.changes_in_a_row, self.failures_in_a_row]
        if self.since is not None:
            numbers.append(self.since)
        more = [] if self.evidence is None else [_EVIDENCE.pack(*self.evidence)]
        return [round(self.interval_s), self.digest, self.simhash, self.words, *numbers, *more]

    @classmethod
    def unpacked(cls, values: Any, at_s: int = 0) -> Self | None:
        """Read such a list; None for anything else: the page counts as new."""
        try:
            interval_s, digest, simhash, words, *numbers = values
            if not (isinstance(digest, bytes) and isinstance(words, bytes)):
                return None
            hashes = (digest, simhash, words)
            evidence = None
            if isinstance(numbers[-1], bytes):
                evidence = Evidence(*_EVIDENCE.unpack(numbers.pop()))
            counts: list[Any] = [int(number) for number in numbers]
            if any(abs(number) >= _MOST for number in [*counts, float(interval_s)]):
                return None
            visit = cls(float(interval_s), *hashes, *counts)
            visit = replace(visit, evidence=evidence, at_s=at_s)
        except (TypeError, ValueError, IndexError, OverflowError, struct.error):
            return None
        is_number = not math.isnan(visit.interval_s)
        return visit if is_number and (simhash is None or isinstance(simhash, int)) else None


@dataclass(frozen=True, slots=True)
class VisitResult:
    """Hashes of the content that a visit found. Without a digest: not modified (304)."""

    digest: bytes = b""
    simhash: int | None = None
    words: bytes = b""


@dataclass(frozen=True, slots=True)
class Hints:
    """Statements of the site about a page's changes, in seconds. None: it says nothing."""

    changefreq_s: float | None = None
    modified_at_s: float | None = None
    max_age_s: float | None = None
    # The page may be kept without asking until its max-age has expired, however long that is.
    immutable: bool = False
    # Index of recrawl_plan.WEIGHTS.
    rank: int = 0


NO_HINTS = Hints()


@dataclass(frozen=True, slots=True)
class VisitAgain:
    """Decision to visit a page again after a wait."""

    wait_s: float
    visit: Visit
    changed: bool = False


@dataclass(frozen=True, slots=True)
class RecrawlPolicy:
    """Policy by which pages are visited again. `fixed_s` and `plan` None: adaptive."""

    fixed_s: float | None = None
    tuning: RecrawlTuning = DEFAULTS
    # Of a budget.
    plan: RecrawlPlan | None = None

    def visited(
        self,
        before: Visit | None,
        found: VisitResult,
        hints: Hints = NO_HINTS,
        *,
        now_s: float,
        host: str | None = None,
    ) -> VisitAgain:
        """Return the next visit of a page that was there.

        `host` is that of a page which is planned for within a budget; sitemaps are not.
        """
        visit, changed = self._compared(before, found, hints, now_s)
        if self.plan is None:
            if visit.evidence is not None:
                visit = replace(visit, evidence=None)
            return VisitAgain(self._wait_s(visit, hints), visit, changed)
        if host is not None:
            visit = self._planned(self.plan, host, before, visit, hints, changed=changed)
        wait_s = self._wait_s(visit, hints)
        evidence = visit.evidence or Evidence(0, 0, 0)
        if host is None or wait_s > visit.interval_s:
            # It comes then, whatever the price is.
            rank = rank_of(evidence.number)
            evidence = evidence._replace(number=class_of_interval(wait_s, rank))
        interval_s = visit.interval_s if host is None else wait_s
        return VisitAgain(wait_s, replace(visit, interval_s=interval_s, evidence=evidence), changed)

    def _compared(
        self, before: Visit | None, found: VisitResult, hints: Hints, now_s: float
    ) -> tuple[Visit, bool]:
        """Return the visit with its interval, and whether the page has changed since the last."""
        if before is None:
            first_s = self._first_s(hints, now_s)
            visit = Visit(first_s, found.digest, found.simhash, found.words, at_s=int(now_s))
            return visit, False
        changed = self._is_changed(before, found)
        in_a_row = before.changes_in_a_row + 1 if changed else 0
        visit = replace(
            before,
            interval_s=self._next_s(before.interval_s, in_a_row),
            visits=before.visits + 1,
            changes=before.changes + changed,
            changes_in_a_row=in_a_row,
            failures_in_a_row=0,
            at_s=int(now_s),
        )
        if found.digest and found.digest != before.digest:
            known = before.since if before.since is not None else before.simhash
            since = None if changed or known == found.simhash else known
            words = found.words if changed else before.words
            visit = replace(
                visit, digest=found.digest, simhash=found.simhash, words=words, since=since
            )
        return visit, changed

    def _planned(
        self,
        plan: RecrawlPlan,
        host: str,
        before: Visit | None,
        visit: Visit,
        hints: Hints,
        *,
        changed: bool,
    ) -> Visit:
        """Add what the visit teaches, and set the interval that is best at today's price."""
        usual = plan.before(host)
        if before is None or before.evidence is None:
            known = _said(hints, visit.at_s)
        else:
            known = before.evidence
        rate = known.rate(usual)
        if before is not None and before.at_s:
            elapsed_s = max(1.0, visit.at_s - before.at_s)
            if changed and before.is_early(visit.at_s):
                # A sitemap or a feed told of the change when it came.
                rate = rate.after_change_at(elapsed_s)
            else:
                rate = rate.after(elapsed_s, changed=changed)
        rank = hints.rank
        if before is not None and before.evidence is not None and before.digest == visit.digest:
            # A feed that has not changed (304) does not show that it is one.
            rank = max(rank, rank_of(before.evidence.number))
        number = class_of(rate, rank)
        changes, time_s = max(0.0, rate.shape - usual.shape), max(0.0, rate.time_s - usual.time_s)
        fades = min(1.0, _MOST_CHANGES / (changes or 1), _MOST_TIME_S / (time_s or 1))
        interval_s = plan.interval_s(number)
        if before is None and visit.digest:
            # Pages that were found together are not all due together.
            interval_s = max(self.tuning.min_s, interval_s * (0.5 + visit.digest[0] / 255))
        evidence = Evidence(changes * fades, time_s * fades, number)
        return replace(visit, interval_s=interval_s, evidence=evidence)

    def failed(self, before: Visit, *, gone: bool = False) -> VisitAgain | None:
        """Return the next visit of a page that gave an error; None: there is none.

        `gone` says that the page was removed for good (410).
        """
        failures = before.failures_in_a_row + 1
        if gone or failures > self.tuning.failures:
            return None
        backoff = Backoff(before.interval_s, max(self.tuning.max_s, before.interval_s))
        wait_s = backoff.delay_s(failures + 1)
        return VisitAgain(
            wait_s, replace(before, visits=before.visits + 1, failures_in_a_row=failures)
        )

    # -------------------------------------------------------------------------------------------

    def _first_s(self, hints: Hints, now_s: float) -> float:
        if self.fixed_s is not None:
            return max(self.tuning.min_s, self.fixed_s)
        first = self.tuning.start_s
        if hints.changefreq_s is not None:
            first = hints.changefreq_s
        elif hints.modified_at_s is not None:
            # A page that changed lately may change again soon.
            first = min(first, now_s - hints.modified_at_s)
        return self._bounded(first)

    def _next_s(self, interval_s: float, changes_in_a_row: int) -> float:
        tuning = self.tuning
        if self.fixed_s is not None:
            return max(tuning.min_s, self.fixed_s)
        interval_s *= tuning.changed if changes_in_a_row else tuning.unchanged
        if changes_in_a_row > tuning.hourly_after:
            interval_s = min(interval_s, _HOUR_S)
        elif changes_in_a_row > tuning.daily_after:
            interval_s = min(interval_s, _DAY_S)
        return self._bounded(interval_s)

    def _wait_s(self, visit: Visit, hints: Hints) -> float:
        """Wait at least for the max-age of the page, but not for a very long one."""
        if self.fixed_s is not None or hints.max_age_s is None:
            return visit.interval_s
        most_s = self.tuning.max_s if hints.immutable else self.tuning.start_s
        return max(visit.interval_s, min(hints.max_age_s, most_s))

    def _is_changed(self, before: Visit, found: VisitResult) -> bool:
        if not found.digest or found.digest == before.digest:
            return False
        if found.words and found.words == before.words:
            return False
        known = before.since if before.since is not None else before.simhash
        if found.simhash is None or known is None:
            return True
        return distance(found.simhash, known) > self.tuning.distance

    def _bounded(self, interval_s: float) -> float:
        return max(self.tuning.min_s, min(interval_s, self.tuning.max_s))


def policy_of(text: str, tuning: RecrawlTuning = DEFAULTS) -> RecrawlPolicy | None:
    """Return the policy for the argument `recrawl`, None for "off"; ValueError if it is wrong."""
    if text == OFF:
        return None
    if text == ADAPTIVE:
        return RecrawlPolicy(None, tuning)
    if (budget := Budget.parsed(text)) is not None:
        plan = RecrawlPlan(budget, min_s=tuning.min_s, max_s=tuning.max_s)
        return RecrawlPolicy(None, tuning, plan)
    interval_s = seconds(text.removeprefix(_FIXED)) if text.startswith(_FIXED) else None
    if not interval_s or interval_s > LONGEST_S:
        raise ValueError(
            f"is {text!r}; use off, adaptive, fixed: and an interval, as in fixed:7d, fixed:12h or "
            "fixed:30m, of 10 years at the most, or budget: and visits an hour, day or week, as in "
            "budget:1000000/d"
        )
    return RecrawlPolicy(float(interval_s), tuning)


def max_age_s(headers: Mapping[str, str]) -> float | None:
    """Return the max-age of Cache-Control, or the time to Expires; None if there is none, or 0.

    The headers have names in lower case.
    """
    found = _MAX_AGE.search(headers.get("cache-control", ""))
    age = float(found[1]) if found is not None else 0.0
    if found is None and "expires" in headers:
        expires_s, date_s = http_date_s(headers["expires"]), http_date_s(headers.get("date", ""))
        if expires_s is not None and date_s is not None:
            age = max(0.0, expires_s - date_s)
    return age or None


def is_immutable(headers: Mapping[str, str]) -> bool:
    """Return whether Cache-Control says that the page does not change until it expires."""
    return _IMMUTABLE.search(headers.get("cache-control", "")) is not None


def http_date_s(text: str) -> float | None:
    """Return the unix time of a date in a header; None if it is none."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _said(hints: Hints, now_s: float) -> Evidence:
    """Return what a site says of the changes of a new page."""
    changes = time_s = 0.0
    if hints.changefreq_s is not None:
        changes, time_s = _SAID, _SAID * min(hints.changefreq_s, _SAID_MAX_S)
    elif hints.modified_at_s is not None and now_s - hints.modified_at_s > _JUST_MADE_S:
        # So long ago was its last change.
        changes, time_s = _SAID, _SAID * min(now_s - hints.modified_at_s, _SAID_MAX_S)
    return Evidence(changes, time_s, 0)
