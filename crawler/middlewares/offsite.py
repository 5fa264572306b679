"""Keep ordinary spiders to their `allowed_domains`. Downloader middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import NotConfigured

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class Offsite(OffsiteMiddleware):
    """Scrapy's own, where the links pipeline does not decide on scope: it costs nothing there."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if getattr(crawler.spidercls, "is_scoped", False):
            raise NotConfigured
        return super().from_crawler(crawler)
