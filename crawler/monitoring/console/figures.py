"""The numbers that are shown, gathered from Scrapy's stats. Pure: no clock, no Redis.

Two kinds that must not be confused: those of this process, since it started, and those of the
whole crawl, which all its processes and earlier runs share and the frontier counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import Sizes
from crawler.monitoring.figures import success_rate


@dataclass(frozen=True, slots=True)
class Process:
    """What this process did in this run."""

    elapsed_s: float = 0.0
    # How visits to URLs ended, as monitoring/figures.py defines it: pages, not modified, failed by
    # cause.
    pages: int = 0
    not_modified: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    # Pages whose content was written to the store, and those that are not to be kept (noindex …).
    stored: int = 0
    not_kept: int = 0
    # Items of other kinds that were scraped: those of spiders that are not the generic one.
    items: int = 0
    duplicates_exact: int = 0
    duplicates_near: int = 0
    robots_denied: int = 0
    # Pages that were visited again: changed, unchanged, failed.
    recrawled: Mapping[str, int] = field(default_factory=dict)
    # How often fetches failed and were put off, and URLs in the dead-letter queue, by reason.
    retries: Mapping[str, int] = field(default_factory=dict)
    dead: Mapping[str, int] = field(default_factory=dict)
    errors: int = 0
    size_bytes: int = 0
    in_flight: int = 0
    recent_s: float | None = None

    @property
    def average_s(self) -> float:
        """Pages a second since the start."""
        return self.pages / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def visits(self) -> int:
        """Visits that found a page, or failed."""
        return self.pages + self.not_modified + sum(self.failed.values())

    @property
    def success(self) -> float | None:
        """The success rate; None before the first visit ended."""
        return success_rate(self.pages, self.not_modified, sum(self.failed.values()))


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
    return Process(
        elapsed_s=elapsed_s,
        pages=stats.get("pages/crawled", 0),
        not_modified=stats.get("pages/not_modified", 0),
        failed=_by_reason(stats, "failed/"),
        stored=stats.get("store/pages", 0),
        not_kept=stats.get("store/not_kept", 0),
        items=items,
        duplicates_exact=stats.get("duplicates/exact", 0),
        duplicates_near=stats.get("duplicates/near", 0),
        robots_denied=stats.get("robots/denied", 0),
        recrawled=_by_reason(stats, "recrawl/", without="unwanted"),
        retries=_by_reason(stats, "retry/"),
        dead=_by_reason(stats, "dead/"),
        errors=stats.get("log_count/ERROR", 0) + stats.get("log_count/CRITICAL", 0),
        size_bytes=stats.get("store/bytes", stats.get("downloader/response_bytes", 0)),
    )


def _by_reason(stats: Mapping[str, Any], prefix: str, *, without: str = "") -> dict[str, int]:
    found = {name[len(prefix) :]: n for name, n in stats.items() if name.startswith(prefix)}
    found.pop(without, None)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
