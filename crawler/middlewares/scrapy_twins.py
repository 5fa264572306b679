"""Scrapy's own middlewares, loaded only for the crawls that need them. Downloader middlewares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.exceptions import NotConfigured

from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class HttpAuth(HttpAuthMiddleware):
    """Scrapy's HttpAuthMiddleware, for crawls with credentials."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not settings["HTTPAUTH_USER"] and not settings["HTTPAUTH_PASS"]:
            raise NotConfigured
        try:
            return super().from_crawler(crawler)
        except ValueError as error:
            # Without a domain, credentials would go to all hosts that pages link to.
            raise ConfigurationError(str(error)) from error


class Offsite(OffsiteMiddleware):
    """Scrapy's OffsiteMiddleware, for spiders whose scope the links pipeline does not decide."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if getattr(crawler.spidercls, "is_scoped", False):
            raise NotConfigured
        return super().from_crawler(crawler)
