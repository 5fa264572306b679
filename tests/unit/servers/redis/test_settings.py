"""Names of scrapy-redis' settings mean what they mean there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.settings import Settings
from scrapy.spiders import SitemapSpider
from scrapy_redis.spiders import RedisSpider

from crawler import settings as ours
from crawler.errors import ConfigurationError
from crawler.servers.redis.settings import (
    keep_allowed_domains,
    redis_url,
    start_urls_key,
    warn_of_redis_spider,
    warn_of_start_requests,
)


def settings(**given: Any) -> Settings:
    found = Settings()
    found.setmodule(ours)
    found.update({"REDIS_URL": None, **given}, priority="cmdline")
    return found


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, None),
        ({"REDIS_HOST": "r"}, "redis://r:6379/0"),
        ({"REDIS_HOST": "r", "REDIS_PORT": "7000", "REDIS_DB": 2}, "redis://r:7000/2"),
        ({"REDIS_HOST": "::1"}, "redis://[::1]:6379/0"),
        ({"REDIS_HOST": "r", "REDIS_URL": "redis://u/1"}, "redis://u/1"),
        ({"REDIS_PORT": 7000}, "redis://localhost:7000/0"),
        ({"REDIS_DB": 0}, "redis://localhost:6379/0"),
        ({"REDIS_HOST": ""}, None),
        ({"REDIS_DB": "4"}, "redis://localhost:6379/4"),
        ({"REDIS_PARAMS": {"password": "p"}}, None),
        ({"REDIS_HOST": "r", "REDIS_PARAMS": {"db": 2, "port": 7000}}, "redis://r:7000/2"),
        ({"REDIS_PARAMS": {"host": "r", "password": "p"}}, "redis://r:6379/0"),
        ({"REDIS_HOST": "r", "REDIS_DB": 0, "REDIS_PARAMS": {"db": 2}}, "redis://r:6379/0"),
    ],
)
def test_redis_is_named_by_url_or_by_host(given: dict[str, Any], url: str | None) -> None:
    assert redis_url(settings(**given)) == url


@pytest.mark.parametrize(
    ("given", "own", "key"),
    [
        ({}, None, "web:start_urls"),
        ({"REDIS_START_URLS_KEY": "seeds"}, None, "seeds"),
        ({"REDIS_START_URLS_KEY": "%(name)s:in"}, None, "web:in"),
        ({"REDIS_START_URLS_KEY": "seeds"}, "mine:%(name)s", "mine:web"),
    ],
)
def test_a_spider_s_key_comes_before_the_setting(
    given: dict[str, Any], own: str | None, key: str
) -> None:
    spider = SimpleNamespace(name="web", redis_key=own)
    assert start_urls_key(settings(**given), spider) == key


@pytest.mark.parametrize("host", ["r:7000", "redis://r/", "redis://me:secret@r:7000/0"])
def test_a_host_that_is_more_than_that_is_told_without_its_password(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"REDIS_HOST is .* REDIS_PORT, a URL") as told:
        redis_url(settings(REDIS_HOST=host))
    assert "secret" not in str(told.value)


def test_spiders_of_scrapy_redis_are_told(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_redis_spider(Spider(name="a"))
    assert not caplog.records
    warn_of_redis_spider(RedisSpider(name="a"))
    assert "Make it a scrapy.Spider" in caplog.text


@pytest.mark.parametrize("name", ["REDIS_PORT", "REDIS_DB"])
def test_a_number_that_is_none_is_told(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is 'x'; give a whole number"):
        redis_url(settings(REDIS_HOST="r", **{name: "x"}))


def test_a_spider_s_key_that_is_no_pattern_is_told_as_such() -> None:
    with pytest.raises(ConfigurationError, match="redis_key of the spider is '%d'"):
        start_urls_key(settings(), SimpleNamespace(name="web", redis_key="%d"))


@pytest.mark.parametrize("pattern", ["%(spider)s", "100%", "%d", "%s"])
def test_a_pattern_that_is_none_is_told(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=r"REDIS_START_URLS_KEY .*%\(name\)s"):
        start_urls_key(settings(REDIS_START_URLS_KEY=pattern), SimpleNamespace(name="web"))


def test_domains_that_can_be_read_once_become_a_list() -> None:
    domains = ["a.test", "b.test"]
    once = Spider(name="a", allowed_domains=filter(None, [*domains, ""]))
    keep_allowed_domains(once)
    for spider in (once, Spider(name="a", allowed_domains=domains)):
        keep_allowed_domains(spider)
        assert spider.allowed_domains == domains
    keep_allowed_domains(Spider(name="a"))


class Old(Spider):
    name = "old"

    def start_requests(self) -> list[Request]:
        return []


class Both(Old):
    async def start(self) -> AsyncIterator[Request]:
        yield Request("http://a.test/")


class OldAgain(Both):
    def start_requests(self) -> list[Request]:
        return []


class Sitemaps(SitemapSpider):
    name = "sitemaps"

    def start_requests(self) -> list[Request]:
        return []


@pytest.mark.parametrize(
    ("spider", "is_told"),
    [
        (Old, True),
        (OldAgain, True),
        (Sitemaps, True),
        (Both, False),
        (Spider, False),
        # Which is told of anyway.
        (RedisSpider, False),
    ],
)
def test_a_spider_whose_start_requests_are_not_called_is_told_what_to_do(
    spider: type[Spider], is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_start_requests(spider(name="mine"))
    line = (
        "start_requests() of the spider 'mine' is not called: Scrapy 2.19 has start() in its place"
    )
    assert (line in caplog.text) == ("Make it `async def start(self):`" in caplog.text) == is_told
