"""A crawl that may open few files, or runs out of them, fetches less and blames nobody."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from demo.access_log import read_log
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.acceptance.fleets import Fleet
from tests.support.waiting import wait_until

SEED = "http://s0.test/"
WEB = WebOptions(hosts=40, pages=5, seed=2, zoo="none")
SCOPE = {"scope": "any"}
# Slow enough that all hosts are fetched from at the same time.
SLOW = ("--latency=0.1",)


def check_nobody_is_blamed(summary: Path, log: str) -> None:
    found = json.loads(summary.read_text(encoding="utf-8"))
    assert (found["this_run"]["retries"], found["this_run"]["dead"]) == ({}, {})
    assert found["whole_crawl"]["unfinished"] == 0
    for text in ("Traceback", "times in a row", "No robots.txt rules", "DNS does not answer"):
        assert text not in log, log


def missing(log: Path) -> list[str]:
    """Pages that were not fetched."""
    return judge(log, truth(WEB), min_delay_s=0.0).violations["missing"]


@pytest.mark.slow
def test_a_low_limit_means_fewer_fetches_at_a_time(tmp_path: Path, redis_url: str) -> None:
    crawls, log = Crawls(tmp_path, redis_url), tmp_path / "access.log"
    with DemoServer(WEB, log, arguments=SLOW) as web:
        command = crawls.command(SEED, web=web, arguments=SCOPE, settings={"CRAWL": "low"})
        limited = ["sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", sys.executable, "-m", "scrapy"]
        done = subprocess.run(
            [*limited, *command],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "Only 64 files may be open and 2278 are needed: 5 fetches run at a time" in done.stderr
    check_nobody_is_blamed(tmp_path / "summary.json", done.stderr)
    assert not missing(log)


@pytest.mark.slow
def test_running_out_of_files_costs_no_url_an_attempt_and_opens_no_breaker(
    tmp_path: Path, redis_url: str
) -> None:
    log = tmp_path / "access.log"
    settings = {"CRAWL": "out", "DOWNLOAD_KEEPALIVE_HOSTS": 8}
    with (
        DemoServer(WEB, log, arguments=SLOW) as web,
        Fleet(Crawls(tmp_path, redis_url), web, **settings) as fleet,
    ):
        process = fleet.start(SEED, arguments=SCOPE)
        wait_until(
            lambda: log.exists() and len(list(read_log(log))) > 20, what="a fetch of 20 pages"
        )
        open_now = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        _, most = limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (open_now // 2, most))
        process.says("has no file descriptor left")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
        assert process.wait() == 0, process.log
    assert process.log.count("has no file descriptor left") == 1
    check_nobody_is_blamed(tmp_path / "process-0.json", process.log)
    assert not missing(log)
