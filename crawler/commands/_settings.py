"""Settings of a command, also in a project that only uses the add-on.

Scrapy applies add-ons when it makes a crawler; commands run before that.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import NotConfigured
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.spiderloader import get_spider_loader
from scrapy.utils.misc import load_object

from crawler import settings as ours
from crawler.addon import FrontierAddon
from crawler.config.values import crawl_name
from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import Settings


def use_frontier(settings: BaseSettings) -> bool:
    """Return whether crawls with these settings use the frontier."""
    addons = settings.getdict("ADDONS")
    return settings["SCHEDULER"] == ours.SCHEDULER or any(
        load_object(addon) is FrontierAddon for addon, order in addons.items() if order is not None
    )


def completed(settings: Settings | None) -> Settings:
    """Return the settings with the add-on applied, as a crawl has them."""
    assert settings is not None
    if settings["SCHEDULER"] == ours.SCHEDULER:
        return settings
    whole = settings.copy()
    try:
        FrontierAddon().update_settings(whole)
    except NotConfigured as error:
        raise ConfigurationError(str(error)) from error
    return whole


def check_spider(settings: BaseSettings, name: str) -> None:
    """Raise ConfigurationError if the project has no such spider."""
    names = sorted(get_spider_loader(settings).list())
    if name not in names:
        there = f"there are: {', '.join(names)}" if names else "there are none in SPIDER_MODULES"
        raise ConfigurationError(f"There is no spider {name!r}; {there}.")


def crawl_settings(
    settings: Settings, name: str, arguments: Mapping[str, str]
) -> tuple[Settings, str]:
    """Return the settings of a crawl, with its spider's `custom_settings`, and its name."""
    spider = get_spider_loader(settings).load(name)
    whole = settings.copy()
    spider.update_settings(whole)
    whole = completed(whole)
    given = arguments.get("crawl") or getattr(spider, "crawl", None)
    return whole, crawl_name(whole, arguments.get("name", name), given)


class WithoutCrawl:
    """Mixin for Scrapy's commands that fetch single pages: check, fetch, parse, shell, view.

    They keep callbacks and answers in memory, so they work without the crawl's frontier, servers
    and pipelines. They fetch through our download handler, and Scrapy's own middleware obeys
    robots.txt.
    """

    settings: Settings | None

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)  # type: ignore[misc]
        assert self.settings is not None
        leave_crawl(self.settings)


_SCHEDULER = "scrapy.core.scheduler.Scheduler"
_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES")


def leave_crawl(settings: BaseSettings) -> None:
    """Remove from the settings what belongs to a crawl, except values of the command line."""
    if settings["SCHEDULER"] == ours.SCHEDULER:
        changed: dict[str, Any] = {name: _not_ours(settings.getdict(name)) for name in _COMPONENTS}
        changed |= {"SCHEDULER": _SCHEDULER, "ROBOTSTXT_OBEY": True}
    else:
        addons = settings.getdict("ADDONS")
        changed = {
            "ADDONS": {
                addon: order
                for addon, order in addons.items()
                if load_object(addon) is not FrontierAddon
            }
        }
    for name, value in changed.items():
        if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["cmdline"]:
            settings.set(name, value, priority="cmdline")


def _not_ours(components: dict[Any, Any]) -> dict[Any, Any]:
    """Leave our components out, and bring back Scrapy's that they replace."""
    return {
        name: order
        for name, order in components.items()
        if not (
            str(name).startswith("crawler.") or (order is None and str(name).startswith("scrapy."))
        )
    }
