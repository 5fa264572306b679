"""Commands find all settings, also in projects that only use the add-on."""

from typing import Any

import pytest
from scrapy.settings import Settings

from crawler.commands._settings import check_spider, completed, use_frontier
from crawler.errors import ConfigurationError

ADDON = "crawler.addon.FrontierAddon"


def settings_of(**values: Any) -> Settings:
    settings = Settings()
    settings.setdict(values, priority="project")
    return settings


def own() -> Settings:
    settings = Settings()
    settings.setmodule("crawler.settings")
    return settings


def test_the_project_itself_has_them_all() -> None:
    settings = own()
    assert use_frontier(settings)
    assert completed(settings) is settings


def test_a_project_with_the_add_on_gets_the_others() -> None:
    settings = settings_of(ADDONS={ADDON: 0}, REDIS_URL="redis://mine/0", CRAWL_DIR="here")
    assert use_frontier(settings)
    found = completed(settings)
    assert (found["REDIS_URL"], found["CRAWL_DIR"]) == ("redis://mine/0", "here")
    assert found["PROGRESS"] == "auto"
    # Scrapy applies the add-on to the settings of a crawl by itself.
    assert "PROGRESS" not in settings


def test_the_add_on_may_be_applied_again() -> None:
    once = completed(settings_of(ADDONS={ADDON: 0}))
    once.set("SCHEDULER", "scrapy.core.scheduler.Scheduler", priority="cmdline")
    twice = completed(once)
    for name in ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "EXTENSIONS"):
        assert dict(twice[name]) == dict(once[name])


@pytest.mark.parametrize("addons", [{}, {ADDON: None}, {"scrapy.Spider": 0}])
def test_a_project_without_it_crawls_by_itself(addons: dict[str, Any]) -> None:
    assert not use_frontier(settings_of(ADDONS=addons))


def test_a_scheduler_of_others_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"SCHEDULER is 'a\.B'; remove it"):
        completed(settings_of(SCHEDULER="a.B"))


def test_a_spider_that_is_not_there_is_named_with_those_that_are() -> None:
    check_spider(own(), "web")
    with pytest.raises(ConfigurationError, match="There is no spider 'wbe'; there are: web"):
        check_spider(own(), "wbe")
    with pytest.raises(ConfigurationError, match="there are none in SPIDER_MODULES"):
        check_spider(settings_of(), "web")
