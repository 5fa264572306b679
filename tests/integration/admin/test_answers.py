"""What operators ask of the API: crawls, refusals, hosts, dead letters, pages, options, the log."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import AsyncMongoClient

from crawler.admin import queries, routes
from crawler.admin.host_report import HostReports
from crawler.admin.queries import StoredPages
from crawler.admin.refusals import Gates
from crawler.admin.routes import CrawlContext, OptionChanges
from crawler.admin.server import Application
from crawler.frontier import CrawlControl, Frontier
from crawler.politeness.host_delays import FAILURES, OVERLOAD, HostHealth
from crawler.politeness.host_rules import HostRules
from crawler.robots.gate import RobotsCache
from crawler.robots.rules import Unreachable
from crawler.scheduling import options
from crawler.storage.mongo.reader import MongoReader
from crawler.urls import fingerprint
from tests.integration.admin.api import TOKENS, Api, client, entry

ROBOTS = b"""# All
User-agent: *
Disallow: /

User-agent: Crawler/1.0
Disallow: /private
Allow: /private/open
Crawl-delay: 7
"""


async def put_robots(api: Api, content: Any, authority: str = "http://a.test") -> None:
    await RobotsCache(api.redis, "crawler", ttl_s=1e3, error_ttl_s=1e2).put(authority, content)


async def refusals(api: Api, url: str, **query: str) -> list[tuple[str, str, str]]:
    more = "".join(f"&{name}={quote(value, safe='')}" for name, value in query.items())
    found = await api.json("GET", f"/urls/refusals?url={quote(url, safe='')}{more}")
    return [(one["gate"], one["reason"], one["rule"]) for one in found["refusals"]]


# --- crawls ---------------------------------------------------------------------------------------


async def test_all_crawls_of_a_redis_are_listed_and_each_can_be_asked(api: Api) -> None:
    other = Frontier(api.redis, "other one")
    await other.open()
    await other.add([entry("http://b.test/")])
    await other.leave()
    found = await api.json("GET", "/crawls")
    assert found["served"] == "web"
    states = {one["crawl"]: (one["state"], one["waiting"]) for one in found["crawls"]}
    assert states == {"web": ("idle", 0), "other one": ("stopped", 1)}
    assert (await api.json("GET", "/status"))["crawl"] == "web"
    status = await api.json("GET", "/status?crawl=other%20one")
    assert (status["crawl"], status["state"], status["waiting"]) == ("other one", "stopped", 1)
    await api.json("POST", "/crawl/pause?crawl=other%20one")
    assert not (await api.json("GET", "/status"))["paused"]
    for path in ("/status", "/log", "/options", "/hosts"):
        problem = await api.json("GET", f"{path}?crawl=nothing", status=404)
        assert "There is no crawl 'nothing'" in problem["detail"]


async def test_a_list_of_crawls_that_takes_too_long_is_given_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "CRAWLS_S", 0)
    problem = await api.json("GET", "/crawls", status=503)
    assert "name one (?crawl=)" in problem["detail"]


async def test_memory_is_told_without_a_limit_too(api: Api) -> None:
    status = await api.json("GET", "/status")
    assert status["memory_share"] == 0
    assert status["memory_bytes"] > 100_000


# --- why a URL is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "url", "refusal"),
    [
        (
            {"max_url_length": 20},
            "http://a.test/long/path",
            ("scope", "too_long", "max_url_length = 20"),
        ),
        ({}, "http://a.test/x.exe", ("scope", "extension", "SKIPPED_EXTENSIONS: exe")),
        (
            {"excluded_domains": ["ads.test"]},
            "http://x.ads.test/",
            ("scope", "excluded", "excluded_domains = ads.test"),
        ),
        ({}, "http://b.test/", ("scope", "scope", "scope = domain (a.test)")),
        (
            {"scope": "any", "include": ["news"]},
            "http://b.test/",
            ("scope", "include", "include = news"),
        ),
        (
            {"exclude": ["x=1", "print$"]},
            "http://a.test/print",
            ("scope", "exclude", "exclude = print$"),
        ),
        ({"follow": False}, "http://a.test/", ("options", "follow", "follow = no")),
        ({}, "http://a.test/a/a/a/a", ("trap", "trap_repeated", "TRAP_REPEATED")),
    ],
)
async def test_the_rule_that_keeps_a_link_out_is_named(
    api: Api, given: dict[str, Any], url: str, refusal: tuple[str, str, str]
) -> None:
    control = await CrawlControl.open(api.redis, "web")
    await control.add_seed_domains(["a.test"])
    await control.set_options(options.checked(given))
    assert await refusals(api, url) == [refusal]


async def test_the_page_with_the_link_decides_about_the_scope(api: Api) -> None:
    assert await refusals(api, "http://b.test/x", page="http://www.b.test/") == []
    found = await refusals(api, "http://b.test/x", page="http://a.test/")
    assert found == [("scope", "scope", "scope = domain")]
    assert await api.json("GET", "/urls/refusals?url=nonsense", status=422)


async def test_the_line_of_robots_txt_is_named(api: Api) -> None:
    control = await CrawlControl.open(api.redis, "web")
    await control.add_seed_domains(["a.test"])
    await put_robots(api, ROBOTS)
    assert await refusals(api, "http://a.test/") == []
    denied = ("robots.txt", "robots", "line 6: Disallow: /private")
    assert await refusals(api, "http://a.test/private/x") == [denied]
    assert await refusals(api, "http://a.test/private/open/x") == []
    [file] = (await api.json("GET", "/hosts/a.test/robots"))["files"]
    assert file["applies"] == [5, 6, 7, 8]
    await put_robots(api, Unreachable("status 503"))
    assert await refusals(api, "http://a.test/") == [("robots.txt", "unreachable", "status 503")]


async def test_orders_and_rules_for_its_host_are_named(api: Api) -> None:
    control = await CrawlControl.open(api.redis, "web")
    await control.add_seed_domains(["a.test"])
    await api.json("PATCH", "/hosts/a.test", {"blocked_until": "2090-01-01T00:00:00Z"})
    assert await refusals(api, "http://a.test/") == [
        ("host", "blocked", "blocked until 2090-01-01 00:00 UTC")
    ]
    await api.json("PATCH", "/hosts/a.test", {"excluded": True})
    assert await refusals(api, "http://a.test/") == [("host", "excluded", "excluded")]
    gates = Gates(hosts=HostRules({"b.test": {"blocked": True}}))
    await control.set_options({"scope": "any"})
    app = Application(CrawlContext("web", api.redis, gates=gates), tokens=TOKENS)
    async with client(app) as http:
        found = (await http.get("/urls/refusals?url=http://b.test/")).json()
    assert [one["rule"] for one in found["refusals"]] == ["HOST_RULES: b.test blocked"]


# --- hosts ----------------------------------------------------------------------------------------


async def meet(api: Api, delay_ms: int = 5000, host: str = "a.test") -> None:
    await api.frontier.add([entry(f"http://{host}/{n}", queue=n) for n in (1, 3)])
    leases = await api.claim()
    await api.frontier.release([(lease, delay_ms) for lease in leases])
    await api.frontier.done([(lease, True) for lease in leases])


@pytest.mark.parametrize(
    ("delay_ms", "cause", "detail"),
    [
        (250, "minimum", "DELAY_MIN is 0.25 s"),
        (5000, "adaptive", "times its usual fetch of"),
    ],
)
async def test_a_host_tells_its_delay_and_why(
    api: Api, delay_ms: int, cause: str, detail: str
) -> None:
    await meet(api, delay_ms)
    reports = HostReports()
    if cause == "minimum":
        await meet(api, round(1000 * reports.policy.min_s))
        detail = f"DELAY_MIN is {reports.policy.min_s:g} s"
    found = await api.json("GET", "/hosts/a.test/report")
    assert found["delay"]["cause"] == cause
    assert detail in found["delay"]["detail"]


async def test_all_about_a_host_is_in_its_report(api: Api) -> None:
    await meet(api, 60_000)
    found = await api.json("GET", "/hosts/a.test/report")
    assert found["host"]["state"] == "resting"
    assert 50 < found["next_contact_s"] <= 60
    assert found["waiting_by_queue"] == [0, 0, 1, 0, 0, 0, 0]
    assert found["next_urls"] == ["http://a.test/3"]
    assert found["why"][-1].startswith("Its delay is not over: DELAY_FACTOR")
    assert (found["dead"], found["robots"]["files"], found["dns"]["state"]) == ([], [], "unknown")

    health = HostHealth(api.redis, quiet_s=600)
    await health.count(OVERLOAD, "a.test")
    found = await api.json("GET", "/hosts/a.test/report")
    assert (found["delay"]["cause"], found["overloads"]) == ("overload", 1)
    for _ in range(9):
        await health.count(FAILURES, "a.test")
    found = await api.json("GET", "/hosts/a.test/report")
    assert (found["delay"]["cause"], found["failures"]) == ("breaker", 9)

    await put_robots(api, Unreachable("status 503"))
    await api.json("POST", "/crawl/pause")
    await api.json("PATCH", "/hosts/a.test", {"budget": 1})
    await api.frontier.leave()
    found = await api.json("GET", "/hosts/a.test/report")
    why = " ".join(found["why"])
    for text in (
        "The crawl is paused.",
        "No process works on the crawl.",
        "It has the 1 pages of its budget.",
        "http://a.test/robots.txt cannot be fetched (status 503)",
    ):
        assert text in why
    await api.json("GET", "/hosts/unknown.test/report", status=404)


async def test_a_crawl_delay_is_told_as_the_cause(api: Api) -> None:
    await put_robots(api, ROBOTS)
    await meet(api, 7000)
    found = await api.json("GET", "/hosts/a.test/report")
    assert found["delay"] == {
        "delay_s": 7.0,
        "cause": "crawl_delay",
        "detail": "robots.txt asks for a Crawl-delay of 7 s",
    }


# --- dead letters, options, the log ---------------------------------------------------------------


async def test_dead_letters_are_counted_by_reason_and_by_host(api: Api) -> None:
    urls = ["http://a.test/1", "http://b.test/2", "http://c.test/3"]
    await api.frontier.add([entry(url) for url in urls])
    reasons = {"a.test": "timeout", "b.test": "timeout", "c.test": "status_500"}
    leases = await api.claim()
    await api.frontier.bury([(lease, reasons[lease.entry.host]) for lease in leases])
    found = await api.json("GET", "/dead/groups")
    assert [(one["reason"], one["count"], one["hosts"]) for one in found["reasons"]] == [
        ("timeout", 2, {"a.test": 1, "b.test": 1}),
        ("status_500", 1, {"c.test": 1}),
    ]
    assert [one["host"] for one in found["hosts"]] == ["a.test", "b.test", "c.test"]
    assert (found["read"], found["complete"]) == (3, True)
    found = await api.json("GET", "/dead/groups?host=c.test")
    assert [one["reason"] for one in found["reasons"]] == ["status_500"]


def test_every_option_can_be_changed_by_the_api() -> None:
    assert tuple(OptionChanges.model_fields) == options.NAMES


async def test_options_are_changed_with_the_checks_of_the_command_line(api: Api) -> None:
    found = {one["name"]: one for one in await api.json("GET", "/options")}
    assert list(found) == list(options.NAMES)
    assert (found["scope"]["value"], found["scope"]["is_set"]) == ("domain", False)
    body = {"scope": "any", "excluded_domains": "ads.test, x.test", "weights": "5 4 3 2 1"}
    changed = {one["name"]: one for one in await api.json("PATCH", "/options", body)}
    assert changed["excluded_domains"]["value"] == ["ads.test", "x.test"]
    assert changed["weights"]["value"] == [5, 4, 3, 2, 1]
    assert changed["scope"]["is_set"]
    back = {one["name"]: one for one in await api.json("PATCH", "/options", {"scope": None})}
    assert (back["scope"]["value"], back["scope"]["is_set"]) == ("domain", False)
    for wrong, detail in (
        ({"scope": "planet"}, "use one of host, domain, seeds, any"),
        ({"exclude": ["("]}, "is no regular expression"),
        ({"weights": [1]}, "give 5 whole numbers"),
        ({"speed": 9}, "speed"),
        ({}, "Name an option: scope"),
    ):
        problem = await api.json("PATCH", "/options", wrong, status=422)
        assert detail in problem["detail"]


async def test_what_people_did_is_in_the_log(api: Api) -> None:
    await api.json("POST", "/crawl/pause")
    await api.json("PATCH", "/options", {"max_depth": 3})
    found = await api.json("GET", "/log")
    assert [(one["kind"], one["text"]) for one in found] == [
        ("order", "max_depth is 3 (was not set)"),
        ("order", "paused"),
    ]
    assert datetime.now(UTC) - datetime.fromisoformat(found[0]["at"]) < timedelta(minutes=5)


async def test_a_process_that_is_not_there_cannot_be_stopped(api: Api) -> None:
    await api.json("POST", "/workers/nobody/stop", status=404)
    answer = await api.json("POST", f"/workers/{api.frontier.owner}/stop")
    assert answer == {"id": api.frontier.owner, "stopping": True}


async def test_the_end_is_estimated_or_it_says_why_not(api: Api) -> None:
    found = await api.json("GET", "/vitals?minutes=1440")
    assert found["estimate"] == {"ends_in_s": None, "why": "Nothing is left to crawl."}
    assert {minute["seconds"] for minute in found["minutes"]} == {600}
    assert len(found["minutes"]) == 144


# --- stored pages ---------------------------------------------------------------------------------


async def test_stored_pages_are_browsed_and_shown(
    api: Api, mongo_uri: str, mongo_db_name: str
) -> None:
    mongo: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri, tz_aware=True)
    database = mongo[mongo_db_name]
    now = datetime.now(UTC).replace(microsecond=0)

    def stored(number: int, status: int) -> dict[str, Any]:
        url = f"http://a.test/{number}"
        known = {"crawl": "web", "url": url, "url_hash": f"{fingerprint(url):016x}"}
        at = now - timedelta(minutes=number)
        return {**known, "status": status, "host": "a.test", "crawled_at": at, "links": ["x"]}

    await database["pages_metadata"].insert_many(
        [stored(1, 200), stored(2, 404), stored(3, 200), {**stored(4, 200), "crawl": "other"}]
    )
    await database["pages_content"].insert_one(
        {
            "crawl": "web",
            "page_id": stored(1, 200)["url_hash"],
            "codec": "none",
            "body": b"<b>bold</b>",
            "text": "bold",
            "original_size": 11,
            "compressed_size": 11,
            "crawled_at": now,
        }
    )

    async def connect() -> MongoReader:
        return MongoReader(database)

    app = Application(CrawlContext("web", api.redis, pages=StoredPages(connect)), tokens=TOKENS)
    async with client(app) as http:

        async def urls(**query: str) -> list[str]:
            found = (await http.get("/pages", params=query)).json()
            return [page["url"][-1] for page in found["pages"]]

        assert await urls() == ["1", "2", "3"]
        assert await urls(status="4xx") == ["2"]
        assert await urls(domain="b.test") == []
        assert await urls(crawl="other") == ["4"]
        first = (await http.get("/pages", params={"limit": 2})).json()
        assert await urls(before=first["next"]) == ["3"]
        assert (await http.get("/pages", params={"status": "teapot"})).status_code == 422
        # Two of the same moment are not torn apart: the second would be in neither list.
        twin = {**stored(2, 200), "url": "http://a.test/5", "url_hash": "5" * 16}
        await database["pages_metadata"].insert_one(twin)
        first = (await http.get("/pages", params={"limit": 2})).json()
        assert [page["url"][-1] for page in first["pages"]] == ["1"]
        assert sorted(await urls(before=first["next"])) == ["2", "3", "5"]
        assert (await http.get("/pages", params={"limit": 4})).json()["next"] is None
        page = (await http.get("/pages/page", params={"url": "http://a.test/1"})).json()
        assert (page["text"], page["source"], page["links"]) == ("bold", "<b>bold</b>", ["x"])
        assert (page["record"]["status"], page["cut"], page["note"]) == (200, False, "")
        page = (await http.get("/pages/page", params={"url": "http://a.test/2"})).json()
        assert (page["text"], page["note"]) == ("", "Its content is not kept.")
        answer = await http.get("/pages/page", params={"url": "http://a.test/9"})
        assert answer.status_code == 404
    await api.json("GET", "/pages", status=404)
    await mongo.close()


async def test_a_list_that_takes_too_long_says_so_and_leaves_other_answers_alone(
    api: Api, mongo_uri: str, mongo_db_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mongo: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri, tz_aware=True)
    reader = MongoReader(mongo[mongo_db_name])

    async def connect() -> MongoReader:
        return reader

    pages = StoredPages(connect)
    app = Application(CrawlContext("web", api.redis, pages=pages), tokens=TOKENS)
    async with client(app) as http:
        monkeypatch.setattr(queries, "_LONG_S", 0)
        answer = await http.get("/pages")
        assert answer.status_code == 503
        assert "ask for less" in answer.json()["detail"]
        assert (await http.get("/jobs")).status_code == 200
    await mongo.close()
