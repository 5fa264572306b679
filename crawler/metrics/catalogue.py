"""Every metric that is exported: kind, meaning and labels. Names are stable and say their units.

All have the label `crawl`. Those with `scope` are there twice: "worker" is the process that is
asked, since it started; "fleet" is the whole crawl, all its processes and runs, and is the same
whoever is asked. Label values come from closed lists: never a host, a URL or a text of the web.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a counter's samples have `_total` behind its name."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


_SCOPE = ("scope",)


def _counter(help_: str, *labels: str) -> Metric:
    return Metric("counter", help_, (*_SCOPE, *labels))


METRICS: dict[str, Metric] = {
    # --- counted by processes and added up for the fleet ------------------------------------------
    "crawler_pages_crawled": _counter("Pages: visits answered with a status 2xx"),
    "crawler_pages_stored": _counter("Pages whose content was written to MongoDB"),
    "crawler_pages_failed": _counter(
        "Visits that ended without a page: in another status or without an answer", "cause"
    ),
    "crawler_pages_not_modified": _counter("Recrawls answered with 304: no page, and no failure"),
    "crawler_items_scraped": _counter("Items that went through all pipelines"),
    "crawler_retries": _counter("Fetches that failed and are tried again later, by cause", "cause"),
    "crawler_requests": _counter("HTTP requests sent, those for robots.txt and sitemaps included"),
    "crawler_responses": _counter("HTTP responses by status code", "code"),
    "crawler_response_bytes": _counter("Bytes of responses, as they came"),
    "crawler_links_discovered": _counter("URLs offered to the frontier, known ones included"),
    "crawler_links_new": _counter("URLs that the frontier had not seen before"),
    "crawler_links_refused": _counter("Links that were not followed, by reason", "reason"),
    "crawler_links_spilled": _counter("URLs that wait in MongoDB, as the frontier had no room"),
    "crawler_redirects": _counter("Redirects by status, or by what became of them", "kind"),
    "crawler_robots": _counter("Looks at robots.txt rules by result", "result"),
    "crawler_dns_lookups": _counter("Names looked up by result", "result"),
    "crawler_duplicates": _counter("Pages that are duplicates, exact or near", "kind"),
    "crawler_politeness_waits": _counter("Rests of hosts by what decided their length", "cause"),
    "crawler_politeness_wait_seconds": _counter("Seconds of all rests that hosts were given"),
    "crawler_host_breaker_opened": _counter("Hosts that were left alone as they gave no answer"),
    "crawler_sitemaps_read": _counter("Sitemaps that were read"),
    "crawler_guard_refused": _counter("Connections into private networks that were refused"),
    "crawler_store_batches": _counter("Batches written to MongoDB"),
    "crawler_store_records": _counter("Pages whose metadata was written to MongoDB"),
    "crawler_store_bytes": _counter("Bytes of stored pages before compression"),
    "crawler_store_compressed_bytes": _counter("Bytes of stored pages after compression"),
    "crawler_store_flush_seconds": _counter("Seconds in which batches were written"),
    "crawler_store_failed_flushes": _counter("Batches that MongoDB did not take at first"),
    "crawler_log_messages": _counter("Lines of the log, by level", "level"),
    "crawler_fetch_latency_seconds": Metric(
        "histogram", "From sending a request to its answer's last byte", _SCOPE
    ),
    "crawler_parse_latency_seconds": Metric(
        "histogram", "Time in a spider's callback for one response", _SCOPE
    ),
    # --- now --------------------------------------------------------------------------------------
    "crawler_pages_per_second": Metric("gauge", "Pages a second over the last seconds", _SCOPE),
    "crawler_bytes_per_second": Metric("gauge", "Bytes a second over the last seconds", _SCOPE),
    "crawler_leases_held": Metric("gauge", "Leases that processes say they hold", _SCOPE),
    "crawler_store_breaker_open": Metric(
        "gauge", "Processes whose store takes no pages: MongoDB is away or overloaded", _SCOPE
    ),
    # --- the process that is asked ----------------------------------------------------------------
    "crawler_requests_in_flight": Metric("gauge", "Requests that the downloader works on"),
    "crawler_outbox_size": Metric("gauge", "Settled leases that Redis has not acknowledged"),
    "crawler_event_loop_lag_seconds": Metric("histogram", "How late the event loop came back"),
    "crawler_redis_round_trip_seconds": Metric(
        "histogram", "Time until Redis had taken the figures of this process"
    ),
    "crawler_worker_start_time_seconds": Metric("gauge", "When this process began its crawl"),
    "crawler_scrapy_stat": Metric(
        "gauge", "Scrapy's own stats, by name: a fixed list, and METRICS_STATS", ("stat",)
    ),
    # --- the crawl in Redis -----------------------------------------------------------------------
    "crawler_redis_up": Metric("gauge", "Whether Redis answered; if not, there is no fleet part"),
    "crawler_redis_memory_bytes": Metric("gauge", "Memory that Redis uses, of its fullest node"),
    "crawler_redis_memory_ratio": Metric(
        "gauge", "Used share of maxmemory, of the fullest node; 0 without a limit"
    ),
    "crawler_active_workers": Metric("gauge", "Processes that beat in the last ten seconds"),
    "crawler_silent_workers": Metric("gauge", "Processes that are registered and do not beat"),
    "crawler_active_hosts": Metric(
        "gauge", "Hosts that are ready, resting, in_flight, blocked or excluded", ("state",)
    ),
    "crawler_crawl_paused": Metric("gauge", "Whether the crawl is paused"),
    "crawler_frontier_size": Metric(
        "gauge", "URLs by state; of those in front, by queue", ("state", "queue")
    ),
    "crawler_frontier_urls_added": Metric("counter", "URLs that were ever added"),
    "crawler_frontier_urls_done": Metric("counter", "URLs that were finished"),
    "crawler_frontier_urls_dropped": Metric(
        "counter", "URLs that were left out after they had been added", ("reason",)
    ),
    "crawler_frontier_leases_claimed": Metric("counter", "Leases that were given out"),
    "crawler_frontier_leases_reclaimed": Metric("counter", "Leases taken back from dead processes"),
}
