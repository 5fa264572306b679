"""GET /jobs and GET /jobs/{id}."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pymongo import AsyncMongoClient

from crawler.admin.queries import StoredPages
from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.errors import ServerAway
from crawler.storage.mongo.reader import MongoReader
from crawler.storage.mongo.runs import MongoRuns
from tests.integration.admin.api import TOKENS, Api, client
from tests.support.runs import AT, run


@pytest.fixture
async def http(api: Api, mongo_uri: str, mongo_db_name: str) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncMongoClient[dict[str, Any]](mongo_uri, tz_aware=True) as mongo:
        database = mongo[mongo_db_name]
        for each in (
            run(id="1", started=AT - timedelta(days=1)),
            run(id="2", crawl="other", state="running", ended=None, exit_code=None),
            run(id="3", started=AT + timedelta(days=1), state="failed", exit_code=3),
        ):
            await MongoRuns(database).record(each)

        async def connect() -> MongoReader:
            return MongoReader(database)

        app = Application(CrawlContext("web", api.redis, pages=StoredPages(connect)), tokens=TOKENS)
        async with client(app) as asked:
            yield asked


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", ["3", "2", "1"]),
        ("?crawl=web", ["3", "1"]),
        ("?state=failed", ["3"]),
        # Silent since then.
        ("?state=lost", ["2"]),
        ("?state=running", []),
        ("?since=2026-05-04T00:00:00Z&limit=1", ["3"]),
    ],
)
async def test_runs_are_listed(http: httpx.AsyncClient, query: str, ids: list[str]) -> None:
    answer = await http.get(f"/jobs{query}")
    assert answer.status_code == 200, answer.text
    assert [each["id"] for each in answer.json()] == ids


async def test_one_run_is_shown(http: httpx.AsyncClient) -> None:
    found = (await http.get("/jobs/3")).json()
    assert (found["state"], found["exit_code"], found["pages"]) == ("failed", 3, 3)
    assert found["options"]["seeds"] == "http://a.test/"
    assert found["started"] == "2026-05-05T02:00:00Z"


@pytest.mark.parametrize("query", ["?state=odd", "?limit=0", "?limit=501", "?since=yesterday"])
async def test_a_wrong_filter_is_a_problem(http: httpx.AsyncClient, query: str) -> None:
    assert (await http.get(f"/jobs{query}")).status_code == 422


async def test_an_unknown_run_is_not_found(http: httpx.AsyncClient) -> None:
    answer = await http.get("/jobs/unknown")
    assert answer.status_code == 404
    assert "no record of this run" in answer.json()["detail"]


async def test_without_a_store_there_are_no_runs(api: Api) -> None:
    for path in ("/jobs", "/jobs/1"):
        problem = await api.json("GET", path, status=404)
        assert "recorded in MongoDB or PostgreSQL" in problem["detail"]


async def test_a_store_that_is_away_is_a_problem(api: Api) -> None:
    async def connect() -> MongoReader:
        raise ServerAway("nobody is there")

    app = Application(CrawlContext("web", api.redis, pages=StoredPages(connect)), tokens=TOKENS)
    async with client(app) as http:
        for _ in range(2):
            answer = await http.get("/jobs")
            assert answer.status_code == 503
            assert answer.json()["detail"] == "MongoDB does not answer."
            assert answer.headers["retry-after"]
