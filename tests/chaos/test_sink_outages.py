"""Crawls with several sinks, of which one is away while crawlers die, and crawls with a spool.

Each sink has every page in the end. `make storm` has a minute of outage with 20 deaths for the
first, and five minutes at full speed for the second.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymongo

from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import Truth, truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.private_mongo import PrivateMongo
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
SEED = "http://s0.test/"
WEB = WebOptions(hosts=64 if IS_STORM else 12, pages=42 if IS_STORM else 9, seed=6, zoo="none")
DEATHS, AWAY_S = (20, 60.0) if IS_STORM else (2, 2.0)
# Not all of it is fetched before MongoDB is found to be away.
SPOOL_WEB = WebOptions(
    hosts=2000 if IS_STORM else 48, pages=60 if IS_STORM else 9, seed=6, zoo="none"
)
SPOOL_AWAY_S = 300.0 if IS_STORM else 0.0
QUICKLY_AWAY = {"MONGO_TIMEOUT": 0.5}
DELAY_S = 0.05
END_S = 1800.0 if IS_STORM else 240.0


@dataclass
class Scene:
    """Processes that crawl the synthetic web into MongoDB and, if wished, a second sink."""

    folder: Path
    redis_url: str
    mongo: PrivateMongo
    web: DemoServer
    fleet: Fleet
    expected: Truth
    settings: dict[str, Any]
    processes: list[Process] = field(default_factory=list)

    @property
    def table(self) -> Path:
        return self.folder / "pages.db"

    def start(self) -> Process:
        process = self.fleet.start(SEED, arguments={"scope": "any"}, **self.settings)
        self.processes.append(process)
        return process

    def fetched(self) -> int:
        log = self.folder / "access.log"
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def goes_on(self, fetches: int) -> None:
        target = self.fetched() + fetches
        wait_until(lambda: self.fetched() >= target, what=f"{fetches} fetches")

    @contextmanager
    def table_locked(self) -> Iterator[None]:
        """Let the second sink be away: somebody else has its file."""
        with closing(sqlite3.connect(self.table, timeout=60, isolation_level=None)) as database:
            database.execute("BEGIN EXCLUSIVE")
            yield
            database.execute("ROLLBACK")

    def taken_back(self) -> int:
        """Leases of dead processes that went to others: the most that may be fetched again."""
        return sum(process.taken_back() for process in self.processes)

    def check_frontier(self) -> None:
        left = sizes(self.redis_url)
        assert (left.unfinished, left.leased, left.dead) == (0, 0, 0), self.processes[-1].log

    def check_mongo(self) -> None:
        with pymongo.MongoClient[dict[str, Any]](self.mongo.uri) as client:
            pages = list(client["crawler"]["pages_metadata"].find({}, {"url": 1, "url_hash": 1}))
        assert len({page["url_hash"] for page in pages}) == len(pages)
        assert not self.expected.missing_from(page["url"] for page in pages)

    def check_table(self) -> None:
        with closing(sqlite3.connect(self.table)) as database:
            rows = database.execute("SELECT crawl, url FROM pages").fetchall()
        assert len(set(rows)) == len(rows)
        assert not self.expected.missing_from(url for _, url in rows)

    def fetches(self) -> Counter[str]:
        return Counter(
            entry.url
            for entry in read_log(self.folder / "access.log")
            if not entry.url.endswith("/robots.txt")
        )


@contextmanager
def scene(
    folder: Path, redis_url: str, options: WebOptions, *, latency_s: float, **settings: Any
) -> Iterator[Scene]:
    log, arguments = folder / "access.log", (f"--latency={latency_s}",)
    values = {"DELAY_MIN": DELAY_S, "LEASE_TTL": 2.0, "RETRY_TIMES": 0, **settings}
    with (
        PrivateMongo() as mongo,
        DemoServer(options, log, arguments=arguments) as web,
        Fleet(Crawls(folder, redis_url, mongo.uri), web) as fleet,
    ):
        yield Scene(folder, redis_url, mongo, web, fleet, truth(options), values)


def test_two_sinks_of_which_one_is_away_while_crawlers_die(tmp_path: Path, redis_url: str) -> None:
    chance = random.Random(5)
    sinks = f"mongo tests.support.sinks.SqliteSink:{tmp_path / 'pages.db'}"
    with scene(tmp_path, redis_url, WEB, latency_s=0.1, SINKS=sinks) as found:
        processes = [found.start(), found.start()]
        found.goes_on(10)
        with found.table_locked():
            processes[0].says("The sink SqliteSink is away")
            ends_s = time.monotonic() + AWAY_S
            for left in range(DEATHS, 0, -1):
                time.sleep(max(0.0, ends_s - time.monotonic()) / left * chance.random() * 2)
                victim = chance.randrange(len(processes))
                processes[victim].kill()
                processes[victim] = found.start()
        for process in processes:
            assert process.wait(END_S) == 0, process.log
            assert "Traceback" not in process.log
        found.check_frontier()
        found.check_mongo()
        found.check_table()
        found.web.stop()
        verdict = judge(
            tmp_path / "access.log",
            found.expected,
            min_delay_s=DELAY_S,
            allow_repeats=found.taken_back(),
        )
        assert verdict.ok, "\n".join(verdict.lines())
        print(f"{DEATHS} deaths in {AWAY_S:g} s; {verdict.lines()[0]}")


def resident_mb(process: Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def test_a_mongodb_that_is_away_costs_no_refetch_with_a_spool(
    tmp_path: Path, redis_url: str
) -> None:
    settings = {"SPOOL_DIR": tmp_path / "spool", **QUICKLY_AWAY}
    latency_s = 0.0 if IS_STORM else 0.1
    with scene(tmp_path, redis_url, SPOOL_WEB, latency_s=latency_s, **settings) as found:
        process = found.start()
        found.goes_on(20)
        found.mongo.kill()
        process.says("MongoDB is away")
        files = found.folder / "spool" / "web"
        wait_until(lambda: any(files.glob("*.log")), what="spooled pages")
        before, memory = found.fetched(), [resident_mb(process)]
        ends_s = time.monotonic() + SPOOL_AWAY_S
        while time.monotonic() < ends_s:
            time.sleep(1)
            memory.append(resident_mb(process))
        during = found.fetched() - before
        on_disk = sum(path.stat().st_size for path in files.glob("*.log"))
        found.mongo.start()
        assert process.wait(END_S) == 0, process.log
        assert "Traceback" not in process.log
        found.check_frontier()
        found.check_mongo()
        assert not list(files.glob("*.log"))
        # No page was fetched twice, and none again after the outage.
        assert max(found.fetches().values()) == 1
    if IS_STORM:
        half = len(memory) // 2
        print(
            f"{during:,} fetches in {SPOOL_AWAY_S:g} s without MongoDB, {on_disk / 1e6:.0f} MB "
            f"spooled, memory {memory[half // 4]:.0f} MB early, {memory[half]:.0f} MB half-way, "
            f"{memory[-1]:.0f} MB at the end"
        )
        assert during > 1000
        # As the crawl's own structures grow: the known URLs, the hosts.
        assert memory[-1] < memory[half // 4] * 1.5


def test_a_crawler_that_is_killed_while_it_spools_loses_nothing(
    tmp_path: Path, redis_url: str
) -> None:
    settings = {"SPOOL_DIR": tmp_path / "spool", **QUICKLY_AWAY}
    with scene(tmp_path, redis_url, SPOOL_WEB, latency_s=0.1, **settings) as found:
        victim = found.start()
        found.goes_on(20)
        found.mongo.kill()
        files = found.folder / "spool" / "web"
        # Each record begins with this mark: before a second one, the first is complete.
        wait_until(
            lambda: sum(path.read_bytes().count(b"LOG1") for path in files.glob("*.log")) > 1,
            what="spooled pages",
        )
        found.goes_on(10)
        victim.kill()
        found.mongo.start()
        successor = found.start()
        assert successor.wait(END_S) == 0, successor.log
        assert "pages of earlier processes are in the spool" in successor.log
        assert "Traceback" not in successor.log
        found.check_frontier()
        found.check_mongo()
        # Only what was in flight at its death was fetched again.
        repeats = sum(count - 1 for count in found.fetches().values())
        assert repeats <= found.taken_back()


def test_a_crawl_is_not_over_while_pages_are_spooled(tmp_path: Path, redis_url: str) -> None:
    settings = {"SPOOL_DIR": tmp_path / "spool", **QUICKLY_AWAY, "CRAWL_MAX_WAIT": 1}
    with scene(tmp_path, redis_url, WEB, latency_s=0.02, **settings) as found:
        first = found.start()
        found.goes_on(20)
        found.mongo.kill()
        files = found.folder / "spool" / "web"
        wait_until(lambda: any(files.glob("*.log")), what="spooled pages")
        # Everything is fetched and settled, and the process waits for MongoDB.
        wait_until(lambda: sizes(redis_url).unfinished == 0, what="all URLs done")
        first.send(signal.SIGTERM)
        assert first.wait() == 0
        assert any(files.glob("*.log"))
        found.mongo.start()
        # Another machine has another disk: there the crawl is not over, and it says why.
        found.settings["SPOOL_DIR"] = tmp_path / "another machine"
        elsewhere = found.start()
        assert elsewhere.wait() == 0
        assert "The crawl is not over" in elsewhere.log
        assert str(files) in elsewhere.log
        found.settings["SPOOL_DIR"] = tmp_path / "spool"
        assert found.start().wait() == 0
        found.check_mongo()
        assert "Spider closed (finished)" in found.processes[-1].log
