"""Metrics of a process and of its crawl in the format of Prometheus.

Counters with a `scope` are those of FIGURES (figures.py). Each other metric has its name, meaning
and value in one place here. Names are stable and say their units; docs/metrics.md has all of them.
A Sheet is one answer to a scrape. It reads plain counters and Redis: no cost per page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from crawler.monitoring.figures import FIGURES, SINK, Figure, by_word
from crawler.monitoring.histogram import FLEET_BOUNDS_S, Histogram
from crawler.monitoring.ledger import Fleet, read
from crawler.monitoring.process_stats import ProcessStats
from crawler.monitoring.sinks import INACTIVE, OK, SinksState, sinks_state
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.storage.storage import STORE_WORKS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

CONTENT_TYPE = CONTENT_TYPE_LATEST
_REDIS_UP = "Whether Redis answered; if not, fleet metrics are missing"
_RATES = ("pages_per_s", "bytes_per_s")
# Those of Scrapy's own stats that say something about a crawl of ours.
SCRAPY_STATS = (
    "downloader/exception_count downloader/request_bytes downloader/request_count "
    "downloader/response_bytes downloader/response_count elapsed_time_seconds "
    "httpcompression/response_bytes httpcompression/response_count item_dropped_count "
    "item_scraped_count log_count/CRITICAL log_count/ERROR log_count/WARNING memusage/max "
    "memusage/startup request_depth_max response_received_count spider_exceptions/count"
).split()


class Sheet:
    """Metrics of one answer, in the order in which they were added. Labels have one order."""

    def __init__(self, crawl: str) -> None:
        self._crawl = crawl
        self._families: dict[str, Any] = {}

    def counter(self, name: str, meaning: str, value: float, **labels: str) -> None:
        """Add a sample of a counter; `name` is without its _total."""
        self._add(CounterMetricFamily, name, meaning, labels, value)

    def gauge(self, name: str, meaning: str, value: float, **labels: str) -> None:
        """Add a sample of a gauge."""
        self._add(GaugeMetricFamily, name, meaning, labels, value)

    def histogram(self, name: str, meaning: str, found: Histogram, **labels: str) -> None:
        """Add all samples of a histogram."""
        buckets, total = [], 0
        for bound, count in zip((*found.bounds_s, None), found.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound is None else repr(float(bound)), float(total)))
        self._add(HistogramMetricFamily, name, meaning, labels, buckets, found.sum_s)

    def _add(
        self, kind: Any, name: str, meaning: str, labels: Mapping[str, str], *value: Any
    ) -> None:
        if name not in self._families:
            self._families[name] = kind(name, meaning, labels=("crawl", *labels))
        self._families[name].add_metric([self._crawl, *labels.values()], *value)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as prometheus_client asks of a registry."""
        yield from self._families.values()

    def text(self) -> bytes:
        """Return the answer in the text format."""
        return generate_latest(self)


async def add_fleet(sheet: Sheet, redis: Client, crawl: str) -> None:
    """Add what Redis has of the crawl, if it answers. CrawlerError if there is no such crawl."""
    try:
        control = await CrawlControl.open(redis, crawl)
        fleet, shards = await read(redis, crawl, minutes=1), await control.sizes_by_shard()
        hosts, memory = await control.host_counts(), await redis.info("memory")
        ratio = await control.memory_share()
    except RedisAway:
        sheet.gauge("crawler_redis_up", _REDIS_UP, 0)
        return
    # Each node of a cluster answers.
    nodes = [memory] if "used_memory" in memory else list(memory.values())
    used_bytes = max(int(node["used_memory"]) for node in nodes)
    add_crawl(sheet, fleet, shards, hosts, memory_bytes=used_bytes, memory_ratio=ratio)


def add_crawl(
    sheet: Sheet,
    fleet: Fleet,
    shards: Sequence[Sizes],
    hosts: Mapping[str, int],
    *,
    memory_bytes: int,
    memory_ratio: float,
) -> None:
    """Add the fleet's figures and workers, the frontier's sizes, hosts by state, Redis's memory."""
    sheet.gauge("crawler_redis_up", _REDIS_UP, 1)
    used = "Memory that Redis uses, on its fullest node"
    sheet.gauge("crawler_redis_memory_bytes", used, memory_bytes)
    used = "Used share of maxmemory, on the fullest node; 0 without a limit"
    sheet.gauge("crawler_redis_memory_ratio", used, memory_ratio)
    live = fleet.live
    sinks = sinks_state(live, fleet.totals)
    _add_figures(sheet, fleet.totals, "fleet", sinks)
    sheet.gauge(
        "crawler_active_workers", "Processes with a heartbeat in the last ten seconds", len(live)
    )
    sheet.gauge(
        *("crawler_silent_workers", "Registered processes that send no heartbeats"),
        len(fleet.instances) - len(live),
    )
    _add_state(
        *(sheet, "fleet"),
        per_s=[sum(worker.get(name) or 0 for worker in live) for name in _RATES],
        held=sum(worker.get("held") or 0 for worker in live),
        stuck=sum(worker.get("store", "off") not in STORE_WORKS for worker in live),
    )
    _add_sinks(sheet, "fleet", sinks)
    meaning = "Hosts by state"
    for state, count in hosts.items():
        sheet.gauge("crawler_active_hosts", meaning, count, state=state)
    _add_sizes(sheet, sum(shards[1:], shards[0]))
    for number, shard in enumerate(shards):
        states = {"waiting": shard.waiting, "leased": shard.leased}
        states["delayed"] = shard.retries + shard.recrawls
        for state, count in states.items():
            meaning = "URLs of each shard, by state"
            sheet.gauge("crawler_shard_size", meaning, count, shard=str(number), state=state)


def _add_sizes(sheet: Sheet, sizes: Sizes) -> None:
    meaning = "URLs by state; those in front also by queue (6: documents, 7: media)"
    urls = {("front", str(number)): count for number, count in enumerate(sizes.front, 1)} | {
        ("back", ""): sizes.back,
        ("leased", ""): sizes.leased,
        ("retry", ""): sizes.retries,
        ("recrawl", ""): sizes.recrawls,
        ("dead", ""): sizes.dead - sizes.trimmed,
    }
    for (state, queue), count in urls.items():
        sheet.gauge("crawler_frontier_size", meaning, count, state=state, queue=queue)
    sheet.gauge("crawler_crawl_paused", "Whether the crawl is paused", sizes.paused > 0)
    for name, meaning, count in (
        ("crawler_frontier_urls_added", "URLs ever added", sizes.added),
        ("crawler_frontier_urls_done", "URLs finished", sizes.done),
        ("crawler_frontier_leases_claimed", "Leases claimed", sizes.claimed),
        (
            *("crawler_frontier_leases_reclaimed", "Leases reclaimed from dead processes"),
            sizes.reclaimed,
        ),
    ):
        sheet.counter(name, meaning, count)
    meaning = "URLs dropped, by reason"
    for reason, count in (
        ("excluded", sizes.dropped_excluded),
        ("purged", sizes.dropped_purged),
        ("budget", sizes.dropped_budget),
        ("refused", sizes.refused),
    ):
        sheet.counter("crawler_frontier_urls_dropped", meaning, count, reason=reason)


def add_worker(sheet: Sheet, crawler: Crawler) -> None:
    """Add all that this process knows of itself."""
    process_stats, engine = ProcessStats.of(crawler), crawler.engine
    sinks = process_stats.sinks()
    _add_figures(sheet, process_stats.figures(), "worker", sinks)
    _add_sinks(sheet, "worker", sinks)
    stuck = process_stats.store_state not in STORE_WORKS
    scheduler: Any = engine.scheduler if engine is not None else None
    held = scheduler.leases.held if scheduler is not None else 0
    _add_state(sheet, "worker", per_s=process_stats.rates(monotonic()), held=held, stuck=stuck)
    sheet.gauge(
        "crawler_worker_start_time_seconds",
        "When this process started its crawl, as Unix time",
        process_stats.started_at,
    )
    sheet.histogram("crawler_event_loop_lag_seconds", "Lag of the event loop", process_stats.lag)
    sheet.histogram(
        "crawler_redis_round_trip_seconds",
        "Time that Redis took to accept the figures of this process",
        process_stats.redis,
    )
    if engine is not None and scheduler is not None:
        sheet.gauge(
            "crawler_outbox_size",
            "Settled leases that Redis has not acknowledged",
            len(scheduler.leases.outbox.unsettled),
        )
        plan = scheduler.recrawls.plan
        if plan is not None:
            meaning = "Recrawls a second of the budget, and by the intervals that are set"
            for kind, per_s in (
                ("budget", plan.budget.per_s),
                ("scheduled", plan.prices.planned_per_s),
            ):
                sheet.gauge("crawler_recrawls_per_second", meaning, per_s, kind=kind)
        sheet.gauge(
            "crawler_requests_in_flight",
            "Requests in the downloader",
            len(engine.downloader.active),
        )
    meaning = "Scrapy stats by name: a fixed list, and METRICS_STATS"
    for name in dict.fromkeys((*SCRAPY_STATS, *crawler.settings.getlist("METRICS_STATS"))):
        value = process_stats.stat(name)
        if isinstance(value, (int, float)):
            sheet.gauge("crawler_scrapy_stat", meaning, value, stat=name)


def _add_state(sheet: Sheet, scope: str, *, per_s: Sequence[float], held: int, stuck: int) -> None:
    """Add how a process, or all that beat, are at this moment."""
    for name, meaning, value in (
        ("crawler_pages_per_second", "Pages per second, recently", per_s[0]),
        ("crawler_bytes_per_second", "Bytes per second, recently", per_s[1]),
        ("crawler_leases_held", "Leases held, as reported by processes", held),
        (
            "crawler_store_breaker_open",
            "Processes in which pages wait for a sink that is away",
            stuck,
        ),
    ):
        sheet.gauge(name, meaning, value, scope=scope)


def _add_sinks(sheet: Sheet, scope: str, found: SinksState) -> None:
    """Add how the sinks are that a process, or any that beats, writes to."""
    for sink in found.sinks:
        if sink.state == INACTIVE:
            continue
        for name, meaning, value in (
            ("crawler_sink_up", "Whether all processes can write to a sink", sink.state == OK),
            (
                "crawler_sink_waiting_pages",
                "Pages in memory that a sink does not have yet",
                sink.waiting,
            ),
            (
                "crawler_sink_lag_seconds",
                "Time that the oldest of these pages has waited",
                sink.lag_s,
            ),
        ):
            sheet.gauge(name, meaning, value, scope=scope, sink=sink.name)
    spool = found.spool
    sheet.gauge(
        "crawler_spooled_pages",
        "Pages on disk until their sinks are back",
        spool.pages,
        scope=scope,
    )
    sheet.gauge("crawler_spooled_bytes", "Size of these pages on disk", spool.bytes, scope=scope)


def _add_figures(sheet: Sheet, figures: Mapping[str, int], scope: str, sinks: SinksState) -> None:
    """Add what a process or the fleet counted; 0 before the first, so that rates exist."""
    names = [sink.name for sink in sinks.sinks]
    for row in FIGURES:
        if row.metric:
            for labels, count in _samples(row, figures, names):
                sheet.counter(row.metric, row.help, count / row.scale, scope=scope, **labels)
    for kind, meaning in (
        ("fetch", "Time from sending a request to the last byte of its response"),
        ("parse", "Time in a spider's callback for one response"),
    ):
        histogram = Histogram.from_figures(figures, kind, FLEET_BOUNDS_S[kind])
        sheet.histogram(f"crawler_{kind}_latency_seconds", meaning, histogram, scope=scope)


def _samples(
    row: Figure, figures: Mapping[str, int], sinks: Sequence[str]
) -> Iterator[tuple[dict[str, str], int]]:
    label = row.label
    if label is not None and label.known is not None:
        always = sinks if label is SINK else label.always
        for word, count in (dict.fromkeys(always, 0) | by_word(figures, row.name)).items():
            yield {label.name: word}, count
    else:
        labels = {} if label is None else {label.name: label.fixed}
        yield labels, figures.get(row.name, 0)
