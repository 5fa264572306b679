"""`scrapy frontier dead` and `requeue` on a real Redis."""

import asyncio
import os
import subprocess
import sys

from crawler.frontier import Entry, Frontier
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint

URL = "http://a.test/page"


def scrapy_frontier(redis_url: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", *args],
        env={**os.environ, "REDIS_URL": redis_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def bury_one(redis_url: str) -> None:
    redis = await connect(redis_url)
    frontier = Frontier(redis, "web")
    await frontier.open()
    await frontier.add([Entry(id=fingerprint(URL), url=URL)])
    claim = await frontier.claim(1, "r1")
    await frontier.bury([(claim.leases[0], "private_address")])
    await frontier.leave()
    await redis.aclose()


async def waiting(redis_url: str) -> int:
    redis = await connect(redis_url)
    sizes = await Frontier(redis, "web").sizes()
    await redis.aclose()
    return sizes.waiting


def test_dead_letters_are_listed_and_get_another_life(redis_url: str) -> None:
    asyncio.run(bury_one(redis_url))
    listed = scrapy_frontier(redis_url, "dead")
    assert listed.returncode == 0, listed.stderr
    assert "private_address" in listed.stdout
    assert URL in listed.stdout
    assert "0 of the dead" in scrapy_frontier(redis_url, "requeue", "--reason", "timeout").stdout
    assert "1 of the dead" in scrapy_frontier(redis_url, "requeue", "--host", "a.test").stdout
    assert asyncio.run(waiting(redis_url)) == 1


def test_a_crawl_that_does_not_exist_is_named(redis_url: str) -> None:
    answer = scrapy_frontier(redis_url, "dead", "--crawl", "nothing")
    assert answer.returncode == 1
    assert answer.stderr.strip() == (
        "scrapy frontier: There is no crawl 'nothing' in this Redis. "
        "`scrapy frontier crawls` lists those that are."
    )
