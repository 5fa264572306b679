"""The add-on leaves to a project what the project decided itself."""

from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.settings import Settings
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object

from crawler.addon import FrontierAddon
from crawler.fastpath.decompression import Decompression
from crawler.middlewares.scrapy_twins import HttpAuth
from crawler.pipelines.store import Store


def downloader_middlewares(project: dict[Any, int | None]) -> list[Any]:
    settings = Settings({"DOWNLOADER_MIDDLEWARES": project})
    FrontierAddon().update_settings(settings)
    return build_component_list(settings.getwithbase("DOWNLOADER_MIDDLEWARES"))


def test_ours_stand_in_the_place_of_scrapys() -> None:
    found = downloader_middlewares({})
    assert Decompression in found
    assert HttpCompressionMiddleware not in found


def test_what_spiders_are_used_to_stays() -> None:
    found = set(downloader_middlewares({}))
    middlewares = "scrapy.downloadermiddlewares"
    for name in (
        *("cookies.CookiesMiddleware", "httpauth.HttpAuthMiddleware"),
        *("httpcache.HttpCacheMiddleware", "httpproxy.HttpProxyMiddleware"),
        *("offsite.OffsiteMiddleware", "redirect.MetaRefreshMiddleware"),
    ):
        assert {f"{middlewares}.{name}", load_object(f"{middlewares}.{name}")} & found, name
    assert HttpAuth not in found


def test_what_a_project_does_without_does_not_come_back_by_another_name() -> None:
    scrapys = HttpCompressionMiddleware
    for name in (scrapys, f"{scrapys.__module__}.{scrapys.__name__}"):
        found = downloader_middlewares({name: None})
        assert Decompression not in found
        assert not {name, scrapys} & set(found)
        found = downloader_middlewares({name: 123})
        assert Decompression not in found
        assert name in found


@pytest.mark.parametrize(
    ("project", "store"),
    [
        ({}, "none"),
        ({"MONGO_URI": "mongodb://localhost/"}, "none"),
        ({"SINKS": "mongo"}, "mongo"),
        ({"ITEM_PIPELINES": {"crawler.pipelines.store.Store": 900}}, "mongo"),
        ({"ITEM_PIPELINES": {Store: 900}}, "mongo"),
    ],
)
def test_a_project_that_stores_no_pages_here_needs_no_mongodb(
    monkeypatch: pytest.MonkeyPatch, project: dict[str, Any], store: str
) -> None:
    monkeypatch.setattr("crawler.settings.MONGO_URI", None)
    settings = Settings(project)
    FrontierAddon().update_settings(settings)
    assert settings["SINKS"] == store


def handlers(project: dict[str, Any]) -> dict[str, Any]:
    """Those of a project with the add-on, in a program that has an event loop of its own."""
    settings = {"DOWNLOAD_HANDLERS": project, "TWISTED_REACTOR_ENABLED": False}
    crawler = Crawler(Spider, {"ADDONS": {FrontierAddon: 0}, "EXTENSIONS": {}, **settings})
    crawler._apply_settings()
    return dict(crawler.settings.getwithbase("DOWNLOAD_HANDLERS"))


OURS, OTHER = "crawler.download.DownloadHandler", "project.handlers.Own"


@pytest.mark.parametrize(
    ("project", "found"),
    [
        ({}, {"http": OURS, "https": OURS, "file": None, "data": None}),
        ({"ftp": OTHER}, {"http": OURS, "https": OURS, "ftp": OTHER, "file": None}),
        ({"https": OTHER, "data": OTHER}, {"http": OURS, "https": OTHER, "data": OTHER}),
    ],
)
def test_what_a_project_does_not_fetch_by_itself_is_fetched_by_ours(
    project: dict[str, Any], found: dict[str, Any]
) -> None:
    assert found.items() <= handlers(project).items()
