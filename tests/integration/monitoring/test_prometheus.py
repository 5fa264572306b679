"""The fleet's metrics come from a real Redis, and its absence is told."""

import pytest

from crawler.errors import CrawlerError
from crawler.frontier import Entry, Frontier
from crawler.monitoring.ledger import Ledger
from crawler.monitoring.prometheus import Sheet, add_fleet
from crawler.servers.redis.connection import connect
from crawler.urls import fingerprint
from tests.support.private_redis import PrivateRedis


@pytest.mark.parametrize(("server", "shards"), [("redis_url", 1), ("redis_cluster_url", 4)])
async def test_any_process_reads_the_metrics_of_the_crawl(
    request: pytest.FixtureRequest, server: str, shards: int
) -> None:
    redis = await connect(request.getfixturevalue(server))
    frontier = Frontier(redis, "crawl", shards=shards)
    await frontier.open({"pages_per_s": 2.5, "held": 0})
    url = "http://h.test/"
    await frontier.add([Entry(id=fingerprint(url), url=url, queue=2)])
    await Ledger(redis, "crawl").add({"pages": 41, "shard_pages/0": 41}, now_s=1e9)
    sheet = Sheet("crawl")
    await add_fleet(sheet, redis, "crawl")
    lines = sheet.text().decode().splitlines()
    assert 'crawler_pages_crawled_total{crawl="crawl",scope="fleet"} 41.0' in lines
    assert 'crawler_shard_pages_total{crawl="crawl",scope="fleet",shard="0"} 41.0' in lines
    waiting = [line for line in lines if 'state="waiting"' in line and "crawler_shard_size" in line]
    assert len(waiting) == shards
    assert sum(float(line.rpartition(" ")[2]) for line in waiting) == 1
    assert 'crawler_frontier_size{crawl="crawl",queue="2",state="front"} 1.0' in lines
    assert 'crawler_active_workers{crawl="crawl"} 1.0' in lines
    assert 'crawler_pages_per_second{crawl="crawl",scope="fleet"} 2.5' in lines
    assert 'crawler_redis_up{crawl="crawl"} 1.0' in lines
    assert any(line.startswith("crawler_redis_memory_bytes") for line in lines)
    await redis.aclose()


async def test_a_crawl_that_does_not_exist_has_no_metrics(redis_url: str) -> None:
    redis = await connect(redis_url)
    with pytest.raises(CrawlerError):
        await add_fleet(Sheet("crawl"), redis, "crawl")
    await redis.aclose()


async def test_a_redis_that_is_away_is_told() -> None:
    with PrivateRedis() as server:
        redis = await connect(server.url)
        await Frontier(redis, "crawl").open()
        server.kill()
        sheet = Sheet("crawl")
        await add_fleet(sheet, redis, "crawl")
        assert sheet.text().decode().splitlines()[-1] == 'crawler_redis_up{crawl="crawl"} 0.0'
        await redis.aclose()
