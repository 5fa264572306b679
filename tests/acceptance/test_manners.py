"""A fleet on the whole zoo of the synthetic web burdens no host, and a rude one is found out."""

from pathlib import Path
from typing import Any

import pytest

from demo.judge import Verdict, judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet

SEED = "http://s0.test/"
DELAY_S = 0.05
ZOO = WebOptions(hosts=64, pages=3, seed=3, zoo="full")
# All times are a fraction of what they are on the real web.
QUICK: dict[str, Any] = {
    "DELAY_MIN": DELAY_S + 0.01,
    "DELAY_FACTOR": 1,
    "DELAY_MAX": 1,
    "CRAWL_DELAY_MAX": 2,
    "ROBOTS_ERROR_TTL": 0.5,
    "RETRY_BASE": 0.3,
    "RETRY_TIMES": 2,
    "OVERLOAD_REST": 0.2,
    "OVERLOAD_FORGIVEN": 0,
    "BREAKER_REST": 0.5,
    "DOWNLOAD_TIMEOUT": 8,
    "CRAWL_MAX_WAIT": 4,
}


def crawl(
    tmp_path: Path, redis_url: str, options: WebOptions, processes: int, **settings: Any
) -> Verdict:
    log = tmp_path / "access.log"
    with (
        # Long enough for requests to meet, if they may.
        DemoServer(options, log, arguments=("--latency=0.02",)) as server,
        Fleet(Crawls(tmp_path, redis_url), server, **{**QUICK, **settings}) as fleet,
    ):
        arguments = {"scope": "any"}
        started = [fleet.start(SEED, arguments=arguments) for _ in range(processes)]
        for process in started:
            assert process.wait(100) == 0, process.log
            assert "Traceback" not in process.log, process.log
    return judge(log, truth(options), min_delay_s=DELAY_S)


@pytest.mark.slow
def test_three_processes_are_polite_to_every_kind_of_host(tmp_path: Path, redis_url: str) -> None:
    verdict = crawl(tmp_path, redis_url, ZOO, 3)
    wrong = dict(verdict.violations)
    # What waits longer than this run is left for the next, as the host with the long crawl-delay.
    unfinished = wrong.pop("missing")
    assert not any(wrong.values()), "\n".join(verdict.lines())
    waiting = {"http://" + host for host, s in truth(ZOO).crawl_delays_s.items() if s > 2}
    assert all(line.startswith(tuple(waiting)) for line in unfinished), unfinished
    assert verdict.requests > 300


@pytest.mark.slow
def test_a_rude_crawl_is_found_out(tmp_path: Path, redis_url: str) -> None:
    options = WebOptions(hosts=16, pages=6, seed=3, zoo="demo")
    verdict = crawl(
        tmp_path,
        redis_url,
        options,
        1,
        HOST_PARALLELISM=10,
        DELAY_MIN=0,
        DELAY_FACTOR=0,
        DOWNLOADER_MIDDLEWARES='{"crawler.middlewares.robots.Robots": null}',
    )
    broken = {rule for rule, found in verdict.violations.items() if found}
    assert {"forbidden", "overlap", "too_soon", "robots_first"} <= broken, verdict.lines()
