"""URLs that end in their last failed attempt, fetched far from Redis: every host has its delay."""

import json
from pathlib import Path

from chaos.proxy import Proxy
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Fleet, sizes
from tests.chaos.failing_web import FailingWeb
from tests.support.private_redis import PrivateRedis

URLS = 2000
PAGES = 8
PROCESSES = 3
DELAY_S = 0.05
LATENCY_S = 0.02


def test_hosts_have_their_delay_after_the_last_attempts_of_a_fleet_far_from_redis(
    tmp_path: Path,
) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("".join(f"http://h{n}.test/\n" for n in range(URLS // PAGES)))
    settings = {
        "DELAY_MIN": DELAY_S,
        "RETRY_TIMES": 0,
        "CRAWL_MAX_WAIT": 60,
    }
    with PrivateRedis() as redis, FailingWeb(PAGES, DELAY_S) as web:
        with Proxy(redis.socket_path, latency_s=LATENCY_S) as line:
            crawls = Crawls(tmp_path, f"redis://127.0.0.1:{line.port}/0")
            there = DemoServer(WebOptions(), port=web.port)
            with Fleet(crawls, there, **settings) as fleet:
                processes = [fleet.start(str(seeds)) for _ in range(PROCESSES)]
                for process in processes:
                    assert process.wait(900) == 0, process.log
        left = sizes(redis.url)
    assert (left.unfinished, left.dead) == (0, URLS)
    assert len(web.attempts) == URLS
    assert set(web.attempts.values()) == {1}
    too_soon = web.too_soon()
    assert too_soon == [], json.dumps(too_soon[:20], indent=1)
