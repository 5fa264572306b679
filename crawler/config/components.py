"""Keep this project's components beside those that a spider, a project or a command line names.

Scrapy takes one setting for all of them: a spider with a single middleware of its own in its
`custom_settings` would fetch without robots.txt, without delays, and settle no lease.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawler import settings as ours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.settings import BaseSettings

# Without these a spider is not polite, and loses URLs.
EVERY_SPIDER = ("DOWNLOAD_HANDLERS", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES")
# Without these the generic spider stores no pages and follows no links.
GENERIC_SPIDER = (*EVERY_SPIDER, "EXTENSIONS", "ITEM_PIPELINES")
# Replacements of Scrapy's components: left out if the user configured Scrapy's component.
_REPLACES = {
    "crawler.fastpath.decompression.Decompression": (
        "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware"
    ),
    "crawler.middlewares.scrapy_twins.HttpAuth": (
        "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware"
    ),
    "crawler.middlewares.scrapy_twins.Offsite": (
        "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware"
    ),
}
# Scrapy imports its extensions before they see that they are switched off. This one imports
# aiohttp: 8 MB in each process.
_REMOTE_CONTROL = "scrapy.extensions.remote_control.RemoteControl"


def keep(settings: BaseSettings, names: Iterable[str]) -> None:
    """Add our missing components to these settings. Those switched off by None stay off."""
    if settings["SCHEDULER"] != ours.SCHEDULER:
        return
    for name in names:
        given = settings.getdict(name)
        missing = dict(undecided(name, given))
        if missing:
            _replace(settings, name, {**missing, **given})


def leave_out_remote_control(settings: BaseSettings) -> None:
    """Do not even import Scrapy's remote control if it is switched off."""
    base = settings.getdict("EXTENSIONS_BASE")
    if base.pop(_REMOTE_CONTROL, None) is not None and not settings.getbool(
        "REMOTE_CONTROL_ENABLED"
    ):
        _replace(settings, "EXTENSIONS_BASE", base)


def _replace(settings: BaseSettings, name: str, components: dict[Any, Any]) -> None:
    # A higher priority: `scrapy crawl` applies its settings once more, with the old one.
    settings.set(name, components, (settings.getpriority(name) or 0) + 1)


def undecided(name: str, given: Iterable[object]) -> list[tuple[str, Any]]:
    """Return our components of a setting, with their orders, that are not among those given."""
    decided = set(map(path_of, given))
    components: dict[str, Any] = getattr(ours, name)
    return [
        (component, order)
        for component, order in components.items()
        if component not in decided and _REPLACES.get(component) not in decided
    ]


def path_of(component: object) -> str:
    """Return the path of a component, which may be given as its class."""
    if isinstance(component, type):
        return f"{component.__module__}.{component.__qualname__}"
    return str(component)
