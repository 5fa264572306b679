"""URLs for which the frontier has no room wait in a store or in files, and come back later."""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pymongo import AsyncMongoClient

from crawler.commands.frontier import Command
from crawler.discovery.pushed import PushedReader
from crawler.errors import NotStored
from crawler.frontier import Added, Entry, Frontier, Tuning
from crawler.frontier.entry import encode
from crawler.frontier.on_disk import OnDisk
from crawler.frontier.start_urls import StartUrls
from crawler.scheduling.intake import Intake
from crawler.servers.health import mongo_health, postgres_health
from crawler.servers.postgres import Database
from crawler.servers.redis.connection import connect
from crawler.storage.disk_log import SharedLog
from crawler.storage.mongo.spill import MongoSpill
from crawler.storage.postgres.spill import PostgresSpill
from crawler.storage.spill import FileSpill, Spill
from tests.integration.frontier.fleet import CRAWL, T0, beat, claim, crawl, entries, entry
from tests.support.crawlers import project_crawler
from tests.support.postgres_server import PrivatePostgres
from tests.support.private_mongo import PrivateMongo


@pytest.fixture
async def frontier(redis_url: str) -> AsyncIterator[Frontier]:
    """One that is full with three URLs."""
    client = await connect(redis_url)
    frontier = Frontier(client, CRAWL, tuning=Tuning(full_at=3))
    await frontier.open()
    await beat(frontier, now_ms=T0)
    yield frontier
    await client.aclose()


@pytest.fixture
async def away() -> AsyncIterator[Any]:
    """The collection of a MongoDB that is not there."""
    with socket.socket() as taken:
        # Bound, and nobody listens.
        taken.bind(("127.0.0.1", 0))
        uri = f"mongodb://127.0.0.1:{taken.getsockname()[1]}"
        async with AsyncMongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=100) as client:
            yield client["pages"]["spilled"]


def mongo_spill(collection: Any, crawl: str = CRAWL) -> MongoSpill:
    async def connect() -> Any:
        return collection.database.client

    return MongoSpill(connect, collection.database.name, crawl, mongo_health())


class SharedSpills:
    """Spills of crawls in one store that the fleet shares, and what the store has of them."""

    # For commands.
    settings: dict[str, Any]

    def spill(self, crawl: str = CRAWL) -> Spill:
        raise NotImplementedError

    async def crawls(self) -> list[str]:
        """The name of the crawl of each URL, in order."""
        raise NotImplementedError

    async def put_damaged(self) -> None:
        raise NotImplementedError


class InMongo(SharedSpills):
    def __init__(self, collection: Any, uri: str) -> None:
        self._collection = collection
        database = collection.database.name
        self.settings = {"SINKS": "mongo", "MONGO_URI": uri, "MONGO_DATABASE": database}

    def spill(self, crawl: str = CRAWL) -> Spill:
        return mongo_spill(self._collection, crawl)

    async def crawls(self) -> list[str]:
        return sorted([each["crawl"] async for each in self._collection.find()])

    async def put_damaged(self) -> None:
        await self._collection.insert_one({"_id": "bad", "crawl": CRAWL, "entry": b"x"})


class InPostgres(SharedSpills):
    def __init__(self, url: str) -> None:
        self._url = url
        self._databases: list[Database] = []
        self.settings = {"SINKS": url, "MONGO_URI": None}

    def spill(self, crawl: str = CRAWL) -> Spill:
        self._databases.append(Database(self._url, 20.0))
        return PostgresSpill(self._databases[-1], crawl, postgres_health())

    async def crawls(self) -> list[str]:
        with psycopg.connect(self._url) as connection:
            rows = connection.execute("SELECT crawl FROM spilled ORDER BY 1").fetchall()
        return [crawl for (crawl,) in rows]

    async def put_damaged(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute("INSERT INTO spilled VALUES (%s, 'bad', 'x')", [CRAWL])

    async def close(self) -> None:
        for each in self._databases:
            await each.close()


@pytest.fixture(params=["mongo", "postgresql"])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[SharedSpills]:
    if request.param == "mongo":
        uri = request.getfixturevalue("mongo_uri")
        name = request.getfixturevalue("mongo_db_name")
        async with AsyncMongoClient[dict[str, Any]](uri) as client:
            yield InMongo(client[name]["spilled"], uri)
    else:
        found = InPostgres(request.getfixturevalue("postgres_url"))
        yield found
        await found.close()


def intake(frontier: Frontier, spill: Spill, *, closing: bool = False) -> Intake:
    async def add(found: Sequence[Entry], mode: str) -> Added:
        return await frontier.add(found, mode=mode)

    return Intake(
        frontier,
        StartUrls(frontier._redis, "web:start_urls"),
        PushedReader("web:start_urls"),
        add,
        spill,
        is_closing=lambda: closing,
    )


async def fill_and_spill(frontier: Frontier, spill: Spill) -> list[Entry]:
    """Fill the frontier; what is refused is spilled."""
    await frontier.add(entries(3))
    low = [entry(f"http://low{i}.test/", 5, tail={"etag": "x"}) for i in range(4)]
    added = await frontier.add(low)
    assert added.answers == "2222"
    # Of links it gets the bytes.
    await intake(frontier, spill).keep([*low[:2], *map(encode, low[2:])], added)
    return low


async def test_what_is_refused_comes_back_when_there_is_room(
    frontier: Frontier, shared: SharedSpills
) -> None:
    spill = shared.spill()
    low = await fill_and_spill(frontier, spill)
    # There is no room yet, so the crawl is not over.
    assert await intake(frontier, spill).take_in() > 0
    assert len(await shared.crawls()) == 4
    for i in range(3):
        for lease in await claim(frontier, now_ms=T0 + i):
            await crawl(frontier, lease, now_ms=T0 + i)
    assert await intake(frontier, spill).take_in() == 4
    assert len(await shared.crawls()) == 0
    found = [lease.entry for lease in await claim(frontier, now_ms=T0 + 9)]
    assert sorted(found, key=lambda each: each.url) == low
    assert await intake(frontier, spill).take_in() == 0


async def test_a_process_that_dies_between_add_and_delete_loses_and_doubles_nothing(
    frontier: Frontier, shared: SharedSpills
) -> None:
    spill = shared.spill()
    low = await fill_and_spill(frontier, spill)
    await frontier.add(low, mode="all")
    # It is known by now, so that it is dropped and not added a second time.
    assert await intake(frontier, spill).take_in() == 4
    assert len(await shared.crawls()) == 0
    assert (await frontier.sizes()).waiting == 7


async def test_a_url_is_kept_once_however_often_it_is_spilled_and_by_whom(
    shared: SharedSpills,
) -> None:
    mine, others = shared.spill(), shared.spill("another crawl")
    for spill in (mine, mine, others):
        await spill.put(entries(2))
    assert len(await shared.crawls()) == 4
    assert await mine.some(10) == entries(2)
    assert len(await mine.some(1)) == 1
    await mine.drop(entries(2))
    assert (await mine.some(10), len(await others.some(10))) == ([], 2)


async def test_a_damaged_one_is_told_and_stops_nothing(
    shared: SharedSpills, caplog: pytest.LogCaptureFixture
) -> None:
    spill = shared.spill()
    await spill.put(entries(1))
    await shared.put_damaged()
    assert await spill.some(10) == entries(1)
    assert "cannot be read" in caplog.text
    assert len(await shared.crawls()) == 1


async def test_a_crawl_that_is_deleted_leaves_none_to_one_of_its_name(
    frontier: Frontier, shared: SharedSpills, redis_url: str
) -> None:
    await fill_and_spill(frontier, shared.spill())
    await shared.spill("another crawl").put(entries(2))
    await frontier.leave()
    command = Command()
    command.settings = project_crawler(REDIS_URL=redis_url, **shared.settings).settings
    arguments = ["delete", "--yes", "--crawl", CRAWL]
    await asyncio.to_thread(command.run, arguments, argparse.Namespace(help=False))
    assert command.exitcode == 0
    assert await shared.crawls() == ["another crawl"] * 2


FileSpills = Callable[..., FileSpill]


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
async def file_spill(frontier: Frontier) -> AsyncIterator[Callable[..., FileSpill]]:
    """Makes spills in folders, and closes them after the test."""
    made = []

    def make(folder: Path, *, max_bytes: int = 10**9) -> FileSpill:
        made.append(FileSpill(folder, OnDisk(frontier._redis, CRAWL), max_bytes=max_bytes))
        return made[-1]

    yield make
    for spill in made:
        await spill.close()


async def on_disks(frontier: Frontier) -> list[str]:
    return list((await OnDisk(frontier._redis, CRAWL).places()).values())


async def test_without_mongodb_what_is_refused_waits_in_files(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path
) -> None:
    spill = file_spill(tmp_path)
    low = await fill_and_spill(frontier, spill)
    (place,) = await on_disks(frontier)
    assert str(tmp_path) in place
    assert await intake(frontier, spill).take_in() > 0
    for i in range(3):
        for lease in await claim(frontier, now_ms=T0 + i):
            await crawl(frontier, lease, now_ms=T0 + i)
    assert await intake(frontier, spill).take_in() == 4
    assert [lease.entry for lease in await claim(frontier, now_ms=T0 + 9)] == low
    assert await intake(frontier, spill).take_in() == 0
    assert await spill._log.oldest() is None
    assert await on_disks(frontier) == []


async def test_urls_of_a_dead_process_are_taken_in_by_another_and_known_elsewhere(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path
) -> None:
    registry = OnDisk(frontier._redis, CRAWL)
    dead = file_spill(tmp_path / "here")
    await dead.put(entries(2))
    other_machine = file_spill(tmp_path / "there")
    await other_machine.refresh()
    ((name, place),) = (await registry.places()).items()
    assert str(tmp_path / "here") in place
    assert name not in other_machine.names
    successor = file_spill(tmp_path / "here")
    # The first process is alive, and has its files.
    assert await successor.some(10) == []
    await successor.refresh()
    assert name not in successor.names
    # Its end: the system gives its locks up.
    dead._log._log._locks[dead._log.owner].close()
    await successor.refresh()
    assert name in successor.names
    assert await successor.some(10) == entries(2)
    await successor.drop(entries(2))
    assert await registry.places() == {}


async def test_a_url_is_written_to_files_once(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path
) -> None:
    spill = file_spill(tmp_path)
    for _ in range(3):
        await spill.put(entries(2))
    assert spill._log.count == 2


async def test_urls_that_cannot_be_read_now_stay_in_their_file(
    file_spill: FileSpills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spill = file_spill(tmp_path)
    await spill.put(entries(3))
    with monkeypatch.context() as broken:
        broken.setattr(SharedLog, "read", failing_read)
        with pytest.raises(OSError, match="descriptors"):
            await spill.some(10)
    assert await spill.some(10) == entries(3)


async def failing_read(*_: Any) -> list[bytes]:
    raise OSError("no file descriptors")


async def test_urls_are_taken_in_by_one_at_a_time(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path
) -> None:
    spill = file_spill(tmp_path)
    await fill_and_spill(frontier, spill)
    for i in range(3):
        for lease in await claim(frontier, now_ms=T0 + i):
            await crawl(frontier, lease, now_ms=T0 + i)
    found = intake(frontier, spill)
    await asyncio.gather(*(found.take_in() for _ in range(5)))
    assert (await frontier.sizes()).waiting == 4
    assert spill._log.count == 0


async def test_a_url_that_is_refused_again_is_written_again(
    file_spill: FileSpills, tmp_path: Path
) -> None:
    spill = file_spill(tmp_path)
    await spill.put(entries(1))
    await spill.drop(await spill.some(1))
    await spill.put(entries(1))
    assert await spill.some(1) == entries(1)


async def test_of_files_that_are_full_links_are_left_out_and_the_log_says_so_once(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = intake(frontier, file_spill(tmp_path, max_bytes=10))
    for _ in range(3):
        await found.keep(entries(2), Added("12"))
    assert caplog.text.count("left out, and counted as frontier/left_out") == 1


async def test_a_crawl_that_is_deleted_leaves_no_files_to_one_of_its_name(
    file_spill: FileSpills, frontier: Frontier, tmp_path: Path, redis_url: str
) -> None:
    folder = tmp_path / "spill" / CRAWL
    await fill_and_spill(frontier, file_spill(folder))
    await frontier.leave()
    command = Command()
    command.settings = project_crawler(
        REDIS_URL=redis_url, SINKS="none", MONGO_URI=None, CRAWL_DIR=str(tmp_path)
    ).settings
    arguments = ["delete", "--yes", "--crawl", CRAWL]
    await asyncio.to_thread(command.run, arguments, argparse.Namespace(help=False))
    assert command.exitcode == 0
    assert not folder.exists()


# --- outages --------------------------------------------------------------------------------------


async def test_a_crawl_that_spilled_is_not_over_while_mongodb_is_away(
    frontier: Frontier, away: Any
) -> None:
    found = intake(frontier, mongo_spill(away))
    # Nothing was ever refused, so nothing can wait there.
    assert await found.take_in() == 0
    await frontier.add(entries(3))
    assert (await frontier.add([entry("http://low.test/", 5)])).answers == "2"
    assert await found.take_in() > 0


async def test_what_is_refused_waits_for_a_postgresql_that_is_away(
    frontier: Frontier, caplog: pytest.LogCaptureFixture
) -> None:
    with PrivatePostgres() as server:
        database = Database(server.url(), 20.0)
        spill = PostgresSpill(database, CRAWL, postgres_health())
        await spill.put(entries(1))
        server.kill()
        keeping = asyncio.create_task(intake(frontier, spill).keep(entries(2), Added("22")))
        for _ in range(3000):
            if "PostgreSQL is away" in caplog.text:
                break
            await asyncio.sleep(0.02)
        assert "PostgreSQL is away" in caplog.text
        assert not keeping.done()
        server.start()
        async with asyncio.timeout(60):
            await keeping
        assert await spill.some(10) == entries(2)
        await spill.close()


async def test_what_is_refused_waits_for_a_mongodb_that_is_away(
    frontier: Frontier, caplog: pytest.LogCaptureFixture
) -> None:
    with PrivateMongo() as mongo:
        uri = f"{mongo.uri}/?serverSelectionTimeoutMS=100"
        async with AsyncMongoClient[dict[str, Any]](uri) as client:
            spill = mongo_spill(client["pages"]["spilled"])
            mongo.kill()
            keeping = asyncio.create_task(intake(frontier, spill).keep(entries(2), Added("22")))
            for _ in range(3000):
                if "MongoDB is away" in caplog.text:
                    break
                await asyncio.sleep(0.02)
            assert "MongoDB is away" in caplog.text
            assert not keeping.done()
            mongo.start()
            async with asyncio.timeout(60):
                await keeping
            assert await spill.some(10) == entries(2)


async def test_a_crawl_that_ends_while_mongodb_is_away_gives_its_pages_back(
    frontier: Frontier, away: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.storage.commit._GIVE_UP_S", 0.1)
    found = intake(frontier, mongo_spill(away), closing=True)
    # Which costs the page no attempt.
    with pytest.raises(NotStored):
        await found.keep(entries(2), Added("22"))


async def test_nobody_who_looks_in_the_background_waits_for_a_mongodb_that_hangs(
    frontier: Frontier,
) -> None:
    with PrivateMongo() as mongo:
        async with AsyncMongoClient[dict[str, Any]](mongo.uri) as client:
            spill = mongo_spill(client["pages"]["spilled"])
            # Something was refused, so that it is looked for.
            await frontier.add(entries(3))
            assert (await frontier.add([entry("http://low.test/", 5)])).answers == "2"
            await spill.put(entries(5)[3:4])
            mongo.freeze()
            found = intake(frontier, spill)
            found.take_in_soon()
            found.take_in_soon()
            await found.close()
            assert (await frontier.sizes()).waiting == 3
            mongo.thaw()
            # Known or not, what was cut off is taken in once.
            assert await found.take_in() == 1
            assert (await frontier.sizes()).waiting == 4
