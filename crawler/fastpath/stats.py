"""Scrapy's stats without its checks for deprecated arguments: a page counts some forty stats."""

from typing import Any

from scrapy.statscollectors import MemoryStatsCollector


class Stats(MemoryStatsCollector):
    """Stats of one crawl, in memory."""

    # Scrapy wraps each method whenever it is looked up; this is Python's own lookup again.
    __getattribute__ = object.__getattribute__

    def inc_value(self, key: str, count: int = 1, start: int = 0, spider: Any = None) -> None:
        stats = self._stats
        stats[key] = stats.get(key, start) + count
