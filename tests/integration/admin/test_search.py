"""Searches by the admin API, on an index in a folder."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crawler.admin import queries
from crawler.admin.queries import PageSearch
from crawler.admin.routes import CrawlContext
from crawler.admin.server import Application
from crawler.storage.search.index import IndexedPage, IndexWriter, SearchSettings
from tests.integration.admin.api import TOKENS, Api, client, open_api
from tests.support.waiting import until

NOW = datetime(2026, 5, 6, 12, tzinfo=UTC)


def page(number: int, text: str, crawl: str = "web") -> IndexedPage:
    url = f"http://h{number}.a{number % 2}.test/{number}"
    return IndexedPage(crawl, f"{number:016x}", NOW, url, f"Page {number}", text, "en")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "search"


@pytest.fixture
def index(folder: Path) -> None:
    with IndexWriter(SearchSettings(folder, heap_bytes=15_000_000)) as writer:
        writer.replace([page(number, f"A <b>dog</b> & number{number}") for number in range(4)])
        writer.replace([page(9, "A dog of another crawl", "other")])
        writer.commit()


@pytest.fixture
async def searches(redis_client: Any, folder: Path) -> AsyncIterator[Api]:
    opened = await open_api(redis_client)
    context = CrawlContext("web", redis_client, search=PageSearch(folder))
    app = Application(context, tokens=TOKENS)
    api = Api(redis_client, opened.frontier, app, client(app))
    yield api
    await opened.http.aclose()
    await api.http.aclose()


@pytest.mark.usefixtures("index")
async def test_pages_of_the_crawl_are_found(searches: Api) -> None:
    found = await searches.json("GET", "/pages/search?q=dogs+number2")
    (result,) = found["results"]
    assert found["total"] == 1
    assert result.pop("score") > 0
    assert result == {
        "title": "Page 2",
        "url": "http://h2.a0.test/2",
        "crawl": "web",
        "language": "en",
        "crawled_at": "2026-05-06T12:00:00Z",
        "snippet": "A &lt;b&gt;<b>dog</b>&lt;/b&gt; &amp; <b>number2</b>",
    }


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("more", "total"),
    [
        ("", 4),
        ("&crawl=other", 1),
        ("&domain=A0.test", 2),
        ("&domain=h1.a1.test", 1),
        ("&language=de", 0),
        ("&since=2026-05-06T12:00:00Z", 4),
        ("&since=2026-05-06T13:00:00%2B00:00", 0),
        ("&since=50y", 4),
    ],
)
async def test_filters_choose_pages(searches: Api, more: str, total: int) -> None:
    found = await searches.json("GET", f"/pages/search?q=dog&limit=1{more}")
    assert found["total"] == total
    assert len(found["results"]) == min(1, total)


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("query", ["", "q=", "q=%26", "q=dog&limit=101", "q=dog&since=soon"])
async def test_a_wrong_query_is_told(searches: Api, query: str) -> None:
    problem = await searches.json("GET", f"/pages/search?{query}", status=422)
    assert problem["detail"]
    assert "since" not in query or "write a time with its zone" in problem["detail"]


async def test_without_an_index_the_answer_says_how_to_make_one(searches: Api, api: Api) -> None:
    for each in (searches, api):
        problem = await each.json("GET", "/pages/search?q=dog", status=404)
        assert "make one by `scrapy pages index`" in problem["detail"]


@pytest.mark.usefixtures("index")
async def test_without_the_package_the_answer_says_how_to_get_it(
    searches: Api, folder: Path, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    problem = await searches.json("GET", "/pages/search?q=dog", status=503)
    assert "mercator-crawler[search]" in problem["detail"]


@pytest.fixture
def damaged(folder: Path) -> None:
    folder.mkdir()
    (folder / "meta.json").write_text("{}")


@pytest.mark.usefixtures("damaged")
async def test_a_damaged_index_is_no_mistake_of_the_query(searches: Api) -> None:
    problem = await searches.json("GET", "/pages/search?q=dog", status=503)
    assert "scrapy pages index --fresh" in problem["detail"]


async def test_slow_searches_end_and_are_few(searches: Api, monkeypatch: Any) -> None:
    go_on = threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        go_on.wait(60)
        return queries.Results([], 0)

    monkeypatch.setattr(queries, "search", slow)
    monkeypatch.setattr(queries, "_SEARCH_S", 0.05)
    ask = "/pages/search?q=dog"
    first = [searches.json("GET", ask, status=503) for _ in range(queries._SEARCHES)]
    for problem in await asyncio.gather(*first):
        assert "took more than" in problem["detail"]
    # Their threads still run.
    problem = await searches.json("GET", ask, status=503)
    assert "too many searches at once" in problem["detail"]
    go_on.set()
    monkeypatch.setattr(queries, "_SEARCH_S", 60)

    async def is_answered() -> bool:
        return (await searches.http.get(ask)).status_code == 200

    await until(is_answered)
