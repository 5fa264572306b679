"""Open the reader of the stored pages: that of MongoDB or of PostgreSQL, as SINKS says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crawler import config
from crawler.config.values import url_rules
from crawler.errors import ConfigurationError, CrawlerError
from crawler.storage.bodies import Bodies
from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.sinks import MONGO, POSTGRESQL, shown_sinks, targets
from crawler.urls import Urls

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers
    from crawler.storage.reader import PageReader
    from crawler.storage.runs import RunReader


STORES = (MONGO, POSTGRESQL)
# Folder of the embedded MongoDB, in CRAWL_DIR.
_EMBEDDED = "mongo"


def has_mongo(settings: BaseSettings) -> bool:
    """Return whether there is a MongoDB: that of SINKS, of MONGO_URI, or one in CRAWL_DIR."""
    folder = Path(config.value(settings, "CRAWL_DIR"), _EMBEDDED)
    uri = config.value(settings, "MONGO_URI")
    return bool(targets(settings, MONGO) or uri or folder.is_dir())


def store_of(settings: BaseSettings, store: str | None = None) -> str | None:
    """Return the name of the store that has the records of pages; None if there is none.

    It is `store` if that is given, else the MongoDB of SINKS, else its PostgreSQL. Where SINKS has
    neither, it is the MongoDB of an earlier crawl.
    """
    found = [name for name in STORES if targets(settings, name)]
    if MONGO not in found and has_mongo(settings):
        found.append(MONGO)
    if store is not None:
        return store if store in found else None
    return found[0] if found else None


async def open_reader(
    settings: BaseSettings, servers: Servers, *, store: str | None = None
) -> PageReader:
    """Connect to a store, or to that of the settings; ConfigurationError if there is none.

    The reader is closed with the servers.
    """
    name = store_of(settings, store)
    if name == MONGO:
        return await open_mongo(settings, servers)
    if name == POSTGRESQL:
        return await _open_postgres(targets(settings, POSTGRESQL)[0], settings, servers)
    raise ConfigurationError(
        f"SINKS is {shown_sinks(settings)}, which has no {store or 'records of pages'}; name the "
        "store that the crawl has: SINKS=mongo, or SINKS=postgresql://…"
    )


async def open_runs(settings: BaseSettings, servers: Servers) -> RunReader:
    """Connect to the store of the settings for its records of runs, as `open_reader`."""
    if store_of(settings) is None:
        raise ConfigurationError(
            f"Runs are recorded in MongoDB or PostgreSQL, and SINKS is {shown_sinks(settings)}: "
            "name the store that the crawl has, as SINKS=mongo or SINKS=postgresql://…"
        )
    return (await open_reader(settings, servers)).runs


async def _open_postgres(url: str, settings: BaseSettings, servers: Servers) -> PageReader:
    """Connect to the catalogue; ConfigurationError if it is of another version, or not there."""
    # Loaded when used: it needs a package of its own.
    from crawler.storage.postgres import schema as catalogue  # noqa: PLC0415
    from crawler.storage.postgres.reader import PostgresReader  # noqa: PLC0415

    database = servers.postgres(url, config.value(settings, "POSTGRES_TIMEOUT"))
    try:
        await catalogue.check(database)
    except CrawlerError:
        raise
    except Exception as error:
        raise database.start_error(error) from error
    bodies = Bodies.from_settings(settings)
    return PostgresReader(database, url, bodies, Urls(url_rules(settings)))


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
    """Raise if there is no MongoDB in it: an embedded server would create an empty one."""
    if not (folder / _EMBEDDED).is_dir():
        what = f"MongoDB in {str(folder)!r}" if folder.is_dir() else f"folder {str(folder)!r}"
        raise ConfigurationError(
            f"There is no {what}: crawl first, or name the crawl's folder by -s CRAWL_DIR=… or "
            "its database by -s MONGO_URI=…"
        )
