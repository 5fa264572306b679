"""Scrapy Crawler objects with this project's settings, for tests of single components."""

from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.test import get_crawler

from crawler import settings as ours

SERVERS = "crawler.servers.connections.Servers"


def project_crawler(**settings: Any) -> Crawler:
    """A crawler that is not running; of the extensions it has the servers only."""
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {
        "EXTENSIONS": {SERVERS: 0},
        # The test's own event loop is used.
        "TWISTED_REACTOR_ENABLED": False,
        **settings,
    }
    crawler = get_crawler(settings_dict=values)
    crawler.spider = crawler.spidercls(name="web")
    return crawler
