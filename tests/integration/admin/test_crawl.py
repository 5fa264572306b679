"""The crawl as a whole: status, scheduler, workers, pause, health."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.monitoring.ledger import Ledger
from crawler.servers.redis.connection import connect
from tests.integration.admin.api import TOKENS, Api, client, entry


async def test_the_status_tells_how_the_crawl_stands(api: Api) -> None:
    await api.frontier.add([entry("http://a.test/1"), entry("http://a.test/2", queue=3)])
    [lease] = await api.claim(1)
    await api.frontier.done([(lease, True)])
    found = await api.json("GET", "/status")
    assert (found["crawl"], found["found"], found["done"], found["pages"]) == ("web", 2, 1, 1)
    assert found["waiting"] == found["unfinished"] == 1
    assert sum(found["waiting_by_queue"]) + found["waiting_by_host"] == 1
    assert not found["paused"]
    [worker] = found["workers"]
    assert (worker["machine"], worker["pid"], worker["shards"]) == ("m", 7, [0])
    assert await api.json("GET", "/workers") == [worker]


async def test_pause_and_resume_hold_for_the_whole_fleet(api: Api) -> None:
    await api.frontier.add([entry("http://a.test/")])
    assert (await api.json("POST", "/crawl/pause"))["paused"]
    assert (await api.json("GET", "/status"))["paused"]
    assert (await api.frontier.claim(1, "r1")).state == "paused"
    assert not (await api.json("POST", "/crawl/resume"))["paused"]
    assert len(await api.claim()) == 1


async def test_the_scheduler_tells_of_queues_rates_and_caches(api: Api) -> None:
    await api.frontier.add(
        [entry("http://a.test/1"), entry("http://b.test/"), entry("http://c.test/")]
    )
    first, *_ = await api.claim(1)
    await api.frontier.retry([(first, 60_000, first.entry.retried("timeout", now_s=1.0))])
    figures = {
        "links/refused/depth": 4,
        "links/refused/trap_deep": 1,
        "robots/denied": 3,
        "links/found": 100,
        "links/cached": 75,
        "links/new": 20,
        "requests": 50,
        "dns/hits": 9,
        "dns/misses": 1,
        "waits/minimum": 4,
        "waits_ms": 6000,
        "politeness/violations": 2,
        "shard_pages/0": 25,
    }
    await Ledger(api.redis, "web").add(figures, now_s=datetime.now(UTC).timestamp())
    found = await api.json("GET", "/scheduler/status")
    # Of the same minutes as the requests.
    per_s = found["by_shard"][0].pop("pages_per_second")
    assert per_s > 0
    assert abs(per_s - found["retrieval_rate"] / 2) <= 0.001
    assert found["urls_scheduled"] == 3
    assert found["urls_waiting"] == 2
    assert found["urls_delayed"] == 1
    assert found["urls_rejected"] == {"depth": 4, "trap_deep": 1}
    assert found["robots_denied"] == 3
    assert found["shard_assignments"] == {api.frontier.owner: [0]}
    assert (found["active_shards"], found["shards"]) == (1, 1)
    assert found["by_shard"] == [
        {
            "shard": 0,
            "urls_waiting": 2,
            "urls_delayed": 1,
            "leased": 0,
            "pages": 0,
            "processes": [api.frontier.owner],
        }
    ]
    delayed = found["delayed_queue"]
    assert (delayed["total_items"], delayed["active_buckets"]) == (1, 1)
    due = datetime.fromisoformat(delayed["current_bucket"])
    assert due > datetime.now(UTC)
    assert delayed["current_bucket_id"] == due.timestamp() * 1000
    assert delayed["bucket_size_seconds"] == 1
    assert found["bucket_utilization"] == 1.0
    assert found["politeness_violations"] == 2
    assert found["insert_rate_per_second"] == found["insert_rate"] > 0
    assert found["retrieval_rate_per_second"] == found["retrieval_rate"] > found["insert_rate"]
    assert found["average_delay_seconds"] == found["average_delay_s"] == 1.5
    assert found["cache_hit_ratio"] == round(84 / 110, 4)
    assert found["cache_hit_ratios"] == {"known_urls": 0.75, "dns": 0.9, "robots": None}


async def test_the_scheduler_of_a_new_crawl_has_no_figures_yet(api: Api) -> None:
    found = await api.json("GET", "/scheduler/status")
    assert found["delayed_queue"] == {
        "total_items": 0,
        "active_buckets": 0,
        "bucket_size_seconds": 1,
        "current_bucket_id": None,
        "current_bucket": None,
    }
    assert found["bucket_utilization"] is found["cache_hit_ratio"] is None
    assert found["average_delay_seconds"] is None
    assert found["politeness_violations"] == 0


async def test_any_instance_answers_for_the_crawl(api: Api, redis_url: str) -> None:
    other = await connect(redis_url)
    async with client(Application(CrawlContext("web", other), tokens=TOKENS)) as http:
        assert (await http.post("/crawl/pause")).status_code == 200
    await other.aclose()
    assert (await api.json("GET", "/status"))["paused"]


async def test_a_crawl_that_does_not_exist_is_a_problem_and_starts_to_exist(
    redis_client: Any,
) -> None:
    async with client(Application(CrawlContext("later", redis_client), tokens=TOKENS)) as http:
        answer = await http.get("/status")
        assert (answer.status_code, answer.json()["detail"]) == (
            404,
            "There is no crawl 'later' in this Redis.",
        )
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_ready_is_who_reaches_redis_and_the_crawl(api: Api) -> None:
    assert (await api.json("GET", "/readyz"))["ok"]
    assert (await api.json("GET", "/healthz"))["ok"]


async def test_a_full_redis_is_told_from_one_that_is_away(api: Api) -> None:
    await api.redis.config_set("maxmemory", 1)
    try:
        problem = await api.json("POST", "/seed/urls", ["http://more.test/"], status=503)
    finally:
        await api.redis.config_set("maxmemory", 0)
    assert problem["detail"] == "Redis is full and takes nothing new: raise maxmemory."


async def test_while_redis_is_away_the_api_says_so(tmp_path: Path) -> None:
    gone: Any = Redis(unix_socket_path=str(tmp_path / "nobody"), retry=Retry(NoBackoff(), 0))
    async with client(Application(CrawlContext("web", gone), tokens=TOKENS)) as http:
        for method, path in (("GET", "/status"), ("POST", "/crawl/pause"), ("GET", "/readyz")):
            answer = await http.request(method, path)
            assert answer.status_code == 503
            assert "Redis does not answer" in answer.json()["detail"]
        assert (await http.get("/healthz")).status_code == 200
    await gone.aclose()
