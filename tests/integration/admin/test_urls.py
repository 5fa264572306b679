"""GET and DELETE /urls, GET /dead and POST /dead/requeue."""

from typing import Any
from urllib.parse import quote

import pymongo
import pytest
from pymongo import AsyncMongoClient

from crawler.admin.queries import StoredPages
from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.storage.mongo.reader import MongoReader
from crawler.urls import fingerprint
from tests.integration.admin.api import TOKENS, Api, client, entry

URL = "http://a.test/page"


def at(url: str) -> str:
    return f"/urls?url={quote(url, safe='')}"


async def test_the_state_of_a_url_follows_its_life(api: Api) -> None:
    assert (await api.json("GET", at(URL)))["state"] == "unseen"
    await api.frontier.add([entry(URL, depth=2, queue=3)])
    found = await api.json("GET", at("HTTP://A.test/page#top"))
    assert (found["url"], found["state"], found["depth"], found["queue"]) == (URL, "waiting", 2, 3)
    [lease] = await api.claim()
    found = await api.json("GET", at(URL))
    assert (found["state"], found["owner"]) == ("leased", api.frontier.owner)
    again = lease.entry.retried("timeout", now_s=1_700_000_000)
    await api.frontier.retry([(lease, 60_000, again)])
    found = await api.json("GET", at(URL))
    assert (found["state"], found["reason"], found["attempts"]) == ("delayed", "retry", 1)
    assert found["at"] is not None
    assert found["history"] == [{"reason": "timeout", "at": "2023-11-14T22:13:20Z"}]


async def test_a_forgotten_url_may_come_again(api: Api) -> None:
    await api.json("DELETE", at(URL), status=404)
    await api.frontier.add([entry(URL)])
    [lease] = await api.claim()
    problem = await api.json("DELETE", at(URL), status=409)
    assert "is being fetched" in problem["detail"]
    await api.frontier.done([(lease, True)])
    assert (await api.json("GET", at(URL)))["state"] == "known"
    assert await api.json("DELETE", at(URL)) == {"url": URL, "forgotten": True}
    assert (await api.json("GET", at(URL)))["state"] == "unseen"
    assert (await api.json("POST", "/seed/urls", [URL]))["added"] == 1


@pytest.mark.parametrize("url", ["nonsense", "ftp://a.test/", "http://u:p@a.test/"])
async def test_what_is_no_url_is_a_problem(api: Api, url: str) -> None:
    for method in ("GET", "DELETE"):
        assert (await api.json(method, at(url), status=422))["detail"]
    await api.json("GET", "/urls", status=422)


async def test_what_is_stored_of_a_url_is_shown_without_its_content(
    api: Api, mongo_uri: str, mongo_db_name: str
) -> None:
    mongo: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri, tz_aware=True)
    database = mongo[mongo_db_name]

    async def connect() -> MongoReader:
        return MongoReader(database)

    page = {"url": URL, "url_hash": f"{fingerprint(URL):016x}", "status": 200, "links": ["x"]}
    await database["pages_metadata"].insert_many(
        [{**page, "crawl": "other", "status": 404}, {**page, "crawl": "web"}]
    )
    app = Application(CrawlContext("web", api.redis, pages=StoredPages(connect)), tokens=TOKENS)
    async with client(app) as http:
        found = (await http.get(at(URL))).json()
        assert (found["page"]["url"], found["page"]["status"]) == (URL, 200)
        assert "links" not in found["page"]
        found = (await http.get(at("http://a.test/other"))).json()
        assert (found["page"], found["page_note"]) == (None, "It is not stored.")
    await mongo.close()


async def test_without_mongodb_the_rest_is_answered(api: Api) -> None:
    asked = 0

    async def connect() -> MongoReader:
        nonlocal asked
        asked += 1
        raise pymongo.errors.ServerSelectionTimeoutError("nobody there")

    app = Application(CrawlContext("web", api.redis, pages=StoredPages(connect)), tokens=TOKENS)
    async with client(app) as http:
        for _ in range(3):
            found = (await http.get(at(URL))).json()
            assert (found["state"], found["page"]) == ("unseen", None)
            assert found["page_note"] == "MongoDB does not answer."
    # It is left alone for a while.
    assert asked == 1


# --- dead letters ---------------------------------------------------------------------------------


async def bury(api: Api, **reasons: str) -> None:
    await api.frontier.add([entry(f"http://{host}.test/") for host in reasons])
    leases = await api.claim()
    for host, reason in reasons.items():
        [lease] = [one for one in leases if one.entry.host == f"{host}.test"]
        await api.frontier.bury([(lease, reason)])


async def test_dead_letters_are_listed_by_pages_and_filtered(api: Api) -> None:
    await bury(api, a="timeout", b="status_500", c="timeout")
    found = await api.json("GET", "/dead?limit=2")
    assert [letter["host"] for letter in found["letters"]] == ["c.test", "b.test"]
    assert found["total"] == 3
    rest = await api.json("GET", f"/dead?limit=2&before={quote(found['next'])}")
    assert [letter["host"] for letter in rest["letters"]] == ["a.test"]
    assert rest["next"] == ""
    assert rest["letters"][0]["reason"] == "timeout"
    found = await api.json("GET", "/dead?reason=status_500")
    assert [letter["url"] for letter in found["letters"]] == ["http://b.test/"]
    found = await api.json("GET", "/dead?host=c.test")
    assert [letter["url"] for letter in found["letters"]] == ["http://c.test/"]
    await api.json("GET", "/dead?before=nonsense", status=422)
    await api.json("GET", "/dead?limit=0", status=422)


async def test_dead_letters_get_another_life(api: Api) -> None:
    await bury(api, a="timeout", b="status_500", c="timeout")
    assert await api.json("POST", "/dead/requeue", {"host": "a.test"}) == {"requeued": 1}
    assert await api.json("POST", "/dead/requeue", {"reason": "status_500"}) == {"requeued": 1}
    assert await api.json("POST", "/dead/requeue") == {"requeued": 1}
    assert (await api.json("GET", "/dead"))["letters"] == []
    assert (await api.json("GET", "/status"))["waiting"] == 3
    await api.json("POST", "/dead/requeue", {"everything": True}, status=422)
