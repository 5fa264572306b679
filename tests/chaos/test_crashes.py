"""Crawls of two processes in which things die: nothing is lost, and no host is burdened more."""

import json
import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
from redis import Redis

from crawler.errors import ExitCode
from crawler.frontier import keys
from crawler.frontier.frontier import tags
from crawler.frontier.outbox import KEPT_S
from demo.access_log import read_log
from demo.judge import Verdict, judge
from demo.process import DemoServer
from demo.truth import Truth, truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, Process, sizes
from tests.support.private_redis import PrivateRedis
from tests.support.waiting import wait_until

# Shards of a crawl on one server.
TAGS = tags("web", 4)

SEED = "http://s0.test/"
WEB = WebOptions(hosts=32, pages=9, seed=6, zoo="demo")
DELAY_S = 0.05
LEASE_TTL_S = 2.0
CONCURRENCY = 8
# A process holds what is in flight, and pages that are not stored yet.
HELD = 3 * CONCURRENCY
EXPECTED = truth(WEB, read_sitemaps=True)


@dataclass
class Scene:
    """Two processes crawl the synthetic web."""

    redis: PrivateRedis
    web: DemoServer
    fleet: Fleet
    log: Path
    mongo_uri: str
    mongo_db_name: str
    processes: list[Process]
    expected: Truth = EXPECTED

    def start(self, **settings: Any) -> Process:
        process = self.fleet.start(SEED, arguments={"scope": "any"}, **settings)
        self.processes.append(process)
        return process

    def fetched(self) -> int:
        return self.log.read_text().count("\n") if self.log.exists() else 0

    def goes_on(self, fetches: int) -> None:
        """Wait for so many more fetches."""
        target = self.fetched() + fetches
        wait_until(lambda: self.fetched() >= target, what=f"{fetches} fetches")

    def ends(self, *processes: Process) -> None:
        for process in processes:
            assert process.wait() == 0, process.log
            assert "Traceback" not in process.log, process.log

    def leases_of(self, process: Process) -> int:
        """How many leases Redis has on record for a process."""
        with Redis.from_url(self.redis.url) as client:
            for owner, about in client.hgetall(keys.instances(TAGS[0])).items():
                if json.loads(about)["pid"] == process.pid:
                    return sum(client.hlen(keys.leases(tag, owner.decode())) for tag in TAGS)
        return 0

    def stop_at_work(self, process: Process) -> None:
        """Stop a process in the middle of fetches."""

        def stopped_with_leases() -> bool:
            process.send(signal.SIGSTOP)
            if self.leases_of(process) >= 2:
                return True
            process.send(signal.SIGCONT)
            return False

        wait_until(stopped_with_leases)

    def taken_back(self) -> int:
        """Leases of dead processes that went to others: the most that may be fetched again."""
        found = [re.findall(r"Took over (\d+) leases", process.log) for process in self.processes]
        return sum(int(number) for numbers in found for number in numbers)

    def verdict(self, repeats: int) -> Verdict:
        return judge(self.log, self.expected, min_delay_s=DELAY_S, allow_repeats=repeats)

    def check(self, repeats: int) -> None:
        # First: what still waits is not lost.
        left = sizes(self.redis.url)
        assert (left.unfinished, left.leased, left.owners) == (0, 0, 0), self.processes[-1].log
        # Its log is complete when it has ended.
        self.web.stop()
        verdict = self.verdict(repeats)
        assert verdict.ok, "\n".join(verdict.lines())
        with pymongo.MongoClient[dict[str, Any]](self.mongo_uri) as client:
            pages = client[self.mongo_db_name]
            kept = {page["page_id"] for page in pages["pages_content"].find()}
            stored = [
                page["url"] for page in pages["pages_metadata"].find() if page["url_hash"] in kept
            ]
        assert not self.expected.missing_from(stored)
        assert set(stored) <= self.expected.must_store


@pytest.fixture
def scene(tmp_path: Path, mongo_uri: str, mongo_db_name: str) -> Iterator[Scene]:
    log = tmp_path / "access.log"
    with PrivateRedis() as redis, DemoServer(WEB, log, arguments=("--latency=0.02",)) as web:
        crawls = Crawls(tmp_path, redis.url, mongo_uri, mongo_db_name)
        settings = {
            "DELAY_MIN": DELAY_S + 0.01,
            "LEASE_TTL": LEASE_TTL_S,
            "CONCURRENT_REQUESTS": CONCURRENCY,
        }
        with Fleet(crawls, web, **settings) as fleet:
            yield Scene(redis, web, fleet, log, mongo_uri, mongo_db_name, [])


def test_processes_that_are_killed_again_and_again(scene: Scene) -> None:
    chance = random.Random(7)
    kills = 4
    steady, victim = scene.start(), scene.start()
    scene.goes_on(10)
    for _ in range(kills):
        scene.goes_on(chance.randint(5, 40))
        time.sleep(chance.random() * 0.05)
        victim.kill()
        victim = scene.start()
    scene.ends(steady, victim)
    assert scene.taken_back() <= kills * HELD
    scene.check(repeats=scene.taken_back())


def test_a_process_that_is_stopped_for_longer_than_its_lease(scene: Scene) -> None:
    first, second = scene.start(), scene.start()
    scene.goes_on(20)
    scene.stop_at_work(first)
    second.says(r"Took over \d+ leases of processes that died")
    first.send(signal.SIGCONT)
    first.says("continues under a new name|Spider closed")
    scene.ends(first, second)
    scene.check(repeats=scene.taken_back())


def test_a_redis_that_is_killed_and_started_again(scene: Scene) -> None:
    first, second = scene.start(), scene.start()
    scene.goes_on(40)
    scene.redis.kill()
    for process in (first, second):
        process.says("Redis is away")
    scene.redis.start()
    for process in (first, second):
        process.says("Redis restarted or failed over")
    scene.ends(first, second)
    # What was held at that moment is crawled again: its links may be among what is lost.
    scene.check(repeats=2 * HELD)


def test_a_process_that_is_stopped_while_redis_is_away(scene: Scene) -> None:
    process = scene.start()
    scene.goes_on(40)
    scene.redis.kill()
    process.says("Redis is away")
    process.send(signal.SIGTERM)
    # Not for ever: whoever stopped it waits.
    process.says("what was not sent comes back when this process is found dead")
    process.wait()
    assert "Traceback" not in process.log, process.log
    scene.redis.start()
    scene.ends(scene.start())
    scene.check(repeats=2 * HELD)


def test_a_redis_that_comes_back_without_its_last_second(scene: Scene) -> None:
    first, second = scene.start(), scene.start()
    scene.goes_on(40)
    remembered, cut = scene.redis.written_bytes, time.time()
    # The fault itself: a second of writes that the disk never got.
    time.sleep(1)
    scene.redis.kill()
    scene.redis.lose_writes_after(remembered)
    scene.redis.start()
    for process in (first, second):
        # A process may have begun in that second.
        process.says("Redis restarted or failed over|continues under a new name")
    lost = sum(entry.start_s > cut - 0.5 for entry in read_log(scene.log))
    scene.ends(first, second)
    scene.check(repeats=lost + 2 * HELD)


# --- a Redis that lost more than its last second --------------------------------------------------


def test_a_redis_that_lost_the_whole_young_crawl(scene: Scene) -> None:
    # As when it dies within a second of the crawl's first write.
    first, second = scene.start(), scene.start()
    scene.goes_on(20)
    with Redis.from_url(scene.redis.url) as client:
        client.flushall()
    for process in (first, second):
        process.says("continues under a new name")
    scene.ends(first, second)
    # All that was done is done again.
    scene.check(repeats=10_000)


def test_a_redis_that_lost_more_than_processes_can_repeat(scene: Scene) -> None:
    # A slow crawl: it is older than what a process can add again.
    process = scene.start(DELAY_MIN=1.0)
    with Redis.from_url(scene.redis.url) as client:
        created_ms = wait_until(lambda: int(client.hget(keys.stats(TAGS[0]), "epoch") or 0))
        wait_until(lambda: _time_ms(client) > created_ms + 1000 * (KEPT_S + 3), what="it is old")
        client.flushall()
    assert process.wait() == ExitCode.DATA_LOST, process.log
    assert "Redis has lost at least the last" in process.log
    assert "scrapy frontier rebuild --crawl web" in process.log
    assert "Traceback" not in process.log, process.log
    # Nobody begins it anew by mistake, as a service that starts its processes again.
    again = scene.start()
    assert again.wait() == ExitCode.DATA_LOST, again.log
    scene.fleet.start(SEED, arguments={"scope": "any"}, options=("--fresh", "--yes")).wait()
    scene.check(repeats=10_000)


def _time_ms(client: Redis) -> float:
    seconds, micros = client.time()
    return seconds * 1000 + micros / 1000
