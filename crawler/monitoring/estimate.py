"""Estimate when a crawl ends, where that can be told. Pure: no I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crawler.monitoring.figures import by_word

if TYPE_CHECKING:
    from crawler.frontier import HostState, Sizes
    from crawler.monitoring.ledger import Minute

# Minutes whose figures count, and how many of them there have to be.
_MINUTES, _LEAST = 15, 2
# An estimate beyond that says nothing.
_MAX_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds until a crawl ends, or None; and why, in a sentence."""

    ends_in_s: float | None
    why: str


def estimate(
    sizes: Sizes,
    minutes: Sequence[Minute],
    *,
    max_pages: int,
    processes: int,
    last: HostState | None = None,
) -> Estimate:
    """Estimate the end by the last minutes; the last one, which is not over, does not count.

    `last` is a host that is busy for long.
    """
    if not sizes.unfinished:
        more = f" {sizes.recrawls:,} pages wait for their recrawl." if sizes.recrawls else ""
        return Estimate(None, f"Nothing is left to crawl.{more}")
    if sizes.paused:
        return Estimate(None, "The crawl is paused.")
    if not processes:
        return Estimate(None, "No process works on it.")
    lately = _since_the_start(minutes[-_MINUTES - 1 : -1])
    if len(lately) < _LEAST:
        return Estimate(None, f"It is known after {_LEAST} minutes.")
    span_s = sum(minute.length_s for minute in lately)
    pages = sum(minute.figures.get("pages", 0) for minute in lately)
    visits = sum(_visits(minute) for minute in lately)
    new = sum(minute.figures.get("links/new", 0) for minute in lately)
    ends: list[Estimate] = []
    if max_pages and pages:
        left_s = max(0, max_pages - sizes.pages) * span_s / pages
        ends.append(Estimate(left_s, f"max_pages = {max_pages:,} is reached then."))
    if visits > new:
        left_s = sizes.unfinished * span_s / (visits - new)
        why = f"{visits - new:,} URLs less in {span_s // 60:,} min; {sizes.unfinished:,} are left."
        if last is not None and last.busy_ms > 1000 * left_s:
            # Politeness, and no rate, decides.
            left_s = last.busy_ms / 1000
            why = f"{last.host}: {last.waiting:,} URLs with a delay of {last.delay_ms / 1000:g} s."
        ends.append(Estimate(left_s, why))
    ends = [end for end in ends if end.ends_in_s is not None and end.ends_in_s <= _MAX_S]
    if not ends:
        if visits > new or (max_pages and pages):
            return Estimate(None, "At this pace it takes more than a year.")
        return Estimate(None, f"{new:,} new URLs for {visits:,} visits: it still grows.")
    return min(ends, key=lambda end: end.ends_in_s or 0.0)


def _since_the_start(minutes: Sequence[Minute]) -> Sequence[Minute]:
    """Return the minutes from the first one on in which something was fetched."""
    for at, minute in enumerate(minutes):
        if minute.figures.get("requests") or _visits(minute):
            return minutes[at:]
    return ()


def _visits(minute: Minute) -> int:
    """Count the URLs that left the frontier: pages, and all that ended without one."""
    found = minute.figures
    single = ("pages", "not_modified", "robots/denied")
    ended = sum(found.get(name, 0) for name in single)
    return ended + sum(sum(by_word(found, family).values()) for family in ("failed", "redirects"))
