"""Runs are recorded and read back alike in MongoDB and PostgreSQL."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from crawler.errors import ConfigurationError
from crawler.servers.connections import Servers
from crawler.storage.readers import open_reader, open_runs
from crawler.storage.runs import KEPT, LOST_AFTER, Run, RunReader, WantedRuns
from crawler.storage.sink import Sink
from crawler.storage.sinks import named_sinks
from tests.support.crawlers import project_crawler
from tests.support.runs import AT, run

SECOND = timedelta(seconds=1)
NOW = AT + timedelta(hours=1)


@dataclass
class Store:
    sink: Sink
    runs: RunReader

    async def record(self, *runs: Run) -> None:
        for each in runs:
            await self.sink.record_run(each)

    async def ids(self, **wanted: Any) -> list[str]:
        return [each.id for each in await self.runs.find(WantedRuns(now=NOW, **wanted))]


@pytest.fixture(params=["mongo", "postgresql"])
async def store(
    request: pytest.FixtureRequest, mongo_uri: str, mongo_db_name: str
) -> AsyncIterator[Store]:
    sinks = "mongo" if request.param == "mongo" else request.getfixturevalue("postgres_url")
    crawler = project_crawler(SINKS=sinks, MONGO_URI=mongo_uri, MONGO_DATABASE=mongo_db_name)
    servers = Servers.from_settings(crawler.settings)
    [named] = named_sinks(crawler.settings)
    sink = named.make("web", crawler.settings, servers)
    await sink.open()
    reader = await open_reader(crawler.settings, servers, store=request.param)
    yield Store(sink, reader.runs)
    await sink.close()
    await servers.close()


def running(**fields: Any) -> Run:
    return run(state="running", ended=None, reason="", exit_code=None, **fields)


async def test_a_run_is_read_as_it_was_recorded_last(store: Store) -> None:
    first = running(pages=0)
    last = run(seen=AT + SECOND, ended=AT + SECOND, pages=9)
    await store.record(first)
    assert await store.runs.get(first.id, AT) == first
    await store.record(last)
    assert await store.runs.get(first.id, NOW) == last
    assert await store.ids() == [first.id]
    for unknown in ("20260504T020000-ffffffff", "", "a\0b"):
        assert await store.runs.get(unknown, NOW) is None


async def test_runs_are_found_by_crawl_state_and_start(store: Store) -> None:
    day = timedelta(days=1)
    await store.record(
        run(id="1", started=AT - 2 * day),
        run(id="2", started=AT - day, crawl="other", state="stopped"),
        run(id="3", started=AT, state="failed", exit_code=3),
        running(id="4", started=AT + SECOND, seen=NOW),
    )
    assert await store.ids() == ["4", "3", "2", "1"]
    assert await store.ids(limit=2) == ["4", "3"]
    assert await store.ids(crawl="web") == ["4", "3", "1"]
    assert await store.ids(state="stopped") == ["2"]
    assert await store.ids(state="running") == ["4"]
    assert await store.ids(since=AT - day) == ["4", "3", "2"]
    assert await store.ids(crawl="web", state="finished", since=AT) == []


async def test_a_silent_run_is_lost_for_readers_and_marked_by_the_next_of_its_crawl(
    store: Store,
) -> None:
    silent = running(id="1", seen=NOW - LOST_AFTER - SECOND)
    elsewhere = replace(silent, id="2", crawl="other")
    await store.record(silent, elsewhere)
    assert await store.ids(state="lost") == ["2", "1"] or await store.ids(state="lost") == [
        "1",
        "2",
    ]
    assert await store.ids(state="running") == []
    assert await store.runs.get("1", NOW) == silent.lost()
    # As it was before that.
    assert await store.runs.get("1", NOW - LOST_AFTER) == silent
    await store.record(running(id="3", started=NOW, seen=NOW))
    assert await store.runs.get("1", NOW - LOST_AFTER) == silent.lost()
    assert await store.runs.get("2", NOW - LOST_AFTER) == elsewhere
    # It was only frozen.
    back = replace(silent, seen=NOW)
    await store.record(back)
    assert await store.runs.get("1", NOW) == back


async def test_records_are_deleted_when_they_are_a_year_old(store: Store) -> None:
    old = run(id="1", seen=NOW - KEPT - SECOND)
    await store.record(old, replace(old, id="2", crawl="other"))
    await store.record(run(id="3", started=NOW, seen=NOW))
    assert await store.ids() == ["3", "2"]


async def test_without_a_store_nothing_is_recorded(tmp_path: Any) -> None:
    crawler = project_crawler(SINKS="none", CRAWL_DIR=str(tmp_path))
    servers = Servers.from_settings(crawler.settings)
    with pytest.raises(ConfigurationError, match="recorded in MongoDB or PostgreSQL, and SINKS"):
        await open_runs(crawler.settings, servers)
