"""`scrapy fleet`: several processes as one, one of them killed, all of them stopped."""

import json
import os
import signal
from collections import Counter
from pathlib import Path

from crawler.errors import ExitCode
from demo.access_log import read_log
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls, scrapy
from tests.acceptance.fleets import Process, sizes
from tests.support.cluster import RedisProcess
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=24, pages=6, seed=6, zoo="none")


def command(crawls: Crawls, web: DemoServer, **more: object) -> list[str]:
    settings = crawls.settings(web) | {"PROGRESS": "plain", "PROGRESS_INTERVAL": 0.5} | more
    given = [word for item in settings.items() for word in ("-s", f"{item[0]}={item[1]}")]
    return ["fleet", "web", "-n", "4", "-a", "seeds=http://s0.test/", "-a", "scope=any", *given]


def test_a_fleet_that_loses_a_member_starts_it_again_and_completes_the_crawl(
    tmp_path: Path, redis_url: str
) -> None:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log, arguments=("--latency=0.05",)) as web:
        crawls = Crawls(tmp_path, redis_url)
        # The crawl waits for more, so that the members are there as long as the test needs them.
        fleet = Process(
            command(crawls, web, CRAWL_IDLE="wait", LEASE_TTL=2), tmp_path / "fleet.log"
        )
        try:
            fleet.says("4 of 4 processes run", timeout_s=90)
            fleet.says(
                "Dashboard and admin API of the crawl 'web': http://127.0.0.1:", timeout_s=90
            )
            pid = _pid_of(tmp_path, 3)
            os.kill(pid, signal.SIGKILL)
            fleet.says("process 3 ended by SIGKILL, starts again in 1 s", timeout_s=90)
            fleet.says("process 3 runs again", timeout_s=90)
            fleet.says(f"whole crawl: {len(truth(WEB).must_store):,} pages", timeout_s=90)
            fleet.send(signal.SIGINT)
            assert fleet.wait(90) == 0, fleet.log
        finally:
            fleet.kill()
    assert "1 restart; " in fleet.log
    assert "finished: nothing is left to crawl" in fleet.log
    left = sizes(redis_url)
    # The one that was killed may still be in the list of processes if it held no lease.
    assert (left.unfinished, left.leased, left.dead) == (0, 0, 0)
    fetched = Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")
    assert not truth(WEB).missing_from(fetched)


def test_a_fresh_start_is_made_once_and_not_by_each_process(tmp_path: Path, redis_url: str) -> None:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log) as web:
        crawls = Crawls(tmp_path, redis_url)
        assert crawls.run("http://s0.test/", web=web, arguments={"scope": "any"}).code == 0
        arguments = [*command(crawls, web, CRAWL_IDLE="wait", LEASE_TTL=2), "--fresh", "--yes"]
        fleet = Process(arguments, tmp_path / "fleet.log")
        all_pages = f"whole crawl: {len(truth(WEB).must_store):,} pages"
        try:
            fleet.says(all_pages, timeout_s=90)
            fleet.says("4 of 4 processes run", timeout_s=90)
            os.kill(_pid_of(tmp_path, 1), signal.SIGKILL)
            fleet.says("process 1 runs again", timeout_s=90)
            # It has given its seeds again.
            first = tmp_path / "crawl" / "fleet" / "web" / "process-1.log"
            wait_until(lambda: first.read_text().count("Spider opened") == 2, what="a second start")
            fleet.send(signal.SIGINT)
            assert fleet.wait(90) == 0, fleet.log
        finally:
            fleet.kill()
    fetched = Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")
    assert set(fetched.values()) == {2}


def test_processes_that_find_no_redis_start_again_until_it_is_back(
    tmp_path: Path, redis_process: RedisProcess
) -> None:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log, arguments=("--latency=0.05",)) as web:
        crawls = Crawls(tmp_path, redis_process.url)
        words = command(crawls, web, CRAWL_IDLE="wait", LEASE_TTL=2)
        fleet = Process(words, tmp_path / "fleet.log")
        try:
            fleet.says("4 of 4 processes run", timeout_s=90)
            redis_process.kill()
            for number in (2, 3):
                os.kill(_pid_of(tmp_path, number), signal.SIGKILL)
            for number in (2, 3):
                away = f"process {number} exited with 3: a server is away, starts again in"
                fleet.says(away, timeout_s=90)
            redis_process.start()
            for number in (2, 3):
                fleet.says(
                    rf"process {number} exited with 3[\s\S]*process {number} runs again",
                    timeout_s=90,
                )
            fleet.says(f"whole crawl: {len(truth(WEB).must_store):,} pages", timeout_s=90)
            fleet.send(signal.SIGINT)
            assert fleet.wait() == ExitCode.DONE, fleet.log
        finally:
            fleet.kill()
    assert "given up:" not in fleet.log
    left = sizes(redis_process.url)
    assert (left.unfinished, left.leased, left.dead) == (0, 0, 0)
    fetched = Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")
    assert not truth(WEB).missing_from(fetched)


def test_a_fleet_waits_for_redis_as_long_as_it_was_told(
    tmp_path: Path, redis_process: RedisProcess
) -> None:
    with DemoServer(WEB, tmp_path / "access.log") as web:
        crawls = Crawls(tmp_path, redis_process.url)
        words = command(crawls, web, CRAWL_IDLE="wait", REDIS_GIVE_UP=1)
        fleet = Process(words, tmp_path / "fleet.log")
        try:
            fleet.says("4 of 4 processes run", timeout_s=90)
            redis_process.kill()
            assert fleet.wait() == ExitCode.SERVER_AWAY, fleet.log
        finally:
            fleet.kill()
    assert "exited with 3: a server was away for" in fleet.log


def _pid_of(folder: Path, number: int) -> int:
    """Of the process that writes this log: its own children have other files."""
    wanted = (folder / "crawl" / "fleet" / "web" / f"process-{number}.log").resolve()
    for process in Path("/proc").iterdir():
        output = process / "fd" / "1"
        try:
            if process.name.isdigit() and output.resolve() == wanted:
                return int(process.name)
        except OSError:
            continue
    raise AssertionError(f"The process {number} is not there")


def test_mistakes_are_told_before_anything_starts(tmp_path: Path, redis_url: str) -> None:
    for arguments, text in (
        ((), "give the name of one spider"),
        (("web", "-n", "0"), "'0' is no number from 1 to 256"),
        (("wbe",), "There is no spider 'wbe'; there are: web."),
        (("web", "-a", "seeds"), "-a seeds has no value"),
        (("web", "-a", "seeds=-"), "seeds=- is standard input"),
        (("web", "-s", "DELAY_MIN=x"), "DELAY_MIN is 'x'"),
    ):
        run = scrapy("fleet", *arguments, "-s", f"REDIS_URL={redis_url}")
        assert run.code == 2
        assert text in run.stdout + run.stderr
        assert "Traceback" not in run.stderr


def test_a_mistake_that_only_the_crawl_finds_ends_the_fleet(tmp_path: Path, redis_url: str) -> None:
    settings = [f"REDIS_URL={redis_url}", f"CRAWL_DIR={tmp_path}", "SINKS=none"]
    given = [word for setting in settings for word in ("-s", setting)]
    old = tmp_path / "fleet" / "web" / "process-1.log"
    old.parent.mkdir(parents=True)
    old.write_text("why it crashed")
    run = scrapy("fleet", "web", "-n", "2", "-a", "scope=galaxy", "--json", *given)
    assert run.code == ExitCode.MISTAKE
    assert "scope is 'galaxy'" in run.stderr
    result = json.loads(run.stdout)
    assert (result["pages"], result["processes"][0]["state"]) == (0, "given up")
    assert "scope is 'galaxy'" in old.read_text()
    assert old.with_suffix(".log.1").read_text() == "why it crashed"
