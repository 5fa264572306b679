"""Commands that fetch single pages use nothing of a crawl."""

from typing import Any

from scrapy.settings import Settings

from crawler.addon import FrontierAddon
from crawler.commands import _settings


def left(**values: Any) -> Settings:
    settings = Settings()
    settings.setmodule("crawler.settings")
    settings.setdict(values, priority="cmdline")
    _settings.leave_crawl(settings)
    return settings


def test_the_project_keeps_its_download_handler_and_nothing_that_needs_a_frontier() -> None:
    settings = left()
    assert settings["SCHEDULER"] == "scrapy.core.scheduler.Scheduler"
    assert settings.getbool("ROBOTSTXT_OBEY")
    assert settings["DOWNLOAD_HANDLERS"]["http"] == "crawler.download.DownloadHandler"
    for name in _settings._COMPONENTS:
        assert not settings.getdict(name), name


def test_components_of_others_stay() -> None:
    settings = Settings()
    settings.setmodule("crawler.settings")
    mine = {"crawler.pipelines.store.Store": 900, "mine.Pipeline": 1, "mine.Off": None}
    settings.set("ITEM_PIPELINES", mine, priority="project")
    _settings.leave_crawl(settings)
    assert settings.getdict("ITEM_PIPELINES") == {"mine.Pipeline": 1, "mine.Off": None}


def test_what_the_command_line_says_stays() -> None:
    assert not left(ROBOTSTXT_OBEY="False").getbool("ROBOTSTXT_OBEY")


def test_another_project_loses_the_add_on_and_nothing_else() -> None:
    addons = {"crawler.addon.FrontierAddon": 0, FrontierAddon: 1, "scrapy.Spider": 2}
    settings = Settings({"ADDONS": addons, "ITEM_PIPELINES": {"mine.Pipeline": 1}})
    _settings.leave_crawl(settings)
    assert settings.getdict("ADDONS") == {"scrapy.Spider": 2}
    assert settings.getdict("ITEM_PIPELINES") == {"mine.Pipeline": 1}
