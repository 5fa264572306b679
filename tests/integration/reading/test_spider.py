"""The generic spider and documents: read apart, stored with a reason, and never in the way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import DownloadConnectionRefusedError
from scrapy.http import HtmlResponse, Response
from twisted.python.failure import Failure

from crawler.download import DownloadHandler
from crawler.download.errors import TooManyDocuments
from crawler.errors import NotStored
from crawler.frontier.entry import DOCUMENTS
from crawler.items import Page
from crawler.reading.pool import DocumentPool
from crawler.scheduling.outcome import SettlingErrback
from crawler.spiders.web import WebSpider
from crawler.util.request_meta import LEASE
from demo.documents import pdf
from tests.support.http_server import LOOPBACK, ok, serving, then_silent
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of
from tests.support.waiting import until

URL = "http://h.test/folder/file"
OWN = {f"test/{name}": f"tests.support.readers.{name}" for name in ("title", "unread", "endless")}
MakeSpider = Callable[..., WebSpider]


@pytest.fixture
async def make_spider() -> AsyncIterator[MakeSpider]:
    crawlers: list[Crawler] = []
    spiders: list[WebSpider] = []

    def make(**settings: Any) -> WebSpider:
        given = {
            "READERS": OWN,
            "DOCUMENT_WORKERS": 1,
            "DOCUMENT_NICE": 0,
            "ALLOW_NETWORKS": LOOPBACK,
        }
        crawlers.append(crawler_with(WritingScheduler(), **given | settings))
        spiders.append(WebSpider.from_crawler(crawlers[-1]))
        return spiders[-1]

    yield make
    for crawler in crawlers:
        await DocumentPool.of(crawler).close()
    for spider in spiders:
        assert spider.large_pages is not None
        await spider.large_pages.close()


def response_of(kind: str, body: bytes, **headers: str) -> Response:
    return Response(URL, headers={"Content-Type": kind, **headers}, body=body)


async def page_of(response: Response, spider: WebSpider, **entry: Any) -> Page:
    response.request = Request(response.url, meta={LEASE: lease_of(URL, **entry)})
    (page,) = [page async for page in spider.parse(response)]
    return page


async def test_a_reader_of_the_user_makes_the_page(make_spider: MakeSpider) -> None:
    body = b"Title\n/a\n../b?utm_source=x\nnot a url://\nhttp://o.test#x"
    page = await page_of(response_of("test/title", body), make_spider())
    assert (page.title, page.text, page.media_type) == ("Title", f"at {URL}", "test/title")
    assert page.links[:2] == ["http://h.test/a", "http://h.test/b"]
    assert page.links[-1] == "http://o.test/"
    assert (page.stored, page.flags) == (True, [])


async def test_a_reader_of_the_user_may_replace_ours(make_spider: MakeSpider) -> None:
    spider = make_spider(READERS={"text/html": "tests.support.readers.title"})
    response = HtmlResponse(URL, headers={"Content-Type": "text/html"}, body=b"Title\n/a")
    page = await page_of(response, spider)
    assert (page.title, page.links) == ("Title", ["http://h.test/a"])


async def test_a_document_may_ask_in_its_headers_not_to_be_followed_or_kept(
    make_spider: MakeSpider,
) -> None:
    spider, body = make_spider(), b"Title\n/a"
    page = await page_of(response_of("test/title", body, **{"X-Robots-Tag": "nofollow"}), spider)
    assert (page.title, page.links, page.stored) == ("Title", [], True)
    page = await page_of(response_of("test/title", body, **{"X-Robots-Tag": "noindex"}), spider)
    assert (page.stored, page.reason) == (False, "noindex")


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("test/unread", b"encrypted", "encrypted"),
        ("test/title", b"\xff", "failed"),
        ("application/pdf", b"%PDF-1.7 and nothing else", "damaged"),
    ],
)
async def test_an_unread_document_is_stored_with_its_bytes_and_the_reason(
    make_spider: MakeSpider, kind: str, body: bytes, reason: str
) -> None:
    page = await page_of(response_of(kind, body), make_spider())
    assert (page.stored, page.reason, page.flags) == (True, "", [f"unread:{reason}"])
    assert (page.body, page.media_type, page.text) == (body, kind, "")


async def test_what_is_left_out_of_a_document_is_a_flag_of_its_page(
    make_spider: MakeSpider,
) -> None:
    spider = make_spider(DOCUMENT_PAGES=1)
    page = await page_of(response_of("application/pdf", pdf(["one", "two"])), spider)
    assert (page.text, page.flags) == ("one", ["cut:pages"])


async def test_pages_are_read_and_fetched_while_documents_wait(make_spider: MakeSpider) -> None:
    spider = make_spider()
    slot = spider.crawler.engine.scraper.slot  # type: ignore[union-attr]
    document = response_of("test/endless", bytes(10_000_000))
    # As Scrapy counts it before it calls the spider.
    slot.active_size = len(document.body)
    waiting = asyncio.create_task(page_of(document, spider))
    await until(lambda: spider.documents.workers)
    assert slot.active_size == 0
    html = HtmlResponse(URL, headers={"Content-Type": "text/html"}, body=b"<title>Page</title>")
    assert (await page_of(html, spider)).title == "Page"
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slot.active_size == len(document.body)


async def test_a_document_that_waits_when_the_crawl_closes_is_no_page(
    make_spider: MakeSpider,
) -> None:
    spider = make_spider()
    spider.crawler.engine._slot.closing = object()  # type: ignore[union-attr]
    with pytest.raises(NotStored):
        await page_of(response_of("test/title", b"Title"), spider)


async def test_a_file_that_is_called_a_page_is_not_read_while_too_many_wait(
    make_spider: MakeSpider,
) -> None:
    spider = make_spider(DOCUMENT_WAITING_BYTES=1)
    waiting = asyncio.create_task(page_of(response_of("test/endless", b"x"), spider))
    await until(lambda: spider.documents.is_full)
    page = await page_of(response_of("text/html", b"%PDF-1.7"), spider)
    assert page.flags == ["unread:busy"]
    # One that the downloader knew by its URL waits like those that are called documents.
    known = asyncio.create_task(
        page_of(response_of("text/html", b"%PDF-1.7"), spider, queue=DOCUMENTS)
    )
    await until(lambda: known.done() or spider.documents._waiting_bytes > 60_000)
    assert not known.done()
    known.cancel()
    waiting.cancel()


# --- the downloader ------------------------------------------------------------------------------


@asynccontextmanager
async def handler_of(spider: WebSpider) -> AsyncIterator[DownloadHandler]:
    handler = DownloadHandler.from_crawler(spider.crawler)
    try:
        yield handler
    finally:
        await handler.close()


@pytest.mark.parametrize(
    ("kind", "status", "is_put_off"),
    [
        (b"application/pdf", b"200", True),
        (b"Application/X-PDF; charset=utf-8", b"200", True),
        (b"test/title", b"200", True),
        (b"text/html", b"200", False),
        (b"application/pdf", b"404", False),
    ],
)
async def test_documents_are_not_fetched_while_too_many_wait_and_pages_are(
    make_spider: MakeSpider, kind: bytes, status: bytes, is_put_off: bool
) -> None:
    spider = make_spider(DOCUMENT_WAITING_BYTES=1, ACCEPT_TYPES=["application/*", "text/html"])
    waiting = asyncio.create_task(page_of(response_of("test/endless", b"x"), spider))
    await until(lambda: spider.documents.is_full)
    head = b"HTTP/1.1 %b X\r\nContent-Type: %b\r\nContent-Length: 4\r\n\r\n" % (status, kind)
    async with handler_of(spider) as handler, serving(then_silent(head + b"body")) as server:
        request = Request(server.url, meta={LEASE: lease_of(URL)})
        if is_put_off:
            with pytest.raises(TooManyDocuments):
                await handler.download_request(request)
        else:
            assert (await handler.download_request(request)).body == b"body"
        # What has no lease, as robots.txt, is no document of the crawl.
        assert (await handler.download_request(Request(server.url))).body == b"body"
    waiting.cancel()
    stats = spider.crawler.stats
    assert stats is not None
    assert stats.get_value("documents/postponed", 0) == int(is_put_off)


async def test_while_too_many_wait_known_documents_cost_no_contact(make_spider: MakeSpider) -> None:
    spider = make_spider(DOCUMENT_WAITING_BYTES=1)
    async with handler_of(spider) as handler:
        # Nothing listens there.
        request = Request("http://127.0.0.1:1/a", meta={LEASE: lease_of(URL, queue=DOCUMENTS)})
        with pytest.raises(DownloadConnectionRefusedError):
            await handler.download_request(request)
        waiting = asyncio.create_task(page_of(response_of("test/endless", b"x"), spider))
        await until(lambda: spider.documents.is_full)
        with pytest.raises(TooManyDocuments):
            await handler.download_request(request)
        page = Request("http://127.0.0.1:1/a", meta={LEASE: lease_of(URL, queue=5)})
        with pytest.raises(DownloadConnectionRefusedError):
            await handler.download_request(page)
    waiting.cancel()


@pytest.mark.parametrize(
    ("path", "headers", "is_accepted"),
    [
        ("a", b"Content-Type: application/pdf", True),
        ("a", b"Content-Type: Application/X-PDF", True),
        ("a", b"Content-Type: application/vnd.ms-word.document.macroEnabled.12", True),
        # Servers that do not know the type.
        ("a.pdf?b", b"Content-Type: application/octet-stream", True),
        ("a.docx", b"Content-Type: application/zip", True),
        ("a.doc", b"Content-Type: application/octet-stream", False),
        ("a", b"Content-Type: application/octet-stream", False),
        (
            "a?b",
            b'Content-Type: application/x-download\r\nContent-Disposition: a; filename="a;b.PDF"',
            True,
        ),
        (
            "a.pdf",
            b"Content-Type: application/zip\r\nContent-Disposition: a; filename*=UTF-8''a.zip; b=1",
            False,
        ),
        # Only its first 1,000 characters are read.
        (
            "a.pdf",
            b"Content-Type: application/zip\r\nContent-Disposition: %01000d; filename=a.zip" % 1,
            True,
        ),
        ("a.png", b"Content-Type: image/png", False),
    ],
)
async def test_documents_are_downloaded_if_they_are_followed(
    make_spider: MakeSpider, path: str, headers: bytes, is_accepted: bool
) -> None:
    answer = ok(b"body").replace(b"\r\n", b"\r\n%b\r\n" % headers, 1)
    for follows in (True, False):
        spider = make_spider(FOLLOW_DOCUMENTS=follows)
        async with handler_of(spider) as handler, serving(then_silent(answer)) as server:
            request = Request(server.url + path, meta={LEASE: lease_of(URL)})
            response = await handler.download_request(request)
        assert response.body == (b"body" if is_accepted and follows else b"")


def test_there_is_a_warning_if_pdf_is_followed_and_cannot_be_read(
    make_spider: MakeSpider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_spider()
    monkeypatch.setattr("crawler.util.extras.find_spec", lambda _name: None)
    make_spider(FOLLOW_DOCUMENTS=False)
    make_spider(READERS={"application/pdf": "tests.support.readers.title"})
    assert not caplog.messages
    make_spider()
    (line,) = caplog.messages
    assert "needs the package pypdfium2" in line
    assert "[documents]" in line
    assert "FOLLOW_DOCUMENTS=False" in line


async def test_a_type_with_a_reader_of_the_user_is_accepted(make_spider: MakeSpider) -> None:
    spider = make_spider()
    answer = ok(b"body").replace(b"\r\n", b"\r\nContent-Type: test/title\r\n", 1)
    async with handler_of(spider) as handler, serving(then_silent(answer)) as server:
        request = Request(server.url, meta={LEASE: lease_of(URL)})
        assert (await handler.download_request(request)).body == b"body"


def test_a_document_that_is_too_many_is_fetched_later_without_an_attempt() -> None:
    scheduler = WritingScheduler()
    errback = SettlingErrback(scheduler.failures, lease_of(URL, attempts=3), None)
    assert errback(Failure(TooManyDocuments("too many"))) is None  # type: ignore[no-untyped-call]
    ((verb, url, delay_ms, queue),) = scheduler.calls
    # By now it is known to be a document.
    assert (verb, url, queue) == ("postpone", URL, DOCUMENTS)
    assert 10_000 <= delay_ms <= 20_000


def html_of(body: bytes) -> HtmlResponse:
    return HtmlResponse(URL, headers={"Content-Type": "text/html; charset=utf-16"}, body=body)


async def test_a_large_page_is_read_in_a_process_of_its_own(make_spider: MakeSpider) -> None:
    spider = make_spider(MAX_OUTLINKS=2)
    text = "<title>Größe</title>" + "<a href=/a>x</a><a href=/b>y</a><a href=/c>z</a>" * 9_000
    page = await page_of(html_of(text.encode("utf-16")), spider)
    assert (page.title, page.charset, page.media_type) == ("Größe", "utf-16-le", "text/html")
    assert page.links == ["http://h.test/a", "http://h.test/b"]
    assert (page.stored, page.flags) == (True, [])
    stats = spider.crawler.stats
    assert stats is not None
    assert stats.get_value("large_pages/read") == 1
    assert stats.get_value("documents/read") is None


async def test_of_a_large_page_as_much_text_is_kept_as_is_stored(make_spider: MakeSpider) -> None:
    page = await page_of(html_of(("word " * 300_000).encode("utf-16")), make_spider())
    assert (len(page.text), page.flags) == (1_000_000, ["cut:text"])
    assert sum(map(len, page.blocks or ())) <= 1_000_000


async def test_a_large_page_that_takes_too_much_memory_is_stored_without_its_text(
    make_spider: MakeSpider,
) -> None:
    spider = make_spider(DOCUMENT_MEMORY=200_000_000)
    page = await page_of(html_of(("<a>x" * 1_000_000).encode("utf-16")), spider)
    assert (page.stored, page.text, page.flags) == (True, "", ["unread:memory"])
    stats = spider.crawler.stats
    assert stats is not None
    assert stats.get_value("large_pages/unread/memory") == 1
