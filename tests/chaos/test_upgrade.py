"""Crawls that change from one version of the program to the next: nothing is lost.

One test continues a frontier that the version before left behind. The other runs processes of both
versions beside each other and kills them; it takes that version from git, in `make storm` only.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pymongo
import pytest

from crawler.errors import ExitCode
from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.acceptance.fleets import Fleet, sizes
from tests.support import old_frontier
from tests.support.private_redis import PrivateRedis
from tests.support.waiting import wait_until

# The last commit before pages were rendered, whose data model crawls without rendering share.
BEFORE = "98c570aa"
LEASE_TTL_S = 2.0
SEED = "http://s0.test/"


def test_a_frontier_of_the_version_before_goes_on(tmp_path: Path) -> None:
    old = old_frontier.read()
    expected = truth(old_frontier.WEB, read_sitemaps=True)
    log = tmp_path / "access.log"
    with PrivateRedis() as redis, DemoServer(old_frontier.WEB, log) as web:
        old_frontier.load(redis.url, old)
        before = sizes(redis.url)
        assert (before.done, before.waiting, before.leased, before.recrawls) == (18, 8, 2, 18)
        with Fleet(Crawls(tmp_path, redis.url), web, LEASE_TTL=LEASE_TTL_S) as fleet:
            process = fleet.start()
            assert process.wait() == ExitCode.DONE, process.log
        assert "Traceback" not in process.log, process.log
        web.stop()
        after = sizes(redis.url)
        assert (after.unfinished, after.owners, after.dead) == (0, 0, 0)
        assert after.done == after.added
        # Recrawls that wait for a month are still there.
        assert after.recrawls == after.pages
    fetched = {entry.url for entry in read_log(log)} - {
        url for url in old.fetched if "robots" in url
    }
    assert not expected.missing_from([*fetched, *old.fetched])
    # What the killed process held is fetched again.
    assert len(fetched & set(old.fetched)) <= before.leased


IS_STORM = bool(os.environ.get("STORM"))
KILLS = 24
PROCESSES = 4
CONCURRENCY = 8
DELAY_S = 0.1
WEB = WebOptions(hosts=64, pages=40, seed=6, zoo="demo")


class _OldProcess:
    """A `scrapy crawl web` of the version before."""

    def __init__(self, folder: Path, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", *command],
                cwd=folder,
                env=environment() | {"PYTHONPATH": str(folder)},
                stdout=file,
                stderr=file,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        return self._process.wait(240.0)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def program_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the version before."""
    folder = tmp_path_factory.mktemp("before")
    archive = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"no commit {BEFORE} in git here")
    subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


@pytest.mark.skipif(not IS_STORM, reason="a minute: make storm")
@pytest.mark.timeout(600)
def test_processes_of_both_versions_share_a_crawl_and_are_killed(
    tmp_path: Path, mongo_uri: str, mongo_db_name: str, program_before: Path
) -> None:
    chance = random.Random(4)
    expected = truth(WEB, read_sitemaps=True)
    log = tmp_path / "access.log"
    killed: list[Any] = []
    with PrivateRedis() as redis, DemoServer(WEB, log, arguments=("--latency=0.02",)) as web:
        crawls = Crawls(tmp_path, redis.url, mongo_uri, mongo_db_name)
        settings = {
            "DELAY_MIN": DELAY_S + 0.01,
            "LEASE_TTL": LEASE_TTL_S,
            "CONCURRENT_REQUESTS": CONCURRENCY,
        }
        with Fleet(crawls, web, **settings) as fleet:

            def start(*, is_old: bool) -> Any:
                if not is_old:
                    return fleet.start(SEED, arguments={"scope": "any"})
                command = crawls.command(
                    SEED, web=web, arguments={"scope": "any"}, settings=settings
                )
                return _OldProcess(program_before, command, tmp_path / f"old-{len(killed)}.log")

            def requests() -> int:
                return log.read_text().count("\n") if log.exists() else 0

            # The old version creates the crawl.
            processes = [start(is_old=True)]
            wait_until(lambda: requests() > 5, what="the first requests")
            processes += [start(is_old=n % 2 == 0) for n in range(1, PROCESSES)]
            versions = {_OldProcess: 0}
            for _ in range(KILLS):
                time.sleep(0.3 + chance.random())
                running = [each for each in processes if each.running]
                if not running:
                    break
                victim = chance.choice(running)
                victim.kill()
                processes.remove(victim)
                killed.append(victim)
                versions[type(victim)] = versions.get(type(victim), 0) + 1
                processes.append(start(is_old=chance.random() < 0.5))
            for process in processes:
                assert process.wait() == ExitCode.DONE, process.log
                assert "Traceback" not in process.log, process.log
        left = sizes(redis.url)
        assert (left.unfinished, left.leased, left.owners) == (0, 0, 0)
        web.stop()
    print(f"killed: {versions}; {requests():,} requests")
    assert len(versions) == 2, versions
    repeats = len(killed) * 3 * CONCURRENCY
    verdict = judge(log, expected, min_delay_s=DELAY_S, allow_repeats=repeats)
    assert verdict.ok, "\n".join(verdict.lines())
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        stored = [page["url"] for page in client[mongo_db_name]["pages_metadata"].find()]
    assert not expected.missing_from(stored)
