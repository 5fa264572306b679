"""Open the reader of the stored pages: that of MongoDB or of PostgreSQL, as SINKS says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crawler import config
from crawler.config.values import url_rules
from crawler.errors import ConfigurationError
from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.sinks import MONGO, shown_sinks, uses_mongo
from crawler.urls import Urls

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers
    from crawler.storage.reader import PageReader


def store_of(settings: BaseSettings) -> str | None:
    """Return the name of the store that has the records of pages; None if there is none.

    Where SINKS names none, it is the MongoDB of an earlier crawl: MONGO_URI, or that in CRAWL_DIR.
    """
    if uses_mongo(settings) or config.value(settings, "MONGO_URI"):
        return MONGO
    return MONGO if Path(config.value(settings, "CRAWL_DIR"), "mongo").is_dir() else None


async def open_reader(settings: BaseSettings, servers: Servers) -> PageReader:
    """Connect to the store of the settings; ConfigurationError if there is none.

    The reader is closed with the servers.
    """
    if store_of(settings) is None:
        raise ConfigurationError(
            f"SINKS is {shown_sinks(settings)}, which has no records of pages that could be read; "
            "use SINKS with mongo, or name a database by -s MONGO_URI=…"
        )
    return await open_mongo(settings, servers)


async def open_mongo(
    settings: BaseSettings, servers: Servers, *, any_version: bool = False
) -> MongoReader:
    """Connect to MongoDB; ConfigurationError if its pages are of an earlier version."""
    if not config.value(settings, "MONGO_URI"):
        _check_folder(Path(config.value(settings, "CRAWL_DIR")))
    database = (await servers.mongo())[config.value(settings, "MONGO_DATABASE")]
    if not any_version:
        await schema.check(database)
    return MongoReader(
        database, Urls(url_rules(settings)), tier_url=config.value(settings, "PAGES_TIER_URL")
    )


def _check_folder(folder: Path) -> None:
    """Raise if there is no folder: an embedded server would create an empty database in it."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"There is no folder {str(folder)!r}: crawl first, or name the crawl's folder by "
            "-s CRAWL_DIR=… or its database by -s MONGO_URI=…"
        )
