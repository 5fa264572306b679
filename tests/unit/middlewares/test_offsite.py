"""Ordinary spiders keep to their domains; the generic one has a scope."""

import pytest
from scrapy import Request, Spider
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.exceptions import IgnoreRequest

from crawler.middlewares.scrapy_twins import Offsite
from crawler.spiders.web import WebSpider
from tests.support.crawlers import project_crawler


class Mine(Spider):
    name = "mine"
    allowed_domains = ["a.test"]  # noqa: RUF012 - declared so by Scrapy


def loaded(spider: type[Spider]) -> list[Offsite]:
    crawler = project_crawler()
    crawler.spidercls = spider
    manager = DownloaderMiddlewareManager.from_crawler(crawler)
    return [found for found in manager.middlewares if isinstance(found, Offsite)]


def test_an_ordinary_spider_keeps_to_its_domains() -> None:
    (offsite,) = loaded(Mine)
    offsite.crawler.spider = spider = Mine()
    offsite.spider_opened(spider)
    offsite.process_request(Request("http://www.a.test/"))
    with pytest.raises(IgnoreRequest):
        offsite.process_request(Request("http://b.test/"))


def test_the_generic_spider_has_a_scope_and_no_such_middleware() -> None:
    assert loaded(WebSpider) == []


def test_domains_in_the_class_of_a_generic_spider_are_its_scope() -> None:
    class Prices(WebSpider):
        allowed_domains = ["a.test", "b.test"]  # noqa: RUF012

    assert Prices().options == {"allowed_domains": ["a.test", "b.test"], "scope": "any"}
    assert Prices(allowed_domains="c.test").options["allowed_domains"] == ["c.test"]
