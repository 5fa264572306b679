"""Settings for Scrapy's commands that fetch single pages: fetch, view, shell, parse, check.

They keep their callbacks and their answers in memory, so nothing of a crawl can serve them: its
frontier, its servers, its pipelines. What they fetch goes through our download handler, and
robots.txt is obeyed by Scrapy's own middleware.
"""

from __future__ import annotations

from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

from crawler import settings as ours
from crawler.addon import FrontierAddon

_SCHEDULER = "scrapy.core.scheduler.Scheduler"
_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES", "SPIDER_MIDDLEWARES")


def leave_crawl(settings: BaseSettings) -> None:
    """Take what belongs to a crawl out of the settings; what the command line says stays."""
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
    """Without ours, and with those of Scrapy's that ours replace."""
    return {
        name: order
        for name, order in components.items()
        if not (
            str(name).startswith("crawler.") or (order is None and str(name).startswith("scrapy."))
        )
    }
