"""Scrapy's statistics without its checks for deprecated arguments: a page has forty of them."""

from __future__ import annotations

from typing import Any

from scrapy.statscollectors import MemoryStatsCollector


class Stats(MemoryStatsCollector):
    """Counts of one crawl, in memory."""

    # Scrapy wraps each method when it is looked up; these are plain again.
    __getattribute__ = object.__getattribute__

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Any = None) -> None:
        stats = self._stats
        stats[key] = stats.get(key, start) + count
