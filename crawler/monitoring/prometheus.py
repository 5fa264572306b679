"""Figures of a process and of its crawl in the format of Prometheus.

METRICS lists every metric: kind, meaning and labels. Names are stable and say their units. A Sheet
is one answer to a scrape. Reads plain counters and Redis: no cost per page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from crawler.frontier import CrawlControl, Sizes
from crawler.monitoring.histogram import Histogram
from crawler.monitoring.ledger import Fleet, read
from crawler.monitoring.process_stats import FLEET_KINDS, ProcessStats
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.storage.stats import STORE_WORKS
from crawler.util.stat_names import CAUSES, OTHER, part

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """One metric; a counter's samples have `_total` behind its name."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


_SCOPE = ("scope",)


def _counter(help_: str, *labels: str) -> MetricDefinition:
    return MetricDefinition("counter", help_, (*_SCOPE, *labels))


METRICS: dict[str, MetricDefinition] = {
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
    "crawler_fetch_latency_seconds": MetricDefinition(
        "histogram", "From sending a request to its answer's last byte", _SCOPE
    ),
    "crawler_parse_latency_seconds": MetricDefinition(
        "histogram", "Time in a spider's callback for one response", _SCOPE
    ),
    # --- now --------------------------------------------------------------------------------------
    "crawler_pages_per_second": MetricDefinition(
        "gauge", "Pages a second over the last seconds", _SCOPE
    ),
    "crawler_bytes_per_second": MetricDefinition(
        "gauge", "Bytes a second over the last seconds", _SCOPE
    ),
    "crawler_leases_held": MetricDefinition("gauge", "Leases that processes say they hold", _SCOPE),
    "crawler_store_breaker_open": MetricDefinition(
        "gauge", "Processes whose store takes no pages: MongoDB is away or overloaded", _SCOPE
    ),
    # --- the process that is asked ----------------------------------------------------------------
    "crawler_requests_in_flight": MetricDefinition(
        "gauge", "Requests that the downloader works on"
    ),
    "crawler_outbox_size": MetricDefinition(
        "gauge", "Settled leases that Redis has not acknowledged"
    ),
    "crawler_event_loop_lag_seconds": MetricDefinition(
        "histogram", "How late the event loop came back"
    ),
    "crawler_redis_round_trip_seconds": MetricDefinition(
        "histogram", "Time until Redis had taken the figures of this process"
    ),
    "crawler_worker_start_time_seconds": MetricDefinition(
        "gauge", "When this process began its crawl"
    ),
    "crawler_scrapy_stat": MetricDefinition(
        "gauge", "Scrapy's own stats, by name: a fixed list, and METRICS_STATS", ("stat",)
    ),
    # --- the crawl in Redis -----------------------------------------------------------------------
    "crawler_redis_up": MetricDefinition(
        "gauge", "Whether Redis answered; if not, there is no fleet part"
    ),
    "crawler_redis_memory_bytes": MetricDefinition(
        "gauge", "Memory that Redis uses, of its fullest node"
    ),
    "crawler_redis_memory_ratio": MetricDefinition(
        "gauge", "Used share of maxmemory, of the fullest node; 0 without a limit"
    ),
    "crawler_active_workers": MetricDefinition(
        "gauge", "Processes that beat in the last ten seconds"
    ),
    "crawler_silent_workers": MetricDefinition(
        "gauge", "Processes that are registered and do not beat"
    ),
    "crawler_active_hosts": MetricDefinition(
        "gauge", "Hosts that are ready, resting, in_flight, blocked or excluded", ("state",)
    ),
    "crawler_crawl_paused": MetricDefinition("gauge", "Whether the crawl is paused"),
    "crawler_frontier_size": MetricDefinition(
        "gauge", "URLs by state; of those in front, by queue", ("state", "queue")
    ),
    "crawler_frontier_urls_added": MetricDefinition("counter", "URLs that were ever added"),
    "crawler_frontier_urls_done": MetricDefinition("counter", "URLs that were finished"),
    "crawler_frontier_urls_dropped": MetricDefinition(
        "counter", "URLs that were left out after they had been added", ("reason",)
    ),
    "crawler_frontier_leases_claimed": MetricDefinition("counter", "Leases that were given out"),
    "crawler_frontier_leases_reclaimed": MetricDefinition(
        "counter", "Leases taken back from dead processes"
    ),
}

# Five beats.
_SILENT_S = 10.0


@dataclass(frozen=True, slots=True)
class FleetReading:
    """The crawl at one moment."""

    fleet: Fleet
    sizes: Sizes
    # How many are in which state.
    hosts: dict[str, int]
    memory_bytes: int
    memory_ratio: float


async def read_fleet(redis: Client, crawl: str) -> FleetReading | None:
    """Ask Redis; None if it does not answer. CrawlerError if there is no such crawl."""
    try:
        control = await CrawlControl.of(redis, crawl)
        return FleetReading(
            fleet=await read(redis, crawl, minutes=1),
            sizes=await control.sizes(),
            hosts=await control.host_counts(),
            memory_bytes=_used(await redis.info("memory")),
            memory_ratio=await control.memory_share(),
        )
    except RedisAway:
        return None


def add_fleet(sheet: Sheet, reading: FleetReading | None) -> None:
    """Add what Redis knows of the crawl."""
    sheet.add("crawler_redis_up", reading is not None)
    if reading is None:
        return
    add_figures(sheet, reading.fleet.totals, "fleet")
    _add_workers(sheet, reading.fleet)
    _add_sizes(sheet, reading.sizes)
    for state, count in reading.hosts.items():
        sheet.add("crawler_active_hosts", count, state=state)
    sheet.add("crawler_redis_memory_bytes", reading.memory_bytes)
    sheet.add("crawler_redis_memory_ratio", reading.memory_ratio)


def _add_workers(sheet: Sheet, fleet: Fleet) -> None:
    workers = list(fleet.instances.values())
    live = [worker for worker in workers if worker["silent_s"] <= _SILENT_S]
    sheet.add("crawler_active_workers", len(live))
    sheet.add("crawler_silent_workers", len(workers) - len(live))
    for name, key in (
        ("crawler_pages_per_second", "pages_per_s"),
        ("crawler_bytes_per_second", "bytes_per_s"),
        ("crawler_leases_held", "held"),
    ):
        sheet.add(name, sum(worker.get(key) or 0 for worker in live), scope="fleet")
    stuck = sum(worker.get("store", "off") not in STORE_WORKS for worker in live)
    sheet.add("crawler_store_breaker_open", stuck, scope="fleet")


def _add_sizes(sheet: Sheet, sizes: Sizes) -> None:
    for number, waiting in enumerate(sizes.front, 1):
        sheet.add("crawler_frontier_size", waiting, state="front", queue=str(number))
    for state, count in (
        ("back", sizes.back),
        ("leased", sizes.leased),
        ("retry", sizes.retries),
        ("recrawl", sizes.recrawls),
        ("dead", sizes.dead - sizes.trimmed),
    ):
        sheet.add("crawler_frontier_size", count, state=state, queue="")
    sheet.add("crawler_crawl_paused", sizes.paused > 0)
    for name, count in (
        ("crawler_frontier_urls_added", sizes.added),
        ("crawler_frontier_urls_done", sizes.done),
        ("crawler_frontier_leases_claimed", sizes.claimed),
        ("crawler_frontier_leases_reclaimed", sizes.reclaimed),
    ):
        sheet.add(name, count)
    for reason, count in (
        ("excluded", sizes.dropped_excluded),
        ("purged", sizes.dropped_purged),
        ("budget", sizes.dropped_budget),
        ("refused", sizes.refused),
    ):
        sheet.add("crawler_frontier_urls_dropped", count, reason=reason)


def _used(memory: dict[str, Any]) -> int:
    """Of a server, or of a cluster's fullest node."""
    nodes = [memory] if "used_memory" in memory else list(memory.values())
    return max(int(node["used_memory"]) for node in nodes)


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


# Of Scrapy's own stats those that say something about a crawl of ours.
SCRAPY_STATS = (
    "downloader/exception_count",
    "downloader/request_bytes",
    "downloader/request_count",
    "downloader/response_bytes",
    "downloader/response_count",
    "elapsed_time_seconds",
    "httpcompression/response_bytes",
    "httpcompression/response_count",
    "item_dropped_count",
    "item_scraped_count",
    "log_count/CRITICAL",
    "log_count/ERROR",
    "log_count/WARNING",
    "memusage/max",
    "memusage/startup",
    "request_depth_max",
    "response_received_count",
    "spider_exceptions/count",
)


@dataclass(frozen=True)
class WorkerReading:
    """What a process lets others see of itself."""

    process_stats: ProcessStats
    crawler: Crawler = field(repr=False)
    # More of Scrapy's stats, by name.
    stats: Sequence[str] = ()

    @classmethod
    def of(cls, crawler: Crawler) -> WorkerReading:
        """This process, as its settings want it shown."""
        return cls(ProcessStats.of(crawler), crawler, crawler.settings.getlist("METRICS_STATS"))


def add_worker(sheet: Sheet, worker: WorkerReading) -> None:
    """Add all that this process knows of itself."""
    process_stats = worker.process_stats
    add_figures(sheet, process_stats.figures(), "worker")
    for name, value in process_stats.rates(monotonic()).items():
        sheet.add(f"crawler_{name}", value, scope="worker")
    stuck = process_stats.store_state not in STORE_WORKS
    sheet.add("crawler_store_breaker_open", stuck, scope="worker")
    sheet.add("crawler_worker_start_time_seconds", process_stats.started_at)
    sheet.add_histogram("crawler_event_loop_lag_seconds", process_stats.lag)
    sheet.add_histogram("crawler_redis_round_trip_seconds", process_stats.redis)
    engine: Any = worker.crawler.engine
    if engine is not None:
        leases = engine.scheduler.leases
        sheet.add("crawler_leases_held", leases.held, scope="worker")
        sheet.add("crawler_outbox_size", len(list(leases.outbox.unsettled)))
        sheet.add("crawler_requests_in_flight", len(engine.downloader.active))
    for name in dict.fromkeys((*SCRAPY_STATS, *worker.stats)):
        value = process_stats.stat(name)
        if isinstance(value, (int, float)):
            sheet.add("crawler_scrapy_stat", value, stat=name)


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Sheet:
    """The metrics of the catalogue, as far as somebody filled them in."""

    def __init__(self, crawl: str) -> None:
        self._crawl = crawl
        self._families: dict[str, Metric] = {}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a sample; the metric and its labels are those of the catalogue."""
        family = self._family(name)
        assert isinstance(family, (CounterMetricFamily, GaugeMetricFamily))
        family.add_metric(self._values(name, labels), value)

    def add_histogram(self, name: str, histogram: Histogram, **labels: str) -> None:
        """Add all samples of a histogram."""
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        buckets, total = [], 0
        for bound, count in zip((*histogram.bounds_s, None), histogram.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else repr(float(bound)), float(total)))
        family.add_metric(self._values(name, labels), buckets, histogram.sum_s)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks of a registry."""
        yield from self._families.values()

    def text(self) -> bytes:
        """The answer, in the text format."""
        return generate_latest(self)

    def _family(self, name: str) -> Metric:
        family = self._families.get(name)
        if family is None:
            metric = METRICS[name]
            kind = {
                "counter": CounterMetricFamily,
                "gauge": GaugeMetricFamily,
                "histogram": HistogramMetricFamily,
            }[metric.kind]
            family = self._families[name] = kind(
                name, metric.help, labels=("crawl", *metric.labels)
            )
        return family

    def _values(self, name: str, labels: dict[str, str]) -> list[str]:
        return [self._crawl, *(labels[label] for label in METRICS[name].labels)]
