"""What a spider adds to the components of this project is added, and takes nothing away."""

from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.settings import Settings

from crawler import settings as ours
from crawler.middlewares.robots import Robots
from crawler.spiders.web import WebSpider
from tests.support.crawlers import project_crawler

ROBOTS = "crawler.middlewares.robots.Robots"
DECOMPRESSION = "crawler.fastpath.decompression.Decompression"
NAMES = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS")


class Own:
    """A project's."""


def settings_of(given: dict[str, Any], priority: str, **project: Any) -> Settings:
    """Those of a crawl by a spider or a command line that has these."""

    class Prices(WebSpider):
        custom_settings = given if priority == "spider" else None

    settings = Settings({name: getattr(ours, name) for name in dir(ours) if name.isupper()})
    settings.setdict(project, "project")
    if priority != "spider":
        settings.setdict(given, priority)
    crawler = Crawler(Prices, settings)
    # As `scrapy crawl` does it, by way of its runner.
    crawler.settings.update(settings)
    return crawler.settings


@pytest.mark.parametrize("priority", ["project", "spider", "cmdline"])
@pytest.mark.parametrize("name", NAMES)
def test_a_component_stands_beside_ours(name: str, priority: str) -> None:
    found = settings_of({name: {Own: 543}}, priority).getdict(name)
    assert found == {**getattr(ours, name), Own: 543}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({ROBOTS: None}, {ROBOTS: None, DECOMPRESSION: 590}),
        ({Robots: None, "gone.Component": None}, {Robots: None, "gone.Component": None}),
        ({ROBOTS: 5}, {ROBOTS: 5}),
        ({HttpCompressionMiddleware: 590}, {HttpCompressionMiddleware: 590, ROBOTS: 100}),
    ],
)
def test_what_is_decided_stays(given: dict[Any, Any], found: dict[Any, Any]) -> None:
    settings = settings_of({"DOWNLOADER_MIDDLEWARES": given}, "spider")
    chain = settings.getdict("DOWNLOADER_MIDDLEWARES")
    assert found.items() <= chain.items()
    assert not {ROBOTS, Robots} <= chain.keys()
    assert not {HttpCompressionMiddleware, DECOMPRESSION} <= chain.keys()


def test_a_handler_for_one_scheme_leaves_the_others() -> None:
    found = settings_of({"DOWNLOAD_HANDLERS": {"https": Own}}, "spider")["DOWNLOAD_HANDLERS"]
    assert dict(found) == {**ours.DOWNLOAD_HANDLERS, "https": Own}


@pytest.mark.parametrize("name", ["DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES"])
def test_any_spider_of_the_project_keeps_ours(name: str) -> None:
    crawler = project_crawler(
        **{name: {Own: 543}, "ITEM_PIPELINES": {Own: 1}},
        EXTENSIONS={"crawler.extensions.components.Components": -20},
    )
    assert crawler.settings.getdict(name) == {**getattr(ours, name), Own: 543}
    # What is done with its items is its own affair.
    assert crawler.settings.getdict("ITEM_PIPELINES") == {Own: 1}
    assert "crawler.extensions.components.Components" in ours.EXTENSIONS


def test_where_the_frontier_is_not_used_nothing_is_added() -> None:
    other = "scrapy.core.scheduler.Scheduler"
    given = {"SCHEDULER": other, "ITEM_PIPELINES": {Own: 1}}
    assert settings_of(given, "cmdline").getdict("ITEM_PIPELINES") == {Own: 1}


@pytest.mark.parametrize("is_on", [True, False])
def test_the_remote_control_is_imported_only_if_it_is_switched_on(is_on: bool) -> None:
    settings = settings_of({"REMOTE_CONTROL_ENABLED": is_on}, "cmdline")
    base = settings.getdict("EXTENSIONS_BASE")
    assert ("scrapy.extensions.remote_control.RemoteControl" in base) is is_on
    assert "scrapy.extensions.corestats.CoreStats" in base
