"""Send the credentials of HTTPAUTH_USER to the domain they are for. Downloader middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scrapy.downloadermiddlewares.httpauth import HttpAuthMiddleware
from scrapy.exceptions import NotConfigured

from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class HttpAuth(HttpAuthMiddleware):
    """Scrapy's own, for crawls that have credentials: no other crawl asks for them a page."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not settings["HTTPAUTH_USER"] and not settings["HTTPAUTH_PASS"]:
            raise NotConfigured
        try:
            return super().from_crawler(crawler)
        except ValueError as error:
            # Without a domain: they would be for all hosts that pages link to.
            raise ConfigurationError(str(error)) from error
