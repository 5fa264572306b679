"""WARC files and MongoDB while crawlers die: every page is in the merged index, and is so once.

`make storm` kills 100 processes.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, scrapy
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.archives import audit, record_at
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
SEED = "http://s0.test/"
WEB = WebOptions(hosts=80 if IS_STORM else 12, pages=200 if IS_STORM else 12, seed=8, zoo="none")
DEATHS, PROCESSES, DELAY_S, LATENCY_S = (100, 4, 1.0, 0.1) if IS_STORM else (4, 2, 0.1, 0.05)
END_S = 1800.0 if IS_STORM else 240.0


def test_archives_are_exact_when_crawlers_are_killed(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    chance = random.Random(9)
    folder, log = tmp_path / "archive", tmp_path / "access.log"
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    settings = {
        "SINKS": f"mongo warc:{folder}",
        "WARC_MAX_BYTES": 2_000_000,
        "DELAY_MIN": DELAY_S,
        "LEASE_TTL": 2.0,
        "RETRY_TIMES": 0,
    }
    expected = truth(WEB)
    started: list[Process] = []

    def fetched() -> int:
        return log.read_bytes().count(b"\n") if log.exists() else 0

    with (
        DemoServer(WEB, log, arguments=(f"--latency={LATENCY_S}",)) as web,
        Fleet(crawls, web) as fleet,
    ):

        def start() -> Process:
            process = fleet.start(SEED, arguments={"scope": "any"}, **settings)
            started.append(process)
            return process

        running = [start() for _ in range(PROCESSES)]
        for _ in range(DEATHS):
            victim = chance.randrange(PROCESSES)
            running[victim].says("Spider opened")
            target = fetched() + chance.randrange(20)
            wait_until(lambda target=target: fetched() >= target, what="fetches")
            running[victim].kill()
            running[victim] = start()
        for process in running:
            assert process.wait(END_S) == 0, process.log
            assert "Traceback" not in process.log
        left = sizes(redis_url)
        assert (left.unfinished, left.leased, left.dead) == (0, 0, 0)
        web.stop()
        taken_back = sum(process.taken_back() for process in started)
        verdict = judge(log, expected, min_delay_s=DELAY_S, allow_repeats=taken_back)
        assert verdict.ok, "\n".join(verdict.lines())

    options = [f"-s{name}={value}" for name, value in {**crawls.settings(), **settings}.items()]
    repaired = scrapy("pages", "repair", *options)
    assert repaired.code == 0, repaired.stderr
    found = audit(folder)
    # Duplicates are captures, too.
    assert found.pages(expected.must_store) == dict.fromkeys(expected.must_store, 1)
    requests = list(read_log(log))
    again = len(requests) - len({entry.url for entry in requests})
    # What is in the files, and not in the index, was fetched again after a kill.
    assert found.unindexed <= min(again, taken_back)
    check_places(mongo_uri, mongo_db_name, folder, expected.must_store)
    print(
        f"{DEATHS} kills, {len(requests):,} requests, {again} repeated, {taken_back} leases taken "
        f"back; {len(found.files)} files, {found.captures:,} captures, {len(found.lines):,} lines "
        f"in the merged index, {found.unindexed} captures left out; {dict(found.types)}"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room; more by `grow`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = mount(folder, "size=256k")
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def mount(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_full_disk_pauses_the_crawl_and_costs_nothing(
    tmp_path: Path, small_disk: Path, redis_url: str
) -> None:
    folder, log = small_disk / "archive", tmp_path / "access.log"
    crawls = Crawls(tmp_path, redis_url)
    options = WebOptions(hosts=12, pages=12, seed=8, zoo="none")
    with DemoServer(options, log) as web, Fleet(crawls, web) as fleet:
        settings = {"SINKS": f"warc:{folder}", "WARC_MAX_BYTES": 50_000}
        process = fleet.start(SEED, arguments={"scope": "any"}, **settings)
        process.says("The sink warc is away.*No space left on device")
        assert mount(small_disk, "remount,size=64m").returncode == 0
        assert process.wait() == 0, process.log
        assert "Traceback" not in process.log
    expected = truth(options)
    found = audit(folder)
    assert found.pages(expected.must_store) == dict.fromkeys(expected.must_store, 1)
    assert found.unindexed == 0
    assert len(list(read_log(log))) == len({entry.url for entry in read_log(log)})


def check_places(mongo_uri: str, database: str, folder: Path, urls: frozenset[str]) -> None:
    """Each page in MongoDB says where its record is, and the record is its own."""
    with pymongo.MongoClient[dict[str, Any]](mongo_uri) as client:
        pages = list(client[database]["pages_metadata"].find({"url": {"$in": list(urls)}}))
    assert len(pages) == len(urls)
    for page in pages:
        record = record_at(folder, page["places"]["warc"])
        assert record.rec_headers.get_header("WARC-URL-Hash") == page["url_hash"]
