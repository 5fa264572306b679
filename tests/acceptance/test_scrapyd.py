"""The project as scrapyd runs it: from an egg, as jobs that share one Redis."""

from collections import Counter
from pathlib import Path

import redis as redis_client

from crawler.errors import CrawlerError
from demo.access_log import read_log
from demo.process import DemoServer
from demo.truth import truth
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import sizes
from tests.acceptance.scrapyds import Scrapyd
from tests.support.waiting import wait_until

WEB = WebOptions(hosts=16, pages=6, seed=6, zoo="none")


def instances(redis_url: str) -> int:
    try:
        return sizes(redis_url).owners
    except CrawlerError:
        # No job has begun yet.
        return 0


def test_of_two_jobs_one_is_cancelled_and_the_other_finishes_all(
    tmp_path: Path, redis_url: str
) -> None:
    log = tmp_path / "access.log"
    with DemoServer(WEB, log) as web, Scrapyd(tmp_path) as scrapyd:
        scrapyd.deploy()
        assert scrapyd.spiders() == ["web"]
        # They wait for seeds, so that both are there before the first fetch.
        settings = Crawls(tmp_path, redis_url).settings(web) | {"CRAWL_IDLE": "wait"}
        first, second = (scrapyd.schedule({"scope": "any"}, settings) for _ in range(2))
        wait_until(lambda: instances(redis_url) == 2, deadline_s=60, what="two jobs")
        with redis_client.Redis.from_url(redis_url) as client:
            client.lpush("web:start_urls", "http://s0.test/")
        wait_until(lambda: sizes(redis_url).pages > 0, deadline_s=60, what="a page")
        scrapyd.cancel(first)
        wait_until(
            lambda: first in scrapyd.jobs("finished"), deadline_s=60, what="the first job's end"
        )
        wait_until(lambda: not missing(log), deadline_s=60, what="the last page")
        wait_until(
            lambda: not sizes(redis_url).unfinished, deadline_s=60, what="the end of the crawl"
        )
        assert second in scrapyd.jobs("running")
        scrapyd.cancel(second)
        wait_until(
            lambda: second in scrapyd.jobs("finished"), deadline_s=60, what="the second job's end"
        )
        for job in (first, second):
            assert "Spider closed (shutdown)" in scrapyd.log(job)
            assert "Traceback" not in scrapyd.log(job)
    left = sizes(redis_url)
    assert (left.unfinished, left.leased, left.dead, left.owners) == (0, 0, 0, 0)
    # What the first job had in flight ended, what it had not begun was handed back.
    assert set(fetches(log).values()) == {1}


def fetches(log: Path) -> Counter[str]:
    return Counter(entry.url for entry in read_log(log) if entry.target != "/robots.txt")


def missing(log: Path) -> bool:
    return bool(truth(WEB).missing_from(fetches(log)))
