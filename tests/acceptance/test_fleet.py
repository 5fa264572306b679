"""Several processes on one Redis crawl together as politely as one."""

import json
import os
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis as redis_client

from crawler.discovery.pushed import PushedReader
from crawler.errors import ExitCode
from crawler.frontier import Added, Entry, Frontier, keys
from crawler.frontier.frontier import tags
from crawler.frontier.start_urls import StartUrls
from crawler.scheduling.intake import Intake
from crawler.servers.redis.connection import connect
from crawler.storage.spill import FileSpill
from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import Web, WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, sizes
from tests.support.cluster import RedisProcess
from tests.support.waiting import wait_until

DELAY_S = 0.05
SEED = "http://s0.test/"
SMALL = WebOptions(hosts=4, pages=5, seed=2, zoo="none")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "access.log"


def pages(log: Path) -> Counter[str]:
    """How often each URL was fetched, robots.txt left out."""
    if not log.exists():
        return Counter()
    return Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")


def summary(tmp_path: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / f"process-{number}.json").read_text())
    return found


def test_three_processes_crawl_a_web_once_and_never_burden_a_host_together(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=40, pages=8, seed=4, zoo="demo")
    with (
        DemoServer(options, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, DELAY_MIN=DELAY_S + 0.01) as fleet,
    ):
        arguments = {"scope": "any"}
        processes = [fleet.start(SEED, arguments=arguments) for _ in range(3)]
        for process in processes:
            assert process.wait() == 0, process.log
            assert "Traceback" not in process.log
    verdict = judge(log, truth(options, read_sitemaps=True), min_delay_s=DELAY_S)
    assert verdict.ok, "\n".join(verdict.lines())
    took_part = [summary(tmp_path, number)["this_run"]["hosts"] for number in range(3)]
    assert sum(hosts > 0 for hosts in took_part) >= 2
    left = sizes(redis_url)
    assert (left.unfinished, left.owners) == (0, 0)


def test_the_fleet_together_crawls_exactly_max_pages(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=24, pages=6, seed=4, zoo="none")
    with DemoServer(options, log) as web, Fleet(Crawls(tmp_path, redis_url), web) as fleet:
        arguments = {"scope": "any", "max_pages": 33}
        processes = [fleet.start(SEED, arguments=arguments) for _ in range(2)]
        for process in processes:
            assert process.wait() == 0, process.log
    assert sizes(redis_url).pages == 33
    assert sum(pages(log).values()) == 33
    assert {summary(tmp_path, number)["reason"] for number in range(2)} == {"max_pages"}


def test_a_process_changes_options_for_the_whole_fleet_and_says_so(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    with (
        DemoServer(SMALL, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, CRAWL_IDLE="wait", LEASE_TTL=2) as fleet,
    ):
        first = fleet.start(SEED, arguments={"scope": "any", "max_depth": 1})
        wait_until(lambda: pages(log))
        second = fleet.start(arguments={"max_depth": 2})
        second.says(r"max_depth is now 2 for every process of this crawl \(it was 1\)")
        first.says("max_depth was changed to 2")
        for process in (first, second):
            process.send(signal.SIGINT)
            assert process.wait() == 0


def test_a_process_that_waits_takes_in_what_others_push(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    with (
        redis_client.Redis.from_url(redis_url) as client,
        DemoServer(SMALL, log) as web,
        Fleet(Crawls(tmp_path, redis_url), web, CRAWL_IDLE="wait") as fleet,
    ):
        process = fleet.start(arguments={"scope": "host"})
        # It has looked for the end more than once when it has beaten twice.
        beats: set[float] = set()
        owners = keys.owners(tags("web", 4)[0])

        def has_beaten_twice() -> bool:
            beats.update(at for _, at in client.zrange(owners, 0, -1, withscores=True))
            return len(beats) > 1

        wait_until(has_beaten_twice)
        assert process.running
        posted = '{"url": "http://s2.test/", "method": "POST"}'
        client.lpush("web:start_urls", "http://s1.test/", "nonsense", posted)
        wait_until(lambda: {"http://s1.test/", "http://s2.test/"} <= set(pages(log)))
        assert client.llen("web:start_urls") == 0
        assert "'nonsense' was left out: it is no URL" in process.log
        assert "of JSON only the url is taken, and fetched by GET; left out: method" in process.log
        client.lpush("web:start_urls", "http://s1.test/")
        wait_until(
            lambda: "1 of 1 URLs are known to this crawl, and not fetched again" in process.log
        )
        process.send(signal.SIGINT)
        assert process.wait() == 0
    found = summary(tmp_path, 0)["this_run"]
    assert (found["seeds_pushed"], found["seeds_added"]) == (2, 2)


async def test_pushed_seeds_stay_in_their_list_until_the_frontier_has_them(redis_url: str) -> None:
    redis = await connect(redis_url)
    await redis.lpush("web:start_urls", "http://a.test/")

    async def fail(entries: Sequence[Entry], mode: str) -> Added:
        assert [entry.url for entry in entries] == ["http://a.test/"]
        raise ConnectionError

    key = "web:start_urls"
    unused = FileSpill(Path("unused"), None, max_bytes=0)
    outside = Intake(Frontier(redis, "web"), StartUrls(redis, key), PushedReader(key), fail, unused)
    with pytest.raises(ConnectionError):
        await outside.take_in()
    assert await redis.llen("web:start_urls") == 1
    await redis.aclose()


def test_crawls_of_other_names_know_nothing_of_each_other(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    expected = truth(SMALL).must_fetch
    with DemoServer(SMALL, log) as web, Fleet(Crawls(tmp_path, redis_url), web) as fleet:
        for name in ("one", "other", "one"):
            process = fleet.start(SEED, arguments={"scope": "any", "crawl": name})
            assert process.wait() == 0, process.log
    # The third run found its crawl finished.
    assert pages(log) == dict.fromkeys(expected, 2)
    assert summary(tmp_path, 2)["nothing_to_do"]
    assert "Nothing was crawled: the crawl 'one' was finished before" in process.log
    for name in ("one", "other"):
        assert sizes(redis_url, name).pages == len(expected)


def test_a_run_ends_when_all_that_is_left_waits_too_long_and_keeps_it(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    options = WebOptions(hosts=64, pages=4, seed=1, zoo="full")
    broken = next(Web(options).hosts_with("error_500")).host
    crawls = Crawls(tmp_path, redis_url)
    with DemoServer(options, log) as web, Fleet(crawls, web, CRAWL_MAX_WAIT=2) as fleet:
        process = fleet.start(f"http://{broken}/,{SEED}", arguments={"scope": "host"})
        assert process.wait() == 0, process.log
    found = summary(tmp_path, 0)
    assert found["reason"] == "waiting"
    assert 200 < found["waits_s"] < 400
    assert "1 URL waits, the earliest until" in found["why"]
    # For those who see no summary.
    assert "URLs left: 1. The earliest waits" in process.log
    assert not any(url.startswith(f"http://{broken}/") for url in pages(log))
    left = sizes(redis_url)
    assert (left.waiting, left.leased, left.owners) == (1, 0, 0)


def _writer_of(pipe: Path) -> int:
    def opened() -> int | None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    writer: int = wait_until(opened, what="a reader of the seeds")
    return writer


def test_a_process_that_waits_for_its_seeds_can_be_stopped(
    tmp_path: Path, redis_url: str, log: Path
) -> None:
    pipe = tmp_path / "seeds"
    os.mkfifo(pipe)
    with DemoServer(SMALL, log) as web, Fleet(Crawls(tmp_path, redis_url), web) as fleet:
        process = fleet.start(str(pipe))
        # There is a reader when the spider was opened and asks for its seeds.
        writer = _writer_of(pipe)
        process.send(signal.SIGINT)
        # The thread that reads them never ends.
        assert process.wait() == 0
        os.close(writer)
        assert "Traceback" not in process.log


def test_a_process_that_gave_up_on_redis_exits_as_one_without_its_server(
    tmp_path: Path, redis_process: RedisProcess, log: Path
) -> None:
    options = WebOptions(hosts=12, pages=30, seed=2, zoo="none")
    crawls = Crawls(tmp_path, redis_process.url)
    with DemoServer(options, log) as web, Fleet(crawls, web, REDIS_GIVE_UP=0.5) as fleet:
        process = fleet.start(SEED, arguments={"scope": "any"})
        wait_until(lambda: len(pages(log)) > 5)
        redis_process.kill()
        process.says("Redis is away")
        assert process.wait() == ExitCode.SERVER_AWAY, process.log
