"""Give every spider of this project our middlewares and handlers, whatever its settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from crawler.config import components

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Components:
    """Extension without work of its own: extensions are made before the engine reads components."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        components.keep(crawler.settings, components.EVERY_SPIDER)
        return cls()
