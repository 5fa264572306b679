"""Pages in Elasticsearch and OpenSearch, on a server that checks the form of every request."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from crawler.errors import ConfigurationError, CrawlerError, ServerAway, SinkAway
from crawler.items import NOT_MODIFIED, Page
from crawler.storage import elastic
from crawler.storage.elastic import ElasticSink
from crawler.storage.sinks import named_sinks, shown_sinks
from crawler.storage.storage import BatchLimits, Storage
from tests.support.certificates import server_context
from tests.support.elastic_server import ElasticServer, Index, error, listening, serving
from tests.support.sinks import page
from tests.support.waiting import until

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
PASSWORD = "s3cret-word"


@pytest.fixture
def server() -> Iterator[ElasticServer]:
    with serving() as server:
        yield server


@asynccontextmanager
async def opened(server: ElasticServer, **options: Any) -> AsyncIterator[ElasticSink]:
    sink = ElasticSink(server.url(), **options)
    await sink.open()
    try:
        yield sink
    finally:
        await sink.close()


@pytest.fixture
async def sink(server: ElasticServer) -> AsyncIterator[ElasticSink]:
    async with opened(server) as sink:
        yield sink


async def write(sink: ElasticSink, *pages: Page) -> dict[int, Any]:
    return dict(await sink.write([sink.prepare(each) for each in pages]))


def storage_of(url: str) -> Storage:
    stats = MemoryStatsCollector(get_crawler())
    limits = BatchLimits(200, 16_000_000, 0.0)
    return Storage({"elasticsearch": ElasticSink(url)}, stats, limits, is_closing=lambda: False)


def identity(each: Page) -> str:
    return f"{each.crawl}:{each.url_hash}"


# --- documents ------------------------------------------------------------------------------------


async def test_a_page_is_a_document_that_fits_the_mapping(
    server: ElasticServer, sink: ElasticSink
) -> None:
    one = page(
        1,
        crawled_at=AT,
        title="One",
        description="d",
        text="grüne Wörter",
        main_text="Wörter",
        markdown="**Wörter**",
        language="de",
        depth=2,
        rendered=True,
    )
    assert await write(sink, one) == {}
    found = server.documents[one.url]
    expected = {
        "title": "One",
        "text": "grüne Wörter",
        "main_text": "Wörter",
        "domain": "a.test",
        "language": "de",
    }
    expected |= {
        "crawl": "web",
        "url_hash": one.url_hash,
        "crawled_at": "2026-01-02T03:04:05.678+00:00",
    }
    expected |= {"status": 200, "stored": True, "depth": 2, "rendered": True}
    assert found.items() >= expected.items()
    assert server.indexes["pages"].properties.keys() >= found.keys()
    assert server.indexes["pages"].properties["text"] == {"type": "text"}


async def test_half_a_surrogate_pair_and_a_huge_text_are_no_obstacle(
    server: ElasticServer, sink: ElasticSink
) -> None:
    odd = page(1, title="a\ud800b\n\u2028", text="x" * 2_000_000)
    assert await write(sink, odd) == {}
    found = server.documents[odd.url]
    assert found["title"] == "a?b\n\u2028"
    assert len(found["text"]) == 1_000_000


async def test_pages_that_are_gone_or_must_not_be_kept_lose_their_words(
    server: ElasticServer,
    sink: ElasticSink,
) -> None:
    later = AT + timedelta(days=1)
    visits = [
        {"status": 404, "stored": False, "reason": "status_404"},
        {"status": 410, "stored": False, "reason": "status_410"},
        {"stored": False, "reason": "noindex"},
        {"duplicate_of": "00000000000000ab"},
    ]
    for number, visit in enumerate(visits):
        await write(sink, page(number, crawled_at=AT, title="T", text="words"))
        await write(sink, page(number, crawled_at=later, title="T", text="words", **visit))
        # An earlier visit that comes late does not bring them back.
        await write(sink, page(number, crawled_at=AT, title="T", text="words"))
    for found in server.documents.values():
        assert not found.keys() & {"title", "text", "description"}
    reasons = [found.get("reason") for found in server.documents.values()]
    assert reasons == ["status_404", "status_410", "noindex", None]


async def test_visits_that_tell_nothing_new_leave_the_document(
    server: ElasticServer, sink: ElasticSink
) -> None:
    await write(sink, page(1, title="T", text="words"))
    later = {"crawled_at": AT + timedelta(days=1), "stored": False}
    await write(
        sink,
        page(1, status=304, flags=[NOT_MODIFIED], **later),
        page(1, status=503, reason="status_503", **later),
        page(1, status=0, reason="timeout", **later),
    )
    assert server.documents["http://a.test/1"]["text"] == "words"
    assert server.batches == [1]


async def test_a_late_write_never_replaces_a_newer_document(
    server: ElasticServer, sink: ElasticSink
) -> None:
    newer = page(1, crawled_at=AT + timedelta(milliseconds=1), title="newer")
    assert await write(sink, newer) == {}
    assert await write(sink, page(1, crawled_at=AT, title="older")) == {}
    assert server.documents[newer.url]["title"] == "newer"
    # The same visit again, as after a crash, is no conflict.
    assert await write(sink, newer) == {}
    assert len(server.documents) == 1


# --- opening --------------------------------------------------------------------------------------


async def test_an_index_that_exists_keeps_its_fields_and_gets_those_that_it_lacks() -> None:
    own = {"type": "keyword"}
    with serving(indexes={"pages": Index({"title": own})}) as server:
        async with opened(server) as sink:
            assert server.indexes["pages"].properties["title"] == own
            await write(sink, page(1, title="T", text="t"))
            assert server.documents["http://a.test/1"]["title"] == "T"
            await ElasticSink(server.url()).check()
            # The second time nothing is missing.
            assert [method for method, _ in server.requests] == ["GET", "PUT", "POST", "GET", "GET"]


async def test_two_processes_may_make_the_index_at_the_same_time(server: ElasticServer) -> None:
    server.answers.append(error(404, "index_not_found_exception", "no such index"))
    server.indexes["pages"] = Index({})
    async with opened(server):
        assert [method for method, _ in server.requests] == ["GET", "PUT"]


@pytest.mark.parametrize(
    "options",
    [
        {"credentials": f"crawler:{PASSWORD}"},
        {"credentials": "crawler:s3cret%2Dword", "scheme": "opensearch"},
    ],
)
async def test_user_and_password_are_those_of_the_url(options: dict[str, str]) -> None:
    with serving(user=f"crawler:{PASSWORD}") as server:
        sink = ElasticSink(server.url(**options), api_key="another")
        report = await sink.check()
    assert "ms per round trip" in report.text
    assert PASSWORD not in report.text


async def test_without_a_user_the_api_key_is_used() -> None:
    with serving(api_key="bXkta2V5") as server:
        async with opened(server, api_key="bXkta2V5"):
            assert len(server.requests) == 2


async def test_wrong_credentials_end_the_start_with_a_line_that_hides_them() -> None:
    with serving(user="crawler:other") as server:
        url = server.url(f"crawler:{PASSWORD}")
        with pytest.raises(
            ConfigurationError, match=r"refuses the credentials.*401.*SINKS"
        ) as found:
            await storage_of(url).open()
    for secret in (PASSWORD, "Y3Jhd2xlcjpzM2NyZXQtd29yZA=="):
        assert secret not in str(found.value)
    assert PASSWORD not in shown_sinks(Settings({"SINKS": url}))


async def test_a_server_that_is_not_there_or_no_such_server_is_told_at_the_start(
    server: ElasticServer,
) -> None:
    server.answers.append(error(503, "master_not_discovered_exception", "no master"))
    with pytest.raises(ServerAway, match=r"cannot be used .503 master_not"):
        await ElasticSink(server.url()).open()
    server.answers.append((200, "<html>"))
    with pytest.raises(ServerAway, match=r"no JSON.*html"):
        await ElasticSink(server.url()).open()
    server.answers.append(error(400, "invalid_index_name_exception", "it is wrong"))
    with pytest.raises(ConfigurationError, match=r"it is wrong\).$"):
        await ElasticSink(server.url()).open()
    server.answers.append((405, ""))
    with pytest.raises(ConfigurationError, match=r"\(405\)\. Is this Elasticsearch"):
        await ElasticSink(server.url()).open()
    with pytest.raises(ServerAway, match=r"127.0.0.1:1/pages cannot be reached.*\?tls=1"):
        await ElasticSink("elasticsearch://127.0.0.1:1/pages").open()


async def test_a_certificate_that_nobody_vouches_for_is_told_at_the_start(tmp_path: Path) -> None:
    with serving(server_context(tmp_path)) as server:
        with pytest.raises(ServerAway, match=r"certificate.*SSL_CERT_FILE"):
            await ElasticSink(server.url(rest="?tls=1")).open()
        with pytest.raises(ServerAway, match=r"add \?tls=1"):
            await ElasticSink(server.url()).open()


async def test_pages_go_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    with serving(context) as server:
        sink = ElasticSink(server.url(rest="?tls=1"))
        # The certificate has the name of no address.
        sink._client._tls.check_hostname = False  # type: ignore[union-attr]
        await sink.open()
        await write(sink, page(1))
        await sink.close()
        assert len(server.documents) == 1


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("elasticsearch://host:9200", "whose index is ''"),
        ("elasticsearch://host:9200/Pages", "'Pages'.*small letters"),
        ("elasticsearch://host:9200/a/b", "'a/b'"),
        ("elasticsearch:///pages", "without a server"),
        ("elasticsearch://host:x/pages", "no URL"),
        ("opensearch://host/pages?tls=yes", r"only option of opensearch is \?tls=1"),
        ("opensearch://host/pages?verify=0", "only option"),
        ("opensearch://host/pages?tls", "no URL"),
    ],
)
def test_a_wrong_address_is_a_line(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        ElasticSink(url)


def test_a_key_with_odd_characters_is_a_line_without_it() -> None:
    with pytest.raises(ConfigurationError, match="ELASTICSEARCH_API_KEY") as found:
        ElasticSink("opensearch://host/pages", api_key="my\nkey")
    assert "key" not in str(found.value).replace("encoded key", "")


def test_both_servers_are_named_by_their_urls() -> None:
    sinks = named_sinks(Settings({"SINKS": "elasticsearch://a/pages opensearch://b/pages"}))
    assert [sink.name for sink in sinks] == ["elasticsearch", "opensearch"]
    assert {sink.load() for sink in sinks} == {ElasticSink}


# --- failures -------------------------------------------------------------------------------------


async def test_only_rejected_documents_are_sent_again(server: ElasticServer) -> None:
    storage = storage_of(server.url())
    await storage.open()
    pages = [page(number) for number in range(6)]
    server.items = {identity(pages[1]): [429, 503], identity(pages[4]): [500]}
    await asyncio.gather(*map(storage.put, pages))
    await storage.close()
    assert server.documents.keys() == {each.url for each in pages}
    assert [server.sent[identity(each)] for each in pages] == [1, 3, 1, 1, 2, 1]


async def test_rejected_documents_are_told_with_their_reason(
    server: ElasticServer, sink: ElasticSink
) -> None:
    batch = [sink.prepare(page(number)) for number in range(3)]
    server.items = {identity(page(1)): [429]}
    with pytest.raises(SinkAway, match="1 of 3 pages were rejected: 429 as_told: it was told so"):
        await sink.write(batch)
    assert await sink.write(batch) == {}
    assert server.batches == [3, 1]


async def test_a_document_that_does_not_fit_the_index_refuses_its_page_only() -> None:
    with serving(indexes={"pages": Index({"title": {"type": "integer"}})}) as server:
        storage = storage_of(server.url())
        await storage.open()
        gone = page(1, status=404, stored=False)
        results = await asyncio.gather(
            storage.put(page(0, title="T")), storage.put(gone), return_exceptions=True
        )
        await storage.close()
        assert isinstance(results[0], CrawlerError)
        assert "400 document_parsing_exception: failed to parse field [title]" in str(results[0])
        assert results[1] is None
        assert list(server.documents) == [gone.url]


async def test_a_batch_that_is_too_large_is_split_and_later_ones_are_smaller() -> None:
    with serving(max_bytes=5000) as server:
        async with opened(server) as sink:
            pages = [page(number, text="x" * 1000) for number in range(10)]
            assert await write(sink, *pages) == {}
            assert len(server.documents) == 10
            before = len(server.requests)
            assert await write(sink, *pages) == {}
            assert len(server.requests) - before == len(server.batches) / 2


async def test_a_document_that_is_too_large_alone_is_refused() -> None:
    with serving(max_bytes=5000) as server:
        async with opened(server) as sink:
            results = await write(sink, page(0), page(1, text="x" * 9000), page(2))
            assert results.keys() == {1}
            assert "413 Request Entity Too Large; raise http.max_content_length" in str(results[1])
            assert len(server.documents) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 502, 503, 504])
async def test_a_request_that_fails_for_now_is_repeated(server: ElasticServer, status: int) -> None:
    storage = storage_of(server.url())
    await storage.open()
    server.answers.append(error(status, "as_told", "it was told so"))
    await storage.put(page(1))
    await storage.close()
    assert len(server.documents) == 1


async def test_a_request_that_the_server_never_takes_refuses_its_pages(
    server: ElasticServer,
    sink: ElasticSink,
) -> None:
    server.answers.append(error(400, "parse_exception", "it is wrong"))
    with pytest.raises(CrawlerError, match="it is wrong") as found:
        await write(sink, page(1))
    assert not sink.is_away(found.value)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"items": []},
        {"items": [{"index": {"_id": "other", "status": 200}}]},
        {"items": [{"index": {"_id": identity(page(1))}}]},
        {"items": [{"index": {"_id": identity(page(1)), "status": "200"}}]},
        "<html>",
        [],
    ],
)
async def test_an_answer_that_does_not_tell_what_became_of_pages_counts_for_nothing(
    server: ElasticServer, sink: ElasticSink, answer: Any
) -> None:
    server.answers.append((200, answer))
    with pytest.raises(SinkAway):
        await write(sink, page(1))


@pytest.mark.parametrize("done", [False, True])
async def test_a_connection_that_is_cut_costs_no_page(server: ElasticServer, done: bool) -> None:
    storage = storage_of(server.url())
    await storage.open()
    # Twice: a request on a connection that was open is repeated at once.
    server.cuts += [done, done]
    await storage.put(page(1))
    await storage.close()
    assert len(server.documents) == 1


async def test_a_server_that_closed_an_idle_connection_is_not_away(
    server: ElasticServer, caplog: pytest.LogCaptureFixture
) -> None:
    storage = storage_of(server.url())
    await storage.open()
    server.cuts.append(False)
    await storage.put(page(1))
    await storage.close()
    assert "away" not in caplog.text
    assert len(server.documents) == 1


async def test_a_server_that_does_not_answer_is_away(
    server: ElasticServer, sink: ElasticSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elastic, "_TIMEOUT_S", 0.2)
    server.answers.append(server.silent)  # type: ignore[arg-type]
    with pytest.raises(TimeoutError) as found:
        await write(sink, page(1))
    assert sink.is_away(found.value)
    # The next write has a connection of its own.
    assert await write(sink, page(1)) == {}


async def test_a_write_that_is_cancelled_leaves_no_thread_behind(
    server: ElasticServer, sink: ElasticSink
) -> None:
    server.answers.append(server.silent)  # type: ignore[arg-type]
    writing = asyncio.ensure_future(write(sink, page(1)))
    await until(lambda: len(server.requests) == 3)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    # It would wait for the thread until the test's loop is closed.
    await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 10)


async def test_a_server_that_is_started_again_gets_every_page(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    server = ElasticServer(user=f"crawler:{PASSWORD}")
    with listening(server):
        storage = storage_of(server.url(f"crawler:{PASSWORD}"))
        await storage.open()
        await storage.put(page(0))
        port = server.port
    # Its connections are still open, and cut: nothing listens any more.
    server.cuts += [False]
    writing = asyncio.gather(*(storage.put(page(number)) for number in range(1, 20)))
    await until(lambda: "is away" in caplog.text)
    assert not writing.done()
    with listening(server, port=port):
        await writing
        await storage.close()
    assert len(server.documents) == 20
    assert not server.faults
    assert PASSWORD not in caplog.text
