"""Give every spider of this project our middlewares and handlers, whatever its settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawler.config import components

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Components:
    """Extensions are loaded before the engine, with the settings as they are in the end."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        components.keep(crawler.settings, components.OF_EVERY_SPIDER)
        return cls()
