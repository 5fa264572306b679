"""Content moves while a crawl with recrawls runs, by one process of the fleet."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.asynchronous.database import AsyncDatabase
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from crawler.extensions.tiers import Tiers
from crawler.pipelines.store import Store
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.storage.mongo.schema import CONTENT, SCHEMA
from crawler.storage.retention import Retention
from tests.integration.storage.test_documents import visit
from tests.support.crawlers import project_crawler
from tests.support.waiting import until

Database = AsyncDatabase[dict[str, Any]]
POLL_S = 0.01


@pytest.fixture
async def crawler(mongo_uri: str, mongo_db_name: str, tmp_path: Path) -> AsyncIterator[Crawler]:
    """A crawl with recrawls, and a page of ten days."""
    servers = {"MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}
    tiers = {"PAGES_KEEP": "7d/-/-", "PAGES_TIER_URL": (tmp_path / "objects").as_uri()}
    crawler = project_crawler(**servers, **tiers)
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.recrawls.use("adaptive")
    crawler.engine = SimpleNamespace(_slot=None)  # type: ignore[assignment]
    store = Store.from_crawler(crawler)
    await store.open_spider()
    await store.process_item(visit(crawled_at=datetime.now(UTC) - timedelta(days=10)))
    crawler.engine = SimpleNamespace(scheduler=scheduler)  # type: ignore[assignment]
    yield crawler
    await Servers.of(crawler).close()


def tiers_of(crawler: Crawler) -> Tiers:
    retention = Retention.from_settings(crawler.settings)
    assert retention is not None
    return Tiers(crawler, retention, crawler.settings["MONGO_DATABASE"], poll_s=POLL_S)


async def tier_of(database: Database) -> str | None:
    (found,) = await database[CONTENT].find().to_list()
    return found.get("tier")


async def test_content_moves_while_a_crawl_runs(
    crawler: Crawler, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    processes = [tiers_of(crawler) for _ in range(3)]
    for each in processes:
        each.start()
    await until(lambda: "Content by age: 1 page became warm" in caplog.text)
    assert await tier_of(database) == "warm"
    for each in processes:
        await each.stop()
    assert caplog.text.count("became warm") == 1
    assert crawler.stats is not None
    assert crawler.stats.get_value("tiers/warm") == 1
    (lock,) = await database[SCHEMA].find({"_id": "tiers/web"}).to_list()
    assert lock["next_at"] > datetime.now(UTC) + timedelta(minutes=50)
    assert "expires_at" not in lock


async def test_what_is_left_is_logged_and_counted(
    crawler: Crawler, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await database[CONTENT].update_many({}, {"$unset": {"codec": True}})
    tiers = tiers_of(crawler)
    tiers.start()
    await until(lambda: "Content by age: 1 page left as before" in caplog.text)
    await tiers.stop()
    assert "its content has no field 'codec'" in caplog.text
    assert crawler.stats is not None
    assert crawler.stats.get_value("tiers/left") == 1


async def test_content_stays_while_recrawls_are_off(crawler: Crawler, database: Database) -> None:
    scheduler, off = Scheduler.of(crawler), RecrawlsOff()
    on, scheduler.recrawls = scheduler.recrawls, off  # type: ignore[assignment]
    tiers = tiers_of(crawler)
    tiers.start()
    await until(lambda: off.asked > 3)
    assert await database[SCHEMA].find_one({"_id": "tiers/web"}) is None
    scheduler.recrawls = on
    await until(lambda: _is_warm(database))
    await tiers.stop()


class RecrawlsOff:
    """Recrawls without a policy; counts how often it is asked for."""

    asked = 0

    @property
    def policy(self) -> None:
        self.asked += 1


async def _is_warm(database: Database) -> bool:
    return await tier_of(database) == "warm"


async def test_an_error_is_logged_once_and_the_next_turn_comes(
    crawler: Crawler, database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # A file is where the folder of the store should be.
    (tmp_path / "objects").write_text("")
    tiers = tiers_of(crawler)
    tiers.start()
    ended = {"_id": "tiers/web", "expires_at": {"$exists": False}}
    for turn in range(2):
        await until(lambda: database[SCHEMA].find_one(ended))
        assert caplog.text.count("the crawl goes on") == 1
        if turn == 0:
            # An hour later.
            await database[SCHEMA].update_one({}, {"$unset": {"next_at": True}})
    (tmp_path / "objects").unlink()
    assert await tier_of(database) is None
    await database[SCHEMA].update_one({"_id": "tiers/web"}, {"$unset": {"next_at": True}})
    await until(lambda: _is_warm(database))
    await tiers.stop()


@pytest.mark.parametrize("settings", [{"PAGES_KEEP": None}, {"SINKS": "none"}])
def test_without_ages_or_pages_in_mongodb_it_is_off(settings: dict[str, Any]) -> None:
    ages = {"PAGES_KEEP": "-/-/5y", **settings}
    with pytest.raises(NotConfigured):
        Tiers.from_crawler(project_crawler(**ages))
