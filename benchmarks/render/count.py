"""Count the pages of a crawl in a file, with whether each shows what it has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals

from benchmarks.render.site import MARK

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# The environment variable with the file.
PAGES_FILE = "BENCH_PAGES_FILE"


class Pages:
    """A line for each page: whether it shows all, and its URL."""

    def __init__(self) -> None:
        self._file = open(os.environ[PAGES_FILE], "a", buffering=1, encoding="utf-8")  # noqa: PTH123, SIM115

    def add(self, url: str, text: str) -> None:
        """Write the line of a page."""
        self._file.write(f"{int(MARK in text)} {url}\n")


class Counting:
    """The same as an extension of our crawl."""

    def __init__(self) -> None:
        self._pages = Pages()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        counting = cls()
        crawler.signals.connect(counting.item_scraped, signals.item_scraped)
        return counting

    def item_scraped(self, item: Any) -> None:
        self._pages.add(item.url, item.text)
