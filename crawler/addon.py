"""Switch the frontier on in any Scrapy project: ADDONS = {"crawler.addon.FrontierAddon": 0}.

The project keeps its spiders, items and pipelines. What it sets itself wins over what is set here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from scrapy.extensions.logstats import LogStats
from scrapy.utils.misc import load_object

from crawler import settings as ours
from crawler.config.components import path_of, undecided
from crawler.extensions.admin import Admin
from crawler.extensions.fastpath import FastPath
from crawler.extensions.monitoring import Monitoring
from crawler.extensions.progress import Progress
from crawler.extensions.tiers import Tiers
from crawler.pipelines.feeds import Feeds
from crawler.pipelines.store import Store
from crawler.servers.connections import Servers
from crawler.storage.sinks import NONE

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Settings that only this project uses: its name, its pages, and its output.
_OWN = frozenset(
    {
        "ACCEPT_TYPES",
        "BOT_NAME",
        "COMMANDS_MODULE",
        "COOKIES_ENABLED",
        "EXTENSIONS",
        "ITEM_PIPELINES",
        "LOG_FORMATTER",
        "LOG_JSON",
        "LOG_LEVEL",
        "LOG_VERSIONS",
        "NEWSPIDER_MODULE",
        "SPIDER_MODULES",
        "SINKS",
        "STATS_CLASS",
        "STATS_DUMP",
        "USER_AGENT",
    }
)
_STORE = "crawler.pipelines.store.Store"
_COMPONENTS = ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES")
_HANDLERS = "DOWNLOAD_HANDLERS"
_LOG_STATS = "scrapy.extensions.logstats.LogStats"
# Scrapy's own components that other spiders than the generic one need.
_KEPT = frozenset(
    {
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware",
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware",
        "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware",
        "scrapy.spidermiddlewares.referer.RefererMiddleware",
        "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware",
    }
)
# In the place of one of these.
_FOR_THE_GENERIC_SPIDER = frozenset(
    {"crawler.middlewares.scrapy_twins.HttpAuth", "crawler.middlewares.scrapy_twins.Offsite"}
)


class FrontierAddon:
    """Add-on that sets the scheduler, the middlewares, the download handler and their settings."""

    def update_settings(self, settings: BaseSettings) -> None:
        if settings["SCHEDULER"] not in ("scrapy.core.scheduler.Scheduler", ours.SCHEDULER):
            raise NotConfigured(
                f"SCHEDULER is {settings['SCHEDULER']!r}; remove it to use the frontier."
            )
        for name in dir(ours):
            if name.isupper() and name not in (*_OWN, *_COMPONENTS, _HANDLERS):
                settings.set(name, getattr(ours, name), priority="addon")
        for scheme, handler in ours.DOWNLOAD_HANDLERS.items():
            if scheme not in settings[_HANDLERS]:
                # Not by an add-on's priority: for programs with an event loop of their own Scrapy
                # sets handlers by this one, and they do not keep out of private networks.
                settings[_HANDLERS].set(scheme, handler, "project")
        # By default the project's own pipelines and feeds keep what its spiders find.
        has_store = _STORE in map(path_of, settings["ITEM_PIPELINES"])
        settings.set("SINKS", ours.SINKS if has_store else NONE, priority="addon")
        if settings["SINKS"] != NONE:
            store_order = ours.ITEM_PIPELINES[_STORE]
            settings.setdefault_in_component_priority_dict("ITEM_PIPELINES", Store, store_order)
        for name in _COMPONENTS:
            for component, order in undecided(name, settings[name]):
                if component not in _KEPT and component not in _FOR_THE_GENERIC_SPIDER:
                    cls = load_object(component)
                    settings.setdefault_in_component_priority_dict(name, cls, order)
        feeds_order = ours.ITEM_PIPELINES["crawler.pipelines.feeds.Feeds"]
        settings.setdefault_in_component_priority_dict("ITEM_PIPELINES", Feeds, feeds_order)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", FastPath, -10)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Servers, 0)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Monitoring, 100)
        settings.setdefault_in_component_priority_dict("EXTENSIONS", Tiers, 700)
        if settings.getbool("ADDON_DASHBOARD"):
            # Progress logs instead of LogStats.
            settings.setdefault_in_component_priority_dict("EXTENSIONS", Progress, 500)
            settings.setdefault_in_component_priority_dict("EXTENSIONS", Admin, 600)
            extensions = settings["EXTENSIONS"]
            if not {_LOG_STATS, LogStats} & set(extensions):
                extensions[_LOG_STATS] = None
