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

# No spider is polite, and loses no URL, without these.
OF_EVERY_SPIDER = ("DOWNLOAD_HANDLERS", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES")
# And the generic one makes, and follows, no pages without these.
OF_THE_GENERIC_SPIDER = (*OF_EVERY_SPIDER, "EXTENSIONS", "ITEM_PIPELINES")
# Do what Scrapy's own does: of no use where somebody decided about Scrapy's.
_IN_PLACE_OF = {
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


def keep(settings: BaseSettings, names: Iterable[str]) -> None:
    """Add what is missing of ours to these settings. What is switched off by None stays off."""
    if settings["SCHEDULER"] != ours.SCHEDULER:
        return
    for name in names:
        given = settings.getdict(name)
        missing = dict(undecided(name, given))
        if missing:
            # Above what it was: `scrapy crawl` applies its own settings once more, by theirs.
            priority = (settings.getpriority(name) or 0) + 1
            settings.set(name, {**missing, **given}, priority)


def undecided(name: str, given: Iterable[object]) -> list[tuple[str, Any]]:
    """Our part of a setting, by names and their values, of which these names say nothing."""
    decided = set(map(path_of, given))
    components: dict[str, Any] = getattr(ours, name)
    return [
        (component, order)
        for component, order in components.items()
        if component not in decided and _IN_PLACE_OF.get(component) not in decided
    ]


def path_of(component: object) -> str:
    """A component's name, which may be given as its class."""
    if isinstance(component, type):
        return f"{component.__module__}.{component.__qualname__}"
    return str(component)
