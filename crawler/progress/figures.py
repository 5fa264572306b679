"""The numbers that are shown, gathered from Scrapy's stats. Pure: no clock, no Redis.

Two kinds that must not be confused: those of this process, since it started, and those of the
whole crawl, which all its processes and earlier runs share and the frontier counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import Sizes

RECENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Process:
    """What this process did in this run."""

    elapsed_s: float = 0.0
    # Pages whose content was kept, or, without a store of ours, that were scraped.
    pages: int = 0
    # Items of other kinds that were scraped: those of spiders that are not the generic one.
    items: int = 0
    # Pages that were read: kept, duplicate, or not to be kept (noindex, an error status).
    records: int = 0
    duplicates_exact: int = 0
    duplicates_near: int = 0
    robots_denied: int = 0
    # Pages that were visited again: changed, unchanged, failed; and answers of "not modified".
    recrawled: Mapping[str, int] = field(default_factory=dict)
    not_modified: int = 0
    # How often fetches failed and were put off, and URLs given up, by reason.
    retries: Mapping[str, int] = field(default_factory=dict)
    dead: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    size_bytes: int = 0
    in_flight: int = 0
    recent_s: float | None = None

    @property
    def average_s(self) -> float:
        """Pages and other items a second since the start."""
        return (self.pages + self.items) / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def duplicates(self) -> int:
        return self.duplicates_exact + self.duplicates_near

    @property
    def not_kept(self) -> int:
        """Pages that asked not to be kept, or came with an error status."""
        return max(0, self.records - self.pages - self.duplicates - self.not_modified)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is shown at one moment; `crawl` is None until the frontier has answered."""

    name: str
    process: Process
    crawl: Sizes | None = None
    # Every process is an owner in each shard of the frontier.
    shards: int = 1
    # Address of the dashboard; empty while there is none.
    dashboard: str = ""

    @property
    def processes(self) -> int:
        return self.crawl.owners // self.shards if self.crawl is not None else 0


def process_figures(stats: Mapping[str, Any], *, elapsed_s: float, items: int = 0) -> Process:
    """The figures of this process from Scrapy's stats; `items` of them are no pages of ours."""
    scraped = stats.get("item_scraped_count", 0) - items
    return Process(
        elapsed_s=elapsed_s,
        pages=stats.get("store/pages", 0) if "store/records" in stats else scraped,
        items=items,
        records=stats.get("store/records", scraped),
        duplicates_exact=stats.get("duplicates/exact", 0),
        duplicates_near=stats.get("duplicates/near", 0),
        robots_denied=stats.get("robots/denied", 0),
        recrawled=_by_reason(stats, "recrawl/", without="unwanted"),
        not_modified=stats.get("conditional/not_modified", 0),
        retries=_by_reason(stats, "retry/"),
        dead=_by_reason(stats, "dead/"),
        errors=stats.get("log_count/ERROR", 0) + stats.get("log_count/CRITICAL", 0),
        size_bytes=stats.get("store/bytes", stats.get("downloader/response_bytes", 0)),
    )


class RecentRate:
    """Pages a second over the last RECENT_S seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, pages: int) -> float | None:
        """Take a reading; returns the rate, or None while there is only one reading."""
        self._points.append((at_s, pages))
        while len(self._points) > 2 and self._points[1][0] <= at_s - RECENT_S:
            self._points.popleft()
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None


def _by_reason(stats: Mapping[str, Any], prefix: str, *, without: str = "") -> dict[str, int]:
    found = {name[len(prefix) :]: n for name, n in stats.items() if name.startswith(prefix)}
    found.pop(without, None)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
