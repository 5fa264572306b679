"""Recognise crawler traps, endless spaces of URLs, by their shapes. Pure: no clock.

Counts are bounded: the least recently used are dropped.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from crawler import config
from crawler.util.recent import ENTRY_BYTES, RecentDict

# Memory of each of three tallies: some 30,000 templates.
_TALLY_MAX_BYTES = 5_000_000
# A listing with this many parameters is being filtered.
_FILTER_PARAMETERS = 4
# Also of a path that ends with two slashes: nothing.
_DIGITS = frozenset(["", *"0123456789"])

_NUMBER = re.compile(r"\d+", re.ASCII)
# A year and a month, perhaps a day, and then no more than the end of the path or another parameter:
# /2024/05, /2024/5/1/, /calendar/2024-05, ?date=2024-05-01, ?month=202405. An article has a name
# behind its date.
_DATE = re.compile(
    r"(?<![0-9A-Za-z])(1[89]\d\d|2[01]\d\d)(?:[/_.-]?(0[1-9]|1[0-2])|[/_.-]([1-9]))"
    r"(?:[/_.-]?[0-3]?\d)?(?:/?$|/?(?=[?&]))",
    re.ASCII,
)
# Part of every year that these find.
_CENTURY = re.compile(r"1[89]\d\d|2[01]\d\d", re.ASCII)
_YEAR = re.compile(r"[?&](?:y|yr|year)=(1[89]\d\d|2[01]\d\d)(?=&|$)", re.ASCII | re.IGNORECASE)
# Names of session parameters; those with long values are dropped from URLs anyway.
_SESSION = re.compile(
    r"(?:&|^)(?:sid|\w*sess(?:ion)?_?(?:id)?|\w*csid|zenid|cftoken|token)=",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TrapRules:
    """Limits beyond which URLs count as a trap. 0 switches a rule off."""

    # How often a path may have the same segment, or a query the same parameter with its value.
    segment_repeats: int = config.setting("TRAP_SEGMENT_REPEATS")
    path_depth: int = config.setting("TRAP_PATH_DEPTH")
    # Characters of a page's URL above which its links may not extend that URL.
    growth_length: int = config.setting("TRAP_GROWTH_LENGTH")
    # Index pages of dates, per template: those that are further back or ahead than these years, and
    # those that another one of the template leads to. An archive has a list of its months or days,
    # a calendar has links to the next and the last one, without end.
    calendar_max: int = config.setting("TRAP_CALENDAR_MAX")
    calendar_years: Sequence[int] = config.setting("TRAP_CALENDAR_YEARS")
    # URLs with a query, per template.
    template_max: int = config.setting("TRAP_TEMPLATE_MAX")
    # Sets of parameter names per path.
    combinations_max: int = config.setting("TRAP_COMBINATIONS_MAX")
    # URLs with four or more parameters, per path whatever their names.
    filters_max: int = config.setting("TRAP_FILTERS_MAX")
    # URLs with a session id, per template.
    sessions_max: int = config.setting("TRAP_SESSIONS_MAX")
    # Pages of a template after which half of them must be no duplicates.
    duplicates_after: int = config.setting("TRAP_DUPLICATES_AFTER")


@dataclass(slots=True)
class PageLinks:
    """Links of one page, and how much of the limits they have used so far."""

    page_url: str
    # Not a Counter: making one takes longer than checking several links.
    used: dict[str, int] = field(default_factory=dict)
    # Links that fall under a limit, and count if they are new: see `followed`.
    capped: list[str] = field(default_factory=list)


class Traps:
    """Check of links for traps, with counts of the links followed for each template."""

    def __init__(self, rules: TrapRules | None = None) -> None:
        self.rules = rules or TrapRules()
        # Paths with no more segments than this cannot break a rule, nor can those that have none
        # more often, or links of a page whose URL is no longer than this.
        self._harmless_repeats = self.rules.segment_repeats or sys.maxsize
        self._harmless_depth = self.rules.path_depth or sys.maxsize
        self._harmless_segments = min(self._harmless_repeats, self._harmless_depth)
        self._harmless_length = self.rules.growth_length or sys.maxsize
        self._followed = Tally()
        self._fetched = Tally()
        self._duplicates = Tally()

    def is_long(self, page_url: str) -> bool:
        """Return whether the links of this page may extend its URL too far."""
        return len(page_url) > self._harmless_length

    def is_harmless(self, segments: Sequence[str]) -> bool:
        """Return whether a path without a query surely breaks no rule, unless its page is long.

        True for most links: no rule needs to be checked. `segments` are those of the path.
        """
        number, last = len(segments), segments[-1]
        if number > self._harmless_segments and (
            number > self._harmless_depth or number - len(set(segments)) >= self._harmless_repeats
        ):
            return False
        if not last:
            last = segments[-2] if number > 1 else "/"
        # A path that ends with a digit may be named after a date.
        return last[-1:] not in _DIGITS

    def refuses(self, url: str, page: PageLinks, today: date) -> str | None:
        """Return the reason not to follow a canonical URL that a page links to, or None."""
        if (
            "?" not in url
            and not self.is_long(page.page_url)
            and self.is_harmless(url.split("/")[3:])
        ):
            return None
        return self._reason(url, page, today)

    def followed(self, url: str, *, page_url: str, today: date) -> None:
        """Count a URL that a page links to and that was new to the frontier."""
        form = _form(url)
        if form.query or form.year is not None:
            for _, key, _ in self._caps(form, page_url, today, ()):
                self._followed.add(key)

    def fetched(self, url: str, *, duplicate: bool) -> None:
        """Count a fetched page, and whether it was the duplicate of another."""
        location, _, query = url.partition("?")
        if query:
            template = _template(_shape(location), query)
            self._fetched.add(template)
            if duplicate:
                self._duplicates.add(template)

    def _reason(self, url: str, page: PageLinks, today: date) -> str | None:
        rules = self.rules
        location, _, query = url.partition("?")
        if location.count("/") > self._harmless_segments + 2:
            # Two slashes are those of "http://".
            reason = _path_reason(location, rules)
            if reason is not None:
                return reason
        if 0 < rules.growth_length < len(page.page_url) < len(url) and _extends(url, page.page_url):
            return "growing"
        if query:
            if rules.segment_repeats and query.count("&") >= rules.segment_repeats:
                most = max(Counter(query.split("&")).values())
                if most > rules.segment_repeats:
                    return "repeated"
        elif _dated(url, query) is None:
            return None
        form = _form(url)
        if query and self._is_repetitive(form.template):
            return "duplicates"
        caps = self._caps(form, page.page_url, today, page.used)
        for reason, key, most in caps:
            if self._followed[key] + page.used.get(key, 0) >= most:
                return reason
        for _, key, _ in caps:
            page.used[key] = page.used.get(key, 0) + 1
        page.capped.append(url)
        return None

    def _is_repetitive(self, template: str) -> bool:
        fetched = self._fetched[template]
        return (
            0 < self.rules.duplicates_after <= fetched and 2 * self._duplicates[template] > fetched
        )

    def _caps(
        self, form: _Form, page_url: str, today: date, used: Container[str]
    ) -> list[tuple[str, str, int]]:
        """Return the limits that a URL falls under: reason, key and number."""
        rules, (shape, query, template, year) = self.rules, form
        found = []
        if query:
            is_first = not self._followed[template] and template not in used
            if rules.combinations_max and is_first:
                found.append(("combinations", f"names {shape}", rules.combinations_max))
            found.append(("template", template, rules.template_max or sys.maxsize))
            if rules.filters_max and query.count("&") >= _FILTER_PARAMETERS - 1:
                found.append(("filters", f"filters {shape}", rules.filters_max))
            if rules.sessions_max and _SESSION.search(query) is not None:
                found.append(("session", f"session {template}", rules.sessions_max))
        if (
            rules.calendar_max
            and year is not None
            and (self._is_far(year, today) or _is_dated_alike(page_url, shape))
        ):
            found.append(("calendar", f"calendar {shape.rstrip('/')}", rules.calendar_max))
        return found

    def _is_far(self, year: int, today: date) -> bool:
        back, ahead = self.rules.calendar_years
        return not today.year - back <= year <= today.year + ahead


def _path_reason(location: str, rules: TrapRules) -> str | None:
    segments = [part for part in location.split("/")[3:] if part]
    if rules.path_depth and len(segments) > rules.path_depth:
        return "deep"
    repeats = rules.segment_repeats
    # Most paths have no segment twice.
    if not repeats or len(segments) - len(set(segments)) < repeats:
        return None
    return "repeated" if max(Counter(segments).values()) > repeats else None


def _extends(url: str, page_url: str) -> bool:
    """Return whether a URL extends the page's URL, in its path or its query."""
    return url.partition("?")[0].startswith(page_url.partition("?")[0])


def _dated(url: str, query: str) -> int | None:
    """Return the year of a URL that is named only after a date, or None."""
    if not query and not url.rstrip("/")[-1].isdigit():
        return None
    path_at = url.index("/", 8)
    if _CENTURY.search(url, path_at) is None:
        # Most have no year.
        return None
    found = _DATE.search(url, path_at)
    if found is None and query:
        found = _YEAR.search(url)
    return int(found[1]) if found is not None else None


def _is_dated_alike(page_url: str, shape: str) -> bool:
    """Is a page an index of a date too, with the same path except for its numbers?"""
    location, _, query = page_url.partition("?")
    if _dated(page_url, query) is None:
        return False
    return _shape(location).rstrip("/") == shape.rstrip("/")


class _Form(NamedTuple):
    """Properties of a URL that limits depend on."""

    # Host and path, with every number as 0.
    shape: str
    query: str
    # The shape with the names of the query's parameters; empty without a query.
    template: str
    # Of a URL that is named after a date.
    year: int | None


def _form(url: str) -> _Form:
    location, _, query = url.partition("?")
    shape = _shape(location)
    return _Form(shape, query, _template(shape, query) if query else "", _dated(url, query))


def _template(shape: str, query: str) -> str:
    """Return a shape with the names of the parameters."""
    if "&" not in query:
        return f"{shape}?{query.partition('=')[0]}"
    names = sorted({part.partition("=")[0] for part in query.split("&")})
    return f"{shape}?{'&'.join(names)}"


def _shape(location: str) -> str:
    """Return host and path, with every number as 0."""
    path_at = location.index("/", 8)
    return location[location.index("//") + 2 : path_at] + _NUMBER.sub("0", location[path_at:])


class Tally:
    """Counts of the keys that were counted last; any other key has 0.

    Keeps hashes of the keys, which have up to 2,000 characters.
    """

    __slots__ = ("_counts",)

    def __init__(self, max_bytes: int = _TALLY_MAX_BYTES) -> None:
        self._counts = RecentDict[int, int](max_bytes, lambda _hashed, _count: ENTRY_BYTES)

    def __getitem__(self, key: str) -> int:
        return self._counts.get(hash(key), 0)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: str) -> None:
        """Count one more."""
        self._counts[hash(key)] = self[key] + 1
