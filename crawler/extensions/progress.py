"""Show how the crawl goes, and a summary at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Progress:
    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        progress = cls(crawler)
        crawler.signals.connect(progress._closed, signals.spider_closed)
        return progress

    def _closed(self, reason: str) -> None:
        print(reason, self._crawler.stats.get_stats())
