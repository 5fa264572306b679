"""What the components of a crawl share is one for all of them, and ends with the crawl."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from scrapy.crawler import Crawler

from crawler.dns.resolver import Resolver
from crawler.download.client import HttpClient
from crawler.monitoring.process_stats import ProcessStats
from crawler.politeness.host_delays import HostDelays
from crawler.scheduler import link_follower
from tests.support.crawlers import project_crawler

KINDS: list[Callable[[Crawler], Any]] = [
    *(HttpClient.join, HostDelays.of, link_follower, Resolver.of, ProcessStats.of)
]


@pytest.mark.parametrize("of", KINDS)
async def test_a_crawl_has_one_and_takes_it_along_when_it_is_over(
    of: Callable[[Crawler], Any],
) -> None:
    crawler, other = project_crawler(), project_crawler()
    assert of(crawler) is of(crawler) is not of(other)
    known = weakref.ref(of(crawler))
    del crawler
    gc.collect()
    assert known() is None
    assert of(other) is of(other)
