"""Crawls in which MongoDB dies: no page is lost, none is given up, and the end does not wait."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest

from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.private_mongo import PrivateMongo
from tests.support.waiting import wait_until

SEED = "http://s0.test/"
WEB = WebOptions(hosts=12, pages=9, seed=6, zoo="none")
EXPECTED = truth(WEB)


@pytest.fixture
def mongo() -> Iterator[PrivateMongo]:
    with PrivateMongo() as mongo:
        yield mongo


@pytest.fixture
def fleet(tmp_path: Path, redis_url: str, mongo: PrivateMongo) -> Iterator[Fleet]:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log, arguments=("--latency=0.1",)) as web:
        crawls = Crawls(tmp_path, redis_url, mongo.uri)
        # An error of an item would be the end of its page.
        with Fleet(crawls, web, RETRY_TIMES=0, LEASE_TTL=3, MONGO_TIMEOUT=2) as fleet:
            yield fleet


def fetches(folder: Path) -> int:
    log = folder / "access.log"
    return log.read_text().count("\n") if log.exists() else 0


def started(fleet: Fleet, folder: Path) -> Process:
    process = fleet.start(SEED, arguments={"scope": "any"})
    wait_until(lambda: fetches(folder) > 20, what="20 fetches")
    return process


def check(redis_url: str, mongo: PrivateMongo) -> None:
    left = sizes(redis_url)
    assert (left.unfinished, left.leased, left.dead) == (0, 0, 0)
    with pymongo.MongoClient[dict[str, Any]](mongo.uri) as client:
        pages = list(client["crawler"]["pages_metadata"].find())
        kept = [content["page_id"] for content in client["crawler"]["pages_content"].find()]
    assert not EXPECTED.missing_from(page["url"] for page in pages)
    # One document a URL, and each content has its metadata.
    assert len({page["url_hash"] for page in pages}) == len(pages)
    with_content = {
        page["url_hash"] for page in pages if not page["reason"] and not page["duplicate_of"]
    }
    assert len(kept) == len(set(kept))
    assert set(kept) == with_content


def test_a_mongodb_that_is_killed_and_started_again(
    fleet: Fleet, tmp_path: Path, redis_url: str, mongo: PrivateMongo
) -> None:
    process = started(fleet, tmp_path)
    mongo.kill()
    process.says("MongoDB is away")
    mongo.start()
    assert process.wait() == 0
    assert "MongoDB is back" in process.log
    assert "Traceback" not in process.log
    check(redis_url, mongo)


def test_a_crawl_that_is_stopped_while_mongodb_is_away(
    fleet: Fleet, tmp_path: Path, redis_url: str, mongo: PrivateMongo
) -> None:
    process = started(fleet, tmp_path)
    mongo.kill()
    process.says("MongoDB is away")
    process.send(signal.SIGINT)
    process.wait()
    assert "pages that are not stored go back to the frontier" in process.log
    assert "Traceback" not in process.log
    left = sizes(redis_url)
    assert (left.leased, left.dead) == (0, 0)
    assert left.unfinished > 0
    mongo.start()
    assert fleet.start(None).wait() == 0
    check(redis_url, mongo)


def test_a_crawler_that_is_killed_while_it_writes(
    fleet: Fleet, tmp_path: Path, redis_url: str, mongo: PrivateMongo
) -> None:
    process = started(fleet, tmp_path)
    before = fetches(tmp_path)
    mongo.freeze()
    # What is fetched now is being written and cannot be.
    wait_until(lambda: fetches(tmp_path) > before + 5, what="5 more fetches")
    process.kill()
    mongo.thaw()
    assert fleet.start(None).wait() == 0
    check(redis_url, mongo)
