"""Fill in the metrics that are counted by processes and added up for the fleet."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.metrics.sheet import Sheet
from crawler.vitals.histogram import Histogram
from crawler.vitals.names import CAUSES, OTHER, part
from crawler.vitals.vitals import FLEET_KINDS

# Metric -> figure. Those that were never counted are 0, so that rates exist from the start.
_PLAIN = {
    "crawler_pages_crawled": "pages",
    "crawler_pages_stored": "store/pages",
    "crawler_pages_not_modified": "not_modified",
    "crawler_items_scraped": "items",
    "crawler_requests": "requests",
    "crawler_response_bytes": "bytes",
    "crawler_links_discovered": "links/found",
    "crawler_links_new": "links/new",
    "crawler_links_spilled": "links/spilled",
    "crawler_host_breaker_opened": "breaker/opened",
    "crawler_sitemaps_read": "sitemaps/read",
    "crawler_guard_refused": "guard/refused",
    "crawler_store_batches": "store/batches",
    "crawler_store_records": "store/records",
    "crawler_store_bytes": "store/bytes",
    "crawler_store_compressed_bytes": "store/compressed_bytes",
    "crawler_store_failed_flushes": "store/failed_flushes",
}
# Metric -> family of figures, its label, and the values that are always there. Of failures all of
# them: each cause may be rare, and the first of a kind would be in no rate.
_ALL_CAUSES = (*sorted(CAUSES), OTHER)
_FAMILIES = {
    "crawler_pages_failed": ("failed", "cause", _ALL_CAUSES),
    "crawler_retries": ("retries", "cause", _ALL_CAUSES),
    "crawler_responses": ("status", "code", ("200",)),
    "crawler_links_refused": ("links/refused", "reason", ("scope",)),
    "crawler_redirects": ("redirects", "kind", ("301",)),
    "crawler_robots": ("robots", "result", ("denied",)),
    "crawler_dns_lookups": ("dns", "result", ("misses",)),
    "crawler_duplicates": ("duplicates", "kind", ("exact",)),
    "crawler_politeness_waits": ("waits", "cause", ("minimum",)),
}
_MILLISECONDS = {
    "crawler_politeness_wait_seconds": "waits_ms",
    "crawler_store_flush_seconds": "store/flush_ms",
}
_LEVELS = {"error": "errors", "warning": "warnings"}


def add_figures(sheet: Sheet, figures: Mapping[str, int], scope: str) -> None:
    """Add what a process or the fleet counted."""
    for name, figure in _PLAIN.items():
        sheet.add(name, figures.get(figure, 0), scope=scope)
    for name, (family, label, least) in _FAMILIES.items():
        for value, count in (dict.fromkeys(least, 0) | part(figures, family)).items():
            sheet.add(name, count, scope=scope, **{label: value})
    for level, figure in _LEVELS.items():
        sheet.add("crawler_log_messages", figures.get(figure, 0), scope=scope, level=level)
    for name, figure in _MILLISECONDS.items():
        sheet.add(name, figures.get(figure, 0) / 1000, scope=scope)
    for kind, bounds_s in FLEET_KINDS.items():
        histogram = Histogram.of(figures, kind, bounds_s)
        sheet.add_histogram(f"crawler_{kind}_latency_seconds", histogram, scope=scope)
