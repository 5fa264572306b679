"""Fill in the metrics of the process that is asked. Reads plain counters: no cost per page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from crawler.metrics.figures import add_figures
from crawler.metrics.sheet import Sheet
from crawler.vitals import Vitals
from crawler.vitals.vitals import STORE_WORKS

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

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
class Worker:
    """What a process lets others see of itself."""

    vitals: Vitals
    crawler: Crawler = field(repr=False)
    # More of Scrapy's stats, by name.
    stats: Sequence[str] = ()

    @classmethod
    def of(cls, crawler: Crawler) -> Worker:
        """This process, as its settings want it shown."""
        return cls(Vitals.of(crawler), crawler, crawler.settings.getlist("METRICS_STATS"))


def add_worker(sheet: Sheet, worker: Worker) -> None:
    """Add all that this process knows of itself."""
    vitals = worker.vitals
    add_figures(sheet, vitals.figures(), "worker")
    for name, value in vitals.rates(monotonic()).items():
        sheet.add(f"crawler_{name}", value, scope="worker")
    stuck = vitals.store_state not in STORE_WORKS
    sheet.add("crawler_store_breaker_open", stuck, scope="worker")
    sheet.add("crawler_worker_start_time_seconds", vitals.started_at)
    sheet.add_histogram("crawler_event_loop_lag_seconds", vitals.lag)
    sheet.add_histogram("crawler_redis_round_trip_seconds", vitals.redis)
    engine: Any = worker.crawler.engine
    if engine is not None:
        workbench = engine.scheduler.workbench
        sheet.add("crawler_leases_held", workbench.held, scope="worker")
        sheet.add("crawler_outbox_size", len(list(workbench.outbox.unsettled)))
        sheet.add("crawler_requests_in_flight", len(engine.downloader.active))
    for name in dict.fromkeys((*SCRAPY_STATS, *worker.stats)):
        value = vitals.stat(name)
        if isinstance(value, (int, float)):
            sheet.add("crawler_scrapy_stat", value, stat=name)
