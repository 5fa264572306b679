"""What one process counts and says of itself. Plain counters: nothing per page but sums."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crawler.monitoring.histogram import FETCH_S, LAG_S, PARSE_S, REDIS_S, Histogram
from crawler.storage.stats import STORE_STATE
from crawler.util.per_crawler import shared
from crawler.util.stat_names import PAGES_CRAWLED, figures_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


# Kinds of durations that the fleet adds up.
FLEET_KINDS = {"fetch": FETCH_S, "parse": PARSE_S}

_RECENT_S = 5.0


class RecentRate:
    """Pages a second over the last _RECENT_S seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, pages: int) -> float | None:
        """Take a reading; returns the rate, or None while there is only one reading."""
        self._points.append((at_s, pages))
        while len(self._points) > 2 and self._points[1][0] <= at_s - _RECENT_S:
            self._points.popleft()
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else None


class ProcessStats:
    """The figures of one process. Components observe durations, Scrapy's stats have the rest."""

    def __init__(self, stats: Mapping[str, Any]) -> None:
        self.fetch = Histogram(FETCH_S)
        self.parse = Histogram(PARSE_S)
        # Of this process alone: how late its event loop was, and how long Redis took to answer.
        self.lag = Histogram(LAG_S)
        self.redis = Histogram(REDIS_S)
        # More about this process, from whoever knows it: e.g. the port of its admin API.
        self.extra: dict[str, Any] = {}
        self.started_at = time.time()
        self._stats = stats
        self._lag_max_s = 0.0
        self._redis_last_s: float | None = None
        self._pages_rate, self._bytes_rate = RecentRate(), RecentRate()

    @classmethod
    def of(cls, crawler: Crawler) -> ProcessStats:
        """Those of this crawl's process."""
        assert crawler.stats is not None
        stats = crawler.stats
        return shared(cls, crawler, lambda: cls(stats.get_stats()))

    def late(self, lag_s: float) -> None:
        """The event loop came back so much later than it was asked to."""
        self.lag.observe(lag_s)
        self._lag_max_s = max(self._lag_max_s, lag_s)

    def answered(self, duration_s: float) -> None:
        """Redis took so long."""
        self.redis.observe(duration_s)
        self._redis_last_s = duration_s

    def figures(self) -> dict[str, int]:
        """All that this process counted since it started, by the fleet's names."""
        found = figures_of(self._stats)
        found |= self.fetch.figures("fetch")
        found |= self.parse.figures("parse")
        return found

    def stat(self, name: str) -> Any:
        """One of Scrapy's stats, or None."""
        return self._stats.get(name)

    @property
    def store_state(self) -> str:
        """How the store is: "ok", "off", or why it takes no pages."""
        return str(self._stats.get(STORE_STATE, "off"))

    def rates(self, now_s: float) -> dict[str, float]:
        """Pages and bytes a second, up to this (monotonic) moment."""
        pages, size = self.stat(PAGES_CRAWLED), self.stat("downloader/response_bytes")
        return {
            "pages_per_second": _rounded(self._pages_rate.add(now_s, pages or 0)),
            "bytes_per_second": _rounded(self._bytes_rate.add(now_s, size or 0)),
        }

    def about(self, now_s: float) -> dict[str, Any]:
        """How this process is at this (monotonic) moment; for its beat."""
        rates = self.rates(now_s)
        lag_s, self._lag_max_s = self._lag_max_s, 0.0
        redis_s = self._redis_last_s
        return {
            "started_at": round(self.started_at),
            "pages": self.stat(PAGES_CRAWLED) or 0,
            "pages_per_s": rates["pages_per_second"],
            "bytes_per_s": rates["bytes_per_second"],
            "loop_lag_ms": round(lag_s * 1000, 1),
            "redis_ms": None if redis_s is None else round(redis_s * 1000, 2),
            "store": self.store_state,
            **self.extra,
        }


def _rounded(value: float | None) -> float:
    return round(value or 0.0, 2)
