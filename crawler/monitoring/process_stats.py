"""Figures and state of one process. Plain counters: nothing per page but sums."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crawler.monitoring.figures import count_figures
from crawler.monitoring.histogram import FETCH_S, LAG_S, PARSE_S, REDIS_S, Histogram
from crawler.monitoring.sinks import SinksState, sinks_state
from crawler.storage.storage import STORE_STATE, Storage
from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_RECENT_S = 5.0


class RecentRate:
    """Rate of a counter over the last _RECENT_S seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, count: int) -> float | None:
        """Take a reading; return the rate a second, or None while there is only one reading."""
        self._points.append((at_s, count))
        while len(self._points) > 2 and self._points[1][0] <= at_s - _RECENT_S:
            self._points.popleft()
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None


class ProcessStats:
    """Figures of one process: durations that components observe, and Scrapy's stats."""

    def __init__(self, stats: Mapping[str, Any]) -> None:
        self.fetch = Histogram(FETCH_S)
        self.parse = Histogram(PARSE_S)
        # Of this process alone: how late its event loop was, and how long Redis took to answer.
        self.lag = Histogram(LAG_S)
        self.redis = Histogram(REDIS_S)
        # More about this process from other components, such as the URL of its admin API.
        self.extra: dict[str, Any] = {}
        # Where pages go; set by the pipeline that stores them.
        self.storage: Storage | None = None
        self.started_at = time.time()
        self._stats = stats
        self._lag_max_s = 0.0
        self._tasks = 0
        self._redis_last_s: float | None = None
        self._pages_rate, self._bytes_rate = RecentRate(), RecentRate()
        # By the name of a sink, and what is counted.
        self._sink_rates: defaultdict[tuple[str, str], RecentRate] = defaultdict(RecentRate)

    @classmethod
    def of(cls, crawler: Crawler) -> ProcessStats:
        """Return the instance of this crawl."""
        assert crawler.stats is not None
        stats = crawler.stats
        return shared(cls, crawler, lambda: cls(stats.get_stats()))

    def observe_lag(self, lag_s: float) -> None:
        """Count how much later than planned the event loop came back."""
        self.lag.observe(lag_s)
        self._lag_max_s = max(self._lag_max_s, lag_s)

    def observe_tasks(self, number: int) -> None:
        """Note how many tasks the event loop has."""
        self._tasks = number

    def observe_redis(self, duration_s: float) -> None:
        """Count how long Redis took to answer."""
        self.redis.observe(duration_s)
        self._redis_last_s = duration_s

    def figures(self) -> dict[str, int]:
        """Return all that this process counted since it started, by the fleet's names."""
        found = count_figures(self._stats)
        return found | self.fetch.figures("fetch") | self.parse.figures("parse")

    def stat(self, name: str) -> Any:
        """Return one of Scrapy's stats, or None."""
        return self._stats.get(name)

    @property
    def store_state(self) -> str:
        """State of the store: "ok", "off", or why it takes no pages."""
        return str(self._stats.get(STORE_STATE, "off"))

    def rates(self, now_s: float) -> tuple[float, float]:
        """Return pages and bytes a second, up to this (monotonic) moment."""
        pages, size = self.stat("pages/crawled") or 0, self.stat("downloader/response_bytes") or 0
        return (
            round(self._pages_rate.add(now_s, pages) or 0.0, 2),
            round(self._bytes_rate.add(now_s, size) or 0.0, 2),
        )

    def about(self, now_s: float) -> dict[str, Any]:
        """Return the state of this process at this (monotonic) moment, for its beat."""
        pages_per_s, bytes_per_s = self.rates(now_s)
        lag_s, self._lag_max_s = self._lag_max_s, 0.0
        redis_s = self._redis_last_s
        return {
            "started_at": round(self.started_at),
            "pages": self.stat("pages/crawled") or 0,
            "pages_per_s": pages_per_s,
            "bytes_per_s": bytes_per_s,
            "loop_lag_ms": round(lag_s * 1000, 1),
            "tasks": self._tasks,
            "redis_ms": None if redis_s is None else round(redis_s * 1000, 2),
            "store": self.store_state,
            **self._sink_reports(now_s),
            **self.extra,
        }

    def sinks(self) -> SinksState:
        """Return the state of the sinks of this process, without rates."""
        reports = [self.storage.report()] if self.storage is not None else []
        return sinks_state(reports, self.figures())

    def _sink_reports(self, now_s: float) -> dict[str, Any]:
        """Return what the sinks of this process report, with their rates."""
        report = self.storage.report() if self.storage is not None else {}
        for sink in report.get("sinks", ()):
            for counted in ("pages", "bytes"):
                rate = self._sink_rates[sink["name"], counted].add(now_s, sink[counted])
                sink[f"{counted}_per_s"] = round(rate or 0.0, 2)
        return report
