"""Crawls whose store dies, MongoDB or PostgreSQL: no page is lost, none is given up.

The last test kills crawlers while they write; `make storm` kills 50 of them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import psycopg
import pymongo
import pytest

from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, scrapy
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.postgres_server import PrivatePostgres
from tests.support.private_mongo import PrivateMongo
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
SEED = "http://s0.test/"
WEB = WebOptions(hosts=12, pages=9, seed=6, zoo="none")
KILL_WEB = WebOptions(hosts=64, pages=60, seed=6, zoo="none") if IS_STORM else WEB
KILLS, PROCESSES = (50, 4) if IS_STORM else (2, 2)


class Store(Protocol):
    """A server of the test's own that keeps pages."""

    # As logs have it.
    name: str
    settings: dict[str, Any]
    mongo_uri: str | None

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def freeze(self) -> None: ...
    def thaw(self) -> None: ...

    def urls(self) -> list[str]:
        """All URLs that it has, once each; it is in order otherwise, too."""


class _Mongo:
    name = "MongoDB"

    def __init__(self, server: PrivateMongo) -> None:
        self.start, self.kill = server.start, server.kill
        self.freeze, self.thaw = server.freeze, server.thaw
        self.mongo_uri: str | None = server.uri
        self.settings: dict[str, Any] = {"MONGO_TIMEOUT": 2}

    def urls(self) -> list[str]:
        with pymongo.MongoClient[dict[str, Any]](self.mongo_uri) as client:
            pages = list(client["crawler"]["pages_metadata"].find())
            kept = [content["page_id"] for content in client["crawler"]["pages_content"].find()]
        assert len({page["url_hash"] for page in pages}) == len(pages)
        # Each content has its metadata.
        with_content = {
            page["url_hash"] for page in pages if not page["reason"] and not page["duplicate_of"]
        }
        assert len(kept) == len(set(kept))
        assert set(kept) == with_content
        return [page["url"] for page in pages]


# Notes rows that are replaced by older ones.
_WATCH = """
CREATE TABLE gone_back (url text);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.last_crawled < OLD.last_crawled OR NEW.first_seen > OLD.first_seen THEN
        INSERT INTO gone_back VALUES (OLD.url);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER watch BEFORE UPDATE ON crawled_urls FOR EACH ROW EXECUTE FUNCTION watch();
"""


class _Postgres:
    name = "PostgreSQL"
    mongo_uri = None

    def __init__(self, server: PrivatePostgres) -> None:
        self.start, self.kill = server.start, server.kill
        self.freeze, self.thaw = server.freeze, server.thaw
        self._url = server.url()
        self.settings: dict[str, Any] = {"SINKS": self._url, "POSTGRES_TIMEOUT": 2}
        self._is_watched = False

    def watch(self) -> None:
        """Note from now on if a row is replaced by an older one."""
        with psycopg.connect(self._url) as connection:
            connection.execute(_WATCH)
        self._is_watched = True

    def urls(self) -> list[str]:
        with psycopg.connect(self._url) as connection:
            rows = connection.execute(
                """SELECT u.url, u.url_hash, d.url_hash IS NOT NULL,
                u.http_status BETWEEN 200 AND 299, u.content_hash, d.content_hash
                FROM crawled_urls u LEFT JOIN documents d USING (crawl, url_hash)"""
            ).fetchall()
            ((documents,),) = connection.execute("SELECT count(*) FROM documents").fetchall()
            if self._is_watched:
                assert connection.execute("SELECT * FROM gone_back").fetchall() == []
        assert len({row[1] for row in rows}) == len(rows)
        # Both tables are of the same visits.
        assert all(row[2] == row[3] for row in rows)
        assert all(row[4] == row[5] for row in rows if row[2])
        assert documents == sum(row[2] for row in rows)
        return [row[0] for row in rows]


@pytest.fixture(params=["mongo", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with ExitStack() as stack:
        if request.param == "mongo":
            yield _Mongo(stack.enter_context(PrivateMongo()))
        else:
            yield _Postgres(stack.enter_context(PrivatePostgres()))


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, store: Store) -> Iterator[Fleet]:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log, arguments=("--latency=0.1",)) as web:
        crawls = Crawls(tmp_path, redis_url, store.mongo_uri)
        # An error of an item would be the end of its page.
        with Fleet(crawls, web, RETRY_TIMES=0, LEASE_TTL=3, **store.settings) as fleet:
            yield fleet


def fetches(folder: Path) -> int:
    log = folder / "access.log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def started(fleet: Fleet, folder: Path) -> Process:
    process = fleet.start(SEED, arguments={"scope": "any"})
    wait_until(lambda: fetches(folder) > 20, what="20 fetches")
    return process


def check(redis_url: str, store: Store, web: WebOptions = WEB) -> None:
    left = sizes(redis_url)
    assert (left.unfinished, left.leased, left.dead) == (0, 0, 0)
    assert not truth(web).missing_from(store.urls())


def test_a_store_that_is_killed_and_started_again(
    fleet: Fleet, tmp_path: Path, redis_url: str, store: Store
) -> None:
    process = started(fleet, tmp_path)
    store.kill()
    process.says(f"{store.name} is away")
    store.start()
    assert process.wait() == 0
    assert f"{store.name} is back" in process.log
    assert "Traceback" not in process.log
    check(redis_url, store)


def test_a_crawl_that_is_stopped_while_its_store_is_away(
    fleet: Fleet, tmp_path: Path, redis_url: str, store: Store
) -> None:
    process = started(fleet, tmp_path)
    store.kill()
    process.says(f"{store.name} is away")
    process.send(signal.SIGINT)
    process.wait()
    assert "pages that are not stored go back to the frontier" in process.log
    assert "Traceback" not in process.log
    left = sizes(redis_url)
    assert (left.leased, left.dead) == (0, 0)
    assert left.unfinished > 0
    store.start()
    assert fleet.start(None).wait() == 0
    check(redis_url, store)


def test_a_crawler_that_is_killed_while_it_writes(
    fleet: Fleet, tmp_path: Path, redis_url: str, store: Store
) -> None:
    process = started(fleet, tmp_path)
    before = fetches(tmp_path)
    store.freeze()
    # What is fetched now is being written and cannot be.
    wait_until(lambda: fetches(tmp_path) > before + 5, what="5 more fetches")
    process.kill()
    store.thaw()
    assert fleet.start(None).wait() == 0
    check(redis_url, store)


def test_crawlers_that_are_killed_again_and_again_leave_one_row_for_each_url(
    tmp_path: Path, redis_url: str
) -> None:
    chance = random.Random(19)
    arguments = ("--latency=0.05",)
    with (
        PrivatePostgres() as server,
        DemoServer(KILL_WEB, tmp_path / "access.log", arguments=arguments) as web,
    ):
        store = _Postgres(server)
        crawls = Crawls(tmp_path, redis_url)
        options = {"LEASE_TTL": 2, "DELAY_MIN": 0.05, **store.settings}
        options["POSTGRES_TIMEOUT"] = 10
        with Fleet(crawls, web, **options) as fleet:

            def start() -> Process:
                return fleet.start(SEED, arguments={"scope": "any"})

            processes = [start() for _ in range(PROCESSES)]
            wait_until(lambda: fetches(tmp_path) > 5, what="5 fetches")
            store.watch()
            for _ in range(KILLS):
                target = fetches(tmp_path) + chance.randint(5, 25) * PROCESSES // 2
                wait_until(
                    lambda target=target: (
                        fetches(tmp_path) >= target or not sizes(redis_url).unfinished
                    ),
                    what="more fetches",
                )
                time.sleep(chance.random() * 0.1)
                victim = chance.randrange(len(processes))
                processes[victim].kill()
                processes[victim] = start()
            for process in processes:
                assert process.wait(1800.0 if IS_STORM else 120.0) == 0, process.log
                assert "Traceback" not in process.log
            if sizes(redis_url).dead:
                # Five killed processes had begun to fetch such a URL: it is given up, until people
                # say more.
                given = ("-s", f"REDIS_URL={redis_url}")
                dead = scrapy("frontier", "dead", *given).stdout
                assert all(" poison " in line for line in dead.splitlines() if line), dead
                assert scrapy("frontier", "requeue", *given).code == 0
                assert start().wait() == 0
        check(redis_url, store, KILL_WEB)


def test_a_catalogue_that_is_away_gets_spooled_pages_with_the_places_of_their_bodies(
    tmp_path: Path, redis_url: str
) -> None:
    arguments = ("--latency=0.1",)
    with (
        PrivatePostgres() as server,
        DemoServer(WEB, tmp_path / "access.log", arguments=arguments) as web,
    ):
        store = _Postgres(server)
        options = {
            "SINKS": f"{server.url()} warc:{tmp_path / 'archive'}",
            "SPOOL_DIR": tmp_path / "spool",
            "POSTGRES_TIMEOUT": 0.5,
            "RETRY_TIMES": 0,
        }
        with Fleet(Crawls(tmp_path, redis_url), web, **options) as fleet:
            process = started(fleet, tmp_path)
            store.kill()
            files = tmp_path / "spool" / "web"
            wait_until(lambda: any(files.glob("*.log")), what="spooled pages")
            store.start()
            assert process.wait() == 0, process.log
            assert "Traceback" not in process.log
        check(redis_url, store)
        assert not list(files.glob("*.log"))
        # No MongoDB was started for want of one.
        assert not (tmp_path / "crawl" / "mongo").exists()
        with psycopg.connect(server.url()) as connection:
            rows = connection.execute(
                """SELECT u.url, d.places->'warc'->>'file' FROM crawled_urls u
                JOIN documents d USING (crawl, url_hash)
                WHERE u.reason = '' AND duplicate_of = ''"""
            ).fetchall()
        assert rows
        archive = {path.name for path in (tmp_path / "archive").rglob("*.warc.gz")}
        assert {Path(file).name for _, file in rows} <= archive
