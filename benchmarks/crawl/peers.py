"""The same crawl by plain Scrapy and by scrapy-redis, as their documentation has it.

Run as `python -m benchmarks.crawl.peers NAME SEEDS PAGES`: a file of URLs, and when to stop. The
settings are those of Scrapy's page about broad crawls, and robots.txt is obeyed, as in all projects
that `scrapy startproject` makes; without delay. scrapy-redis adds those of its README.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import CachingThreadedResolver
from twisted.internet import defer

BROAD_CRAWL: dict[str, Any] = {
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "CONCURRENT_REQUESTS": 100,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    "REDIRECT_ENABLED": False,
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "ROBOTSTXT_OBEY": True,
    # Of the benchmark: where names lead to, what is measured.
    "TWISTED_DNS_RESOLVER": "benchmarks.crawl.peers.LoopbackResolver",
    "EXTENSIONS": {"benchmarks.crawl.meter.Meter": 0},
}
SCRAPY_REDIS: dict[str, Any] = {
    **BROAD_CRAWL,
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 300},
    "REDIS_URL": os.environ.get("REDIS_URL"),
}
PEERS = {"scrapy": BROAD_CRAWL, "scrapy-redis": SCRAPY_REDIS}


class LoopbackResolver(CachingThreadedResolver):
    """Every name is this machine; names cost these crawls nothing."""

    def getHostByName(  # noqa: N802 - Twisted's name
        self, name: str, timeout: Any = ()
    ) -> defer.Deferred[str]:
        return defer.succeed("127.0.0.1")


class BroadSpider(Spider):
    """Follow every link; one small item a page."""

    name = "broad"

    def __init__(self, seeds: list[str], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._seeds = seeds
        self._links = LinkExtractor()

    async def start(self) -> AsyncIterator[Any]:
        # By start_urls they would pass the filter, and be fetched again when pages link to them.
        for url in self._seeds:
            yield Request(url)

    def parse(self, response: Response) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in self._links.extract_links(response):
            yield Request(link.url)


def main(peer: str, seeds: str, pages: str) -> None:
    """Crawl."""
    process = AsyncCrawlerProcess({**PEERS[peer], "CLOSESPIDER_ITEMCOUNT": int(pages)})
    process.crawl(BroadSpider, seeds=Path(seeds).read_text(encoding="utf-8").split())
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
