"""GET /metrics and GET /vitals, behind the token."""

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application, listen
from crawler.admin.tokens import Token, Tokens
from crawler.errors import ConfigurationError
from crawler.frontier import Frontier
from crawler.monitoring.ledger import Ledger
from tests.support.crawlers import project_crawler
from tests.support.promtool import promtool

TOKEN = "token-of-this-test"
TOKENS = Tokens(Token(TOKEN))


def client_of(crawl: CrawlContext, token: str = TOKEN) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(Application(crawl, tokens=TOKENS)),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {token}"},
    )


async def test_a_worker_answers_for_itself_and_for_the_fleet(redis_client: Any) -> None:
    await Frontier(redis_client, "crawl").open()
    await Ledger(redis_client, "crawl").add({"pages": 40}, now_s=1e9)
    crawler = project_crawler()
    leases = SimpleNamespace(held=2, outbox=SimpleNamespace(unsettled=()))
    crawler.engine = SimpleNamespace(  # type: ignore[assignment]
        scheduler=SimpleNamespace(leases=leases, recrawls=SimpleNamespace(plan=None)),
        downloader=SimpleNamespace(active=()),
    )
    assert crawler.stats is not None
    crawler.stats.set_value("pages/crawled", 7)
    async with client_of(CrawlContext("crawl", redis_client, crawler=crawler)) as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert 'crawler_pages_crawled_total{crawl="crawl",scope="worker"} 7.0' in answer.text
    assert 'crawler_pages_crawled_total{crawl="crawl",scope="fleet"} 40.0' in answer.text
    promtool("check", "metrics", stdin=answer.content)


async def test_metrics_need_the_token(redis_client: Any) -> None:
    async with client_of(CrawlContext("crawl", redis_client), token="another") as client:
        for path in ("/metrics", "/vitals"):
            assert (await client.get(path)).status_code == 401


async def test_vitals_have_as_many_minutes_as_are_asked_for(redis_client: Any) -> None:
    await Frontier(redis_client, "crawl").open()
    async with client_of(CrawlContext("crawl", redis_client)) as client:
        found = (await client.get("/vitals", params={"minutes": 5})).json()
        assert len(found["minutes"]) == 5
        assert (await client.get("/vitals", params={"minutes": 1441})).status_code == 422


async def test_vitals_have_the_state_of_each_sink(redis_client: Any) -> None:
    sink = {"name": "mongo", "state": "away", "waiting": 2, "lag_s": 3.5}
    about = {"sinks": [sink], "spooled_pages": 4, "spooled_bytes": 500}
    await Frontier(redis_client, "crawl").open(about)
    await Ledger(redis_client, "crawl").add({"sink/pages/mongo": 9}, now_s=1e9)
    async with client_of(CrawlContext("crawl", redis_client)) as client:
        found = (await client.get("/vitals")).json()
    [told] = found["sinks"]
    assert (told["name"], told["state"], told["pages"]) == ("mongo", "away", 9)
    assert (told["waiting"], told["lag_s"]) == (2, 3.5)
    assert found["spool"] == {"pages": 4, "bytes": 500, "places": []}


def test_each_process_of_a_machine_has_its_own_port_of_the_range() -> None:
    first = listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    try:
        second = listen("127.0.0.1", port, ports=50)
        assert port < second.getsockname()[1] < port + 50
        second.close()
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}"):
            listen("127.0.0.1", port)
    finally:
        first.close()
