"""WARC files of rendered pages: their parts, and what the browser showed beside what was sent."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.core.downloader import Downloader
from scrapy.crawler import Crawler
from warcio.archiveiterator import ArchiveIterator

from crawler.download.direct import DirectDownloads
from crawler.items import Page
from crawler.pipelines.store import Store
from crawler.rendering.messages import Part, PartAnswer
from crawler.rendering.parts import (
    OwnHost,
    PageParts,
    PartCache,
    PartLimits,
    Rules,
    Services,
    Visit,
)
from crawler.scheduling.page_maker import PageMaker
from crawler.servers.connections import Servers
from crawler.storage.warc.reader import Archive, FolderSource, Verified
from crawler.urls import Urls
from tests.support.archives import audit
from tests.support.crawlers import project_crawler
from tests.support.http_server import LOOPBACK, ok, serving
from tests.unit.storage.warc.pages import exchange, page

SHELL = b'<html><div id="app"></div><script src="/app.js"></script>' + b" " * 500


@pytest.fixture
async def crawler(tmp_path: Path) -> AsyncIterator[Crawler]:
    """A crawl whose only sink is a folder of WARC files."""
    crawler = project_crawler(
        SINKS=f"warc:{tmp_path / 'archive'}",
        CRAWL_DIR=str(tmp_path),
        DOWNLOADER_MIDDLEWARES={},
        ALLOW_NETWORKS=LOOPBACK,
    )
    crawler.spider = Spider("web")
    engine: Any = SimpleNamespace(_slot=None, downloader=Downloader(crawler))
    crawler.engine = engine
    yield crawler
    await engine.downloader.handlers._close()
    await Servers.of(crawler).close()


@asynccontextmanager
async def storing(crawler: Crawler) -> AsyncIterator[Store]:
    store = Store.from_crawler(crawler)
    await store.open_spider()
    try:
        yield store
    finally:
        await store.close_spider()


def parts_of(crawler: Crawler, store: Store, host: str) -> PageParts:
    """Parts of a page of this host, through our own client and into our own sinks."""

    async def allowed(_url: str) -> Rules:
        return Rules(allowed=True)

    async def no_fetch(_url: str, _visit: Visit, _proxy: str) -> float | None:
        pytest.fail("all rules are known")

    def no_visit(host: str, _within_s: float) -> Any:
        pytest.fail(f"{host} is another host")

    services = Services(
        download=DirectDownloads(crawler).download,
        rules=allowed,
        fetch_rules=no_fetch,
        visit=no_visit,
        archive=lambda response: store.archive(PageMaker.of(crawler).page_of(response)),
        urls=Urls(),
        excludes=lambda _url: False,
        count=lambda _name, _by: None,
    )
    own = OwnHost(host, lambda: True)
    return PageParts(services, PartLimits(), PartCache(0), own)


def records_in(folder: Path) -> list[Any]:
    """All records in order, each with its content."""
    found = []
    for path in sorted(folder.glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.content = record.content_stream().read()
                found.append(record)
    return found


async def test_parts_of_a_page_are_archived_as_records_of_their_own(
    crawler: Crawler, tmp_path: Path
) -> None:
    asked = [
        Part("/app.js", "GET", "script", {"referer": "http://h.test/", "cookie": "secret"}),
        Part("/api", "POST", "fetch", {"content-type": "application/json"}, b'{"page": 1}'),
        Part("/api", "POST", "fetch", {"content-type": "application/json"}, b'{"page": 2}'),
    ]
    async with serving(ok(b"found", b"Content-Type: application/json")) as server:
        host = server.url.split("/")[2]
        async with storing(crawler) as store:
            parts = parts_of(crawler, store, host)
            for part in asked:
                url = f"{server.url}{part.url[1:]}"
                given = Part(url, part.method, part.kind, part.headers, part.body)
                answer = await parts.answer(given)
                assert isinstance(answer, PartAnswer)
                assert answer.body == b"found"
            # All are archived before the page is.
            await parts.close()
    folder = tmp_path / "archive"
    found = await asyncio.to_thread(audit, folder)
    assert found.types == {"warcinfo": 1, "request": 3, "response": 3}
    # Two requests to one URL are two captures.
    assert Counter(line["url"].rpartition("/")[2] for line in found.lines) == {
        "app.js": 1,
        "api": 2,
    }
    records = await asyncio.to_thread(records_in, folder)
    sent = [each for each in records if each.rec_type == "request"]
    assert [each.content for each in sent] == [b"", b'{"page": 1}', b'{"page": 2}']
    assert [each.http_headers.protocol for each in sent] == ["GET", "POST", "POST"]
    header = sent[0].rec_headers.get_header
    assert header("WARC-Target-URI") == f"{server.url}app.js"
    assert header("WARC-Crawl") == "web"
    assert header("WARC-IP-Address") is None
    assert sent[0].http_headers.get_header("Referer") == "http://h.test/"
    assert sent[0].http_headers.get_header("Cookie") is None
    responses = [each for each in records if each.rec_type == "response"]
    assert [each.content for each in responses] == [b"found"] * 3
    assert [each.rec_headers.get_header("WARC-IP-Address") for each in responses] == [
        "127.0.0.1"
    ] * 3


def rendered(url: str, shown: bytes) -> Page:
    """A page whose server sent the shell, and whose browser showed something else."""
    return page(url, exchange(body=SHELL, url=url), rendered=True, body=shown)


async def test_a_rendered_page_has_the_response_and_what_was_made_of_it(
    crawler: Crawler, tmp_path: Path
) -> None:
    shown = "<html><div id=app><h1>Grüße</h1></div>".encode()
    # Its script has called the history API.
    one = rendered("http://a.test/", shown)
    one.final_url = "http://a.test/home"
    # An application sends the same shell for all of its pages.
    two = rendered("http://a.test/two", b"<html><h1>Two</h1>")
    async with storing(crawler) as store:
        for each in (one, two):
            await store.process_item(each)
    folder = tmp_path / "archive"
    found = await asyncio.to_thread(audit, folder)
    assert found.types == {
        "warcinfo": 1,
        "request": 2,
        "response": 1,
        "revisit": 1,
        "conversion": 2,
    }
    assert [line["url"] for line in found.lines] == ["http://a.test/", "http://a.test/two"]
    records = await asyncio.to_thread(records_in, folder)
    captures = [each for each in records if each.rec_type in ("response", "revisit")]
    conversions = [each for each in records if each.rec_type == "conversion"]
    assert captures[0].content == SHELL
    assert [each.content for each in conversions] == [one.body, two.body]
    for capture, conversion in zip(captures, conversions, strict=True):
        of_capture, header = capture.rec_headers.get_header, conversion.rec_headers.get_header
        assert header("WARC-Refers-To") == of_capture("WARC-Record-ID")
        for name in ("WARC-Target-URI", "WARC-URL-Hash", "WARC-Visit", "WARC-Date"):
            assert header(name) == of_capture(name)
        assert header("Content-Type") == "text/html; charset=utf-8"
    # The command that checks archives agrees.
    verified = Verified()
    async for _ in Archive([FolderSource(folder)]).verify(verified):
        pass
    assert (verified.captures, verified.indexed, verified.damage) == (2, 2, [])
