"""Servers that lose what they had: a crawl stops with words, and goes on in a documented way."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
from redis import Redis

from crawler.errors import ExitCode
from crawler.frontier import CrawlControl, Entry
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, Run, scrapy
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.private_redis import PrivateRedis
from tests.support.waiting import wait_until

SEED = "http://s0.test/"
WEB = WebOptions(hosts=12, pages=8, seed=6, zoo="demo")
EXPECTED = truth(WEB, read_sitemaps=True)
CONCURRENCY = 8


@dataclass
class Scene:
    """A crawl of the synthetic web with its own servers."""

    redis: PrivateRedis
    web: DemoServer
    crawls: Crawls
    fleet: Fleet
    log: Path
    pages: Any

    def start(self, **settings: Any) -> Process:
        return self.fleet.start(SEED, arguments={"scope": "any"}, **settings)

    def has_stored(self, pages: int) -> None:
        wait_until(lambda: self.pages.count_documents({}) >= pages, what=f"{pages} pages")

    def flush(self) -> None:
        with Redis.from_url(self.redis.url) as client:
            client.flushall()

    async def add(self, url: str) -> None:
        redis = await connect(self.redis.url)
        control = await CrawlControl.open(redis, "web")
        assert (await control.add([Entry(fingerprint(url), url)])).new
        await redis.aclose()

    def rebuild(self, *options: str) -> Run:
        named = [f"{name}={value}" for name, value in self.crawls.settings().items()]
        settings = [part for each in named for part in ("-s", each)]
        return scrapy("frontier", "rebuild", "--crawl", "web", *options, *settings)


@pytest.fixture
def scene(tmp_path: Path, mongo_uri: str, mongo_db_name: str) -> Iterator[Scene]:
    log = tmp_path / "access.log"
    with (
        PrivateRedis() as redis,
        DemoServer(WEB, log, arguments=("--latency=0.02",)) as web,
        pymongo.MongoClient[dict[str, Any]](mongo_uri) as client,
    ):
        crawls = Crawls(tmp_path, redis.url, mongo_uri, mongo_db_name)
        settings = {"DELAY_MIN": 0.05, "CONCURRENT_REQUESTS": CONCURRENCY}
        with Fleet(crawls, web, **settings) as fleet:
            pages = client[mongo_db_name]["pages_metadata"]
            yield Scene(redis, web, crawls, fleet, log, pages)


def test_a_frontier_that_was_flushed_is_made_anew_from_the_stored_pages(scene: Scene) -> None:
    process = scene.start()
    scene.has_stored(40)
    process.send(signal.SIGTERM)
    assert process.wait() == ExitCode.DONE, process.log
    before = sizes(scene.redis.url)
    stored = {page["url"] for page in scene.pages.find()}
    fetched = len(list(read_log(scene.log)))
    scene.flush()

    refused = scene.start()
    assert refused.wait() == ExitCode.DATA_LOST, refused.log
    assert "scrapy frontier rebuild --crawl web" in refused.log

    # As processes repeat what they had added.
    repeated = min(EXPECTED.must_fetch - stored)
    asyncio.run(scene.add(repeated))
    run = scene.rebuild()
    assert run.code == 0, run.stderr
    after = sizes(scene.redis.url)
    # URLs without a record are found again: redirects and sitemaps.
    assert before.done >= after.done >= len(stored), run.stdout
    assert 0 < after.waiting <= before.unfinished + before.done - after.done + 1, run.stdout
    assert scene.rebuild().code == ExitCode.MISTAKE
    assert scene.rebuild("--merge").code == 0
    again = sizes(scene.redis.url)
    assert (again.done, again.waiting) == (after.done, after.waiting)

    last = scene.start()
    assert last.wait() == ExitCode.DONE, last.log
    assert "Traceback" not in last.log, last.log
    scene.web.stop()
    later = list(read_log(scene.log))[fetched:]
    assert len(later) > 20
    assert not stored & {entry.url for entry in later if not entry.url.endswith("/robots.txt")}
    verdict = judge(scene.log, EXPECTED, min_delay_s=0.04, allow_repeats=fetched - len(stored))
    assert verdict.ok, "\n".join(verdict.lines())


def test_a_database_that_is_dropped_in_mid_crawl_ends_it(scene: Scene) -> None:
    process = scene.start()
    scene.has_stored(20)
    scene.pages.database.client.drop_database(scene.pages.database.name)
    assert process.wait() == ExitCode.DATA_LOST, process.log
    assert "MongoDB has lost pages of the crawl 'web'" in process.log
    assert "Traceback" not in process.log, process.log
    # Nor does a later run end with success and less.
    later = scene.start()
    assert later.wait() == ExitCode.DATA_LOST, later.log
    assert "stored its pages elsewhere" in later.log
