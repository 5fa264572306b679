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


async def bury_one(redis_url: str, crawl: str = "web") -> None:
    redis = await connect(redis_url)
    frontier = Frontier(redis, crawl)
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


def test_a_crawl_that_does_not_exist_is_named_beside_those_that_do(redis_url: str) -> None:
    answer = scrapy_frontier(redis_url, "dead", "--crawl", "nothing")
    assert answer.returncode == 1
    told = "scrapy frontier: There is no crawl 'nothing' in this Redis. There are: "
    assert answer.stderr.strip() == f"{told}none."
    asyncio.run(bury_one(redis_url, "maps"))
    assert scrapy_frontier(redis_url, "dead", "--crawl", "nothing").stderr == f"{told}maps.\n"


def test_the_only_crawl_need_not_be_named(redis_url: str) -> None:
    assert "There is no crawl in this Redis" in scrapy_frontier(redis_url, "status").stderr
    asyncio.run(bury_one(redis_url, "maps"))
    status = scrapy_frontier(redis_url, "status")
    assert status.returncode == 0, status.stderr
    assert status.stdout.splitlines()[0].split() == ["crawl", "maps"]
    assert "Other crawls" not in status.stdout
    assert URL in scrapy_frontier(redis_url, "dead").stdout
    # What cannot be undone is never done to a crawl that nobody named.
    deletion = scrapy_frontier(redis_url, "delete", "--yes")
    assert deletion.returncode == 1
    assert "There is no crawl 'web' in this Redis. There are: maps." in deletion.stderr


def test_of_several_crawls_one_has_to_be_named(redis_url: str) -> None:
    for crawl in ("news", "maps"):
        asyncio.run(bury_one(redis_url, crawl))
    status = scrapy_frontier(redis_url, "status")
    assert status.returncode == 2
    assert status.stderr == "scrapy frontier: Name one of the crawls by --crawl: maps, news.\n"
    assert scrapy_frontier(redis_url, "status", "-s", "CRAWL=maps").returncode == 0
    # The crawl of the spider web is meant where it is one of them.
    asyncio.run(bury_one(redis_url))
    status = scrapy_frontier(redis_url, "status")
    assert status.stdout.splitlines()[0].split() == ["crawl", "web"]
    assert "Other crawls here, by --crawl NAME: maps, news" in status.stdout
    named = scrapy_frontier(redis_url, "status", "--crawl", "maps").stdout
    assert "Other crawls" not in named
