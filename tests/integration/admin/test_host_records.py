"""What is cached of a host, asked and forgotten over the API."""

from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest

from crawler.admin.host_records import HostRecords
from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.robots.gate import RobotsCache
from crawler.robots.rules import ForbiddenFile, Unreachable
from tests.integration.admin.api import TOKENS, Api, client, entry

BODY = b"""User-agent: *
Disallow: /private
Crawl-delay: 3
Sitemap: http://a.test/sitemap.xml
"""


def cache_in(redis: Any) -> RobotsCache:
    return RobotsCache(redis, "crawler", ttl_s=1000.0, error_ttl_s=100.0)


async def test_a_cached_robots_txt_is_shown(api: Api) -> None:
    await cache_in(api.redis).put("http://a.test", BODY, status=200)
    found = await api.json("GET", "/hosts/A.test/robots")
    [file] = found["files"]
    assert found["host"] == "a.test"
    assert (file["url"], file["state"]) == ("http://a.test/robots.txt", "rules")
    assert (file["status"], file["size_bytes"], file["text"]) == (200, len(BODY), BODY.decode())
    assert (file["crawl_delay_s"], file["allows_root"]) == (3.0, True)
    assert file["sitemaps"] == ["http://a.test/sitemap.xml"]
    fetched, expires = map(datetime.fromisoformat, (file["fetched_at"], file["expires"]))
    assert abs((datetime.now(UTC) - fetched).total_seconds()) < 60
    assert 890 < (expires - fetched).total_seconds() < 1110


@pytest.mark.parametrize(
    ("content", "status", "state", "allows"),
    [
        (b"", 404, "no_rules", True),
        (ForbiddenFile(), 403, "forbidden", True),
        (Unreachable("status 503"), 503, "unreachable", None),
        (Unreachable("TimeoutError"), 0, "unreachable", None),
    ],
)
async def test_other_answers_are_told_apart(
    api: Api, content: Any, status: int, state: str, allows: bool | None
) -> None:
    await cache_in(api.redis).put("https://a.test:8443", content, status=status)
    [file] = (await api.json("GET", "/hosts/a.test:8443/robots"))["files"]
    assert (file["state"], file["status"], file["allows_root"]) == (state, status or None, allows)
    assert file["reason"] == getattr(content, "reason", "")
    assert file["failures"] == (state == "unreachable")


async def test_a_forbidden_file_is_shown_as_the_crawl_takes_it(api: Api) -> None:
    await cache_in(api.redis).put("http://a.test", ForbiddenFile(), status=401)
    records = HostRecords(forbidden_is="deny")
    app = Application(CrawlContext("web", api.redis, records=records), tokens=TOKENS)
    async with client(app) as http:
        [file] = (await http.get("/hosts/a.test/robots")).json()["files"]
    assert file["allows_root"] is False


async def test_a_host_that_is_met_has_no_file_yet_and_others_are_not_found(api: Api) -> None:
    await api.frontier.add([entry("http://a.test/")])
    await api.claim()
    assert (await api.json("GET", "/hosts/a.test/robots"))["files"] == []
    assert (await api.json("GET", "/hosts/a.test/dns"))["state"] == "unknown"
    for method in ("GET", "DELETE"):
        for what in ("robots", "dns"):
            problem = await api.json(method, f"/hosts/b.test/{what}", status=404)
            assert "'b.test'" in problem["detail"]
            problem = await api.json(method, f"/hosts/no%20host/{what}", status=422)
            assert "'no host' is no host" in problem["detail"]


async def test_nobody_forgets_without_the_token(api: Api) -> None:
    await cache_in(api.redis).put("http://a.test", BODY)
    async with client(api.app, "guess") as http:
        assert (await http.delete("/hosts/a.test/robots")).status_code == 401
        assert (await http.delete("/hosts/a.test/dns")).status_code == 401
    assert (await api.json("GET", "/hosts/a.test/robots"))["files"]


async def test_forgetting_is_in_the_audit_log(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    await cache_in(api.redis).put("http://a.test", BODY)
    with caplog.at_level("INFO", "crawler.admin.audit"):
        found = await api.json("DELETE", "/hosts/a.test/robots")
    assert found == {"host": "a.test", "forgotten": ["http://a.test/robots.txt"]}
    assert "DELETE /hosts/a.test/robots" in caplog.text
    assert "(1 forgotten)" in caplog.text
    assert (await api.json("DELETE", "/hosts/a.test/dns", status=404))["detail"]


async def test_urls_that_wait_for_an_unreachable_file_are_due_when_it_is_forgotten(
    api: Api,
) -> None:
    await api.frontier.add([entry("http://a.test/")])
    [lease] = await api.claim()
    await cache_in(api.redis).put("http://a.test", Unreachable("status 503"), status=503)
    await api.frontier.hand_back([(lease, 100_000)])
    await api.json("DELETE", "/hosts/a.test/robots")
    due = (await api.json("GET", "/hosts/a.test"))["next_contact"]
    assert due is None or (datetime.fromisoformat(due) - datetime.now(UTC)).total_seconds() <= 1


async def test_retry_after_holds_even_if_the_file_is_forgotten(api: Api) -> None:
    await api.frontier.add([entry("http://a.test/")])
    [lease] = await api.claim()
    answer = Unreachable("status 503")
    await cache_in(api.redis).put("http://a.test", answer, status=503, at_least_s=500.0)
    await api.frontier.hand_back([(lease, 500_000)])
    await api.json("DELETE", "/hosts/a.test/robots")
    due = (await api.json("GET", "/hosts/a.test"))["next_contact"]
    assert (datetime.fromisoformat(due) - datetime.now(UTC)).total_seconds() > 400


@pytest.mark.parametrize("blocked", [True, False])
async def test_a_delay_that_has_another_reason_is_kept(api: Api, blocked: bool) -> None:
    await api.frontier.add([entry("http://a.test/")])
    [lease] = await api.claim()
    await cache_in(api.redis).put("http://a.test", Unreachable("x") if blocked else BODY)
    await api.frontier.hand_back([(lease, 0 if blocked else 300_000)])
    if blocked:
        await api.json("PATCH", "/hosts/a.test", {"blocked_until": "2100-01-01T00:00:00Z"})
    before = (await api.json("GET", "/hosts/a.test"))["next_contact"]
    await api.json("DELETE", "/hosts/a.test/robots")
    assert (await api.json("GET", "/hosts/a.test"))["next_contact"] == before


async def test_cached_addresses_are_shown_and_forgotten(api: Api) -> None:
    packed = msgpack.packb(["192.0.2.1", "2001:db8::1"])
    await api.redis.set("dns:a.test", packed, px=86_460_000)
    found = await api.json("GET", "/hosts/a.test:8080/dns")
    assert (found["host"], found["state"], found["cached_in"]) == ("a.test:8080", "fresh", "redis")
    assert found["addresses"] == ["192.0.2.1", "2001:db8::1"]
    assert 50 < found["ttl_s"] <= 60 < found["usable_s"]
    await api.redis.set("dns:a.test", packed, px=5000)
    assert (await api.json("GET", "/hosts/a.test/dns"))["state"] == "stale"
    assert (await api.json("DELETE", "/hosts/a.test/dns"))["forgotten"] == found["addresses"]
    assert (await api.json("GET", "/hosts/a.test/dns", status=404))["detail"]
    await api.redis.set("dns:gone.test", msgpack.packb([]), px=5000)
    assert (await api.json("GET", "/hosts/gone.test/dns"))["state"] == "no_such_host"
    fixed = await api.json("GET", "/hosts/[2001:db8::1]/dns")
    assert (fixed["addresses"], fixed["cached_in"]) == (["2001:db8::1"], "host")
