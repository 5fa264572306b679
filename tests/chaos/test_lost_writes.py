"""A Redis that dies early in a crawl and comes back with a part of its file.

Whatever was lost, a process that ends with success has left nothing out, and one that has left
something out ends with an error. `make storm` tries 50 moments and places.
"""

import os
import random
import re
import time
from pathlib import Path

import pytest
from redis import Redis

from crawler.errors import ExitCode
from demo.judge import judge
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, sizes
from tests.support.private_redis import PrivateRedis
from tests.support.waiting import wait_until

IS_STORM = bool(os.environ.get("STORM"))
# The crawl is not over at the last moment, but for a few trials.
WEB = WebOptions(hosts=24, pages=24 if IS_STORM else 9, seed=4, zoo="none")
DELAY_S = 0.4 if IS_STORM else 0.2
TRIALS = 50 if IS_STORM else 3
MOMENT_MAX_S = 10.0 if IS_STORM else 2.0
SEED = "http://s0.test/"
# What a process says at its end. One may still have been starting.
TOLD = {
    ExitCode.DONE: r"Spider closed \(finished\)",
    ExitCode.SERVER_AWAY: "does not answer|accepts no commands now",
    ExitCode.DATA_LOST: "Redis has lost at least the last",
}


@pytest.mark.parametrize("trial", range(TRIALS))
def test_no_crawl_ends_with_success_and_less(tmp_path: Path, trial: int) -> None:
    chance = random.Random(trial)
    log = tmp_path / "access.log"
    with PrivateRedis() as redis:
        with DemoServer(WEB, log, arguments=("--latency=0.02",)) as web:
            crawls = Crawls(tmp_path, redis.url)
            settings = {"DELAY_MIN": DELAY_S, "LEASE_TTL": 2.0, "CONCURRENT_REQUESTS": 8}
            with Fleet(crawls, web, **settings) as fleet:
                processes = [
                    fleet.start(SEED, arguments={"scope": "any"}) for _ in range(1 + trial % 2)
                ]
                with Redis.from_url(redis.url) as client:
                    wait_until(lambda: client.exists("{web}:crawl"), what="the first write")
                # The first trial dies within the first second, which may all be lost.
                moment_s = chance.random() * (MOMENT_MAX_S if trial else 0.5)
                time.sleep(moment_s)
                is_over = not any(process.running for process in processes)
                redis.kill()
                left = 0 if not trial else chance.randrange(redis.written_bytes + 1)
                redis.lose_writes_after(left)
                redis.start()
                codes = [process.wait() for process in processes]
        told = f"after {moment_s:.2f} s, {left} bytes left: {codes}\n{processes[0].log}"
        for process, code in zip(processes, codes, strict=True):
            assert "Traceback" not in process.log, told
            assert re.search(TOLD[ExitCode(code)], process.log), told
        if 0 in codes:
            assert is_over or sizes(redis.url).unfinished == 0, told
            verdict = judge(log, truth(WEB, read_sitemaps=True), min_delay_s=DELAY_S)
            assert verdict.violations["missing"] == [], told
            assert verdict.violations["too_soon"] == [], told
