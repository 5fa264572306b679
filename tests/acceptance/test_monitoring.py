"""After a crawl Redis has its figures, for whoever asks."""

from pathlib import Path

from crawler.monitoring.ledger import read
from crawler.monitoring.report import report
from crawler.servers.redis.connection import connect
from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import Crawls


async def test_the_figures_of_a_crawl_are_in_redis_when_it_is_over(
    tmp_path: Path, redis_url: str, mongo_uri: str, mongo_db_name: str
) -> None:
    crawls = Crawls(tmp_path, redis_url, mongo_uri, mongo_db_name)
    with DemoServer(WebOptions(hosts=3, pages=4), tmp_path / "access.log") as web:
        run = crawls.run("http://s0.test/", web=web, arguments={"scope": "any"})
    assert run.code == 0, run.stderr
    redis = await connect(redis_url)
    fleet = await read(redis, "web")
    await redis.aclose()
    found = report(fleet)
    assert found["totals"]["stored"] == run.summary["whole_crawl"]["pages"]
    assert found["hour"]["pages"] == found["totals"]["pages"]
    assert found["totals"]["statuses"]["200"] > 0
    assert 0 < found["hour"]["fetch_ms"]["p50"] <= found["hour"]["fetch_ms"]["p99"]
    assert found["hour"]["parse_ms"]["p50"] > 0
    # It signed off.
    assert found["workers"] == []
