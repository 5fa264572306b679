"""What Scrapy users expect of a download handler: TLS, signals, limits, addresses."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import brotli
import pytest
from cryptography import x509
from scrapy import Request, signals
from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable

from crawler.download.errors import TooBig
from crawler.download.handler import DownloadHandler
from crawler.fastpath.decompression import Decompression
from crawler.util.request_meta import LEASE
from tests.support.certificates import server_context
from tests.support.crawlers import project_crawler
from tests.support.http_server import Server, handler_with, ok, serving, then_closed, then_silent
from tests.support.schedulers import lease_of

HTML = b"Content-Type: text/html"


@pytest.fixture
async def handler() -> AsyncIterator[DownloadHandler]:
    async with handler_with() as handler:
        yield handler


async def fetch(handler: DownloadHandler, url: str, **arguments: Any) -> Response:
    return await handler.download_request(Request(url, **arguments))


def stat(handler: DownloadHandler, name: str) -> int:
    assert handler.crawler.stats is not None
    return int(handler.crawler.stats.get_value(name, 0))


# --- TLS -----------------------------------------------------------------------------------------


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    return server_context(tmp_path)


async def test_a_certificate_is_not_verified_unless_asked_for(tls: ssl.SSLContext) -> None:
    async with serving(ok(b"hi"), tls=tls) as server:
        url = f"https://127.0.0.1:{server.port}/"
        async with handler_with() as handler:
            response = await fetch(handler, url)
        assert response.body == b"hi"
        [name] = x509.load_der_x509_certificate(response.certificate).subject
        assert name.value == "h.test"
        async with handler_with(DOWNLOAD_VERIFY_CERTIFICATES=True) as strict:
            with pytest.raises(DownloadFailedError, match="certificate"):
                await fetch(strict, url)


async def test_no_limit_of_fetches_is_none() -> None:
    async with (
        handler_with(CONCURRENT_REQUESTS=0) as handler,
        serving(then_silent(ok(b"abc"))) as server,
    ):
        assert (await fetch(handler, server.url)).body == b"abc"


async def test_both_schemes_share_their_connections(tls: ssl.SSLContext) -> None:
    async with serving(ok(b"a")) as plain, serving(ok(b"b"), tls=tls) as secure:
        crawler = project_crawler(ALLOW_NETWORKS=["127.0.0.0/8"])
        first, second = (DownloadHandler.from_crawler(crawler) for _ in range(2))
        assert first._client is second._client
        await fetch(first, plain.url)
        await first.close()
        await fetch(second, f"https://127.0.0.1:{secure.port}/")
        client = second._client
        assert len(client.pool.waiting) == 2
        await second.close()
        assert not client.pool.waiting


# --- what a response tells -----------------------------------------------------------------------


async def test_a_response_knows_its_address_and_protocol(handler: DownloadHandler) -> None:
    async with serving(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        response = await fetch(handler, server.url)
    assert response.ip_address == ip_address("127.0.0.1")
    assert response.protocol == "HTTP/1.0"
    assert response.certificate is None


async def test_nothing_is_sent_to_nobody(
    handler: DownloadHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(
        handler.crawler.signals, "send_catch_log", lambda signal, **_: sent.append(signal) or []
    )
    async with serving(ok(b"hi")) as server:
        await fetch(handler, server.url)
    assert sent == []


async def test_bytes_are_signalled_and_may_stop_the_download() -> None:
    crawler = project_crawler(ALLOW_NETWORKS=["127.0.0.0/8"])
    handler = DownloadHandler.from_crawler(crawler)
    got: list[bytes] = []

    def stop(data: bytes) -> None:
        got.append(data)
        raise StopDownload(fail=len(got) > 1)

    crawler.signals.connect(stop, signals.bytes_received)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    async with serving(then_silent(head + b"begin")) as server:
        response = await fetch(handler, server.url)
        with pytest.raises(StopDownload) as stopped:
            await fetch(handler, server.url)
    assert (response.body, response.flags) == (b"begin", ["download_stopped"])
    assert stopped.value.response.body == b"begin"
    await handler.close()


async def test_a_big_body_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with handler_with(DOWNLOAD_WARNSIZE=3) as handler, serving(ok(b"1234")) as server:
        await fetch(handler, server.url)
        await fetch(handler, server.url, meta={"download_warnsize": 0})
    assert caplog.text.count("larger than download warn size (3)") == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ],
    ids=["length", "chunks"],
)
async def test_a_body_that_ends_early_may_be_taken_as_it_is(answer: bytes) -> None:
    async with (
        handler_with(DOWNLOAD_FAIL_ON_DATALOSS=False) as handler,
        serving(then_closed(answer)) as server,
    ):
        response = await fetch(handler, server.url)
        assert (response.body, response.flags[0]) == (b"short", "dataloss")
        with pytest.raises(ResponseDataLossError):
            await fetch(handler, server.url, meta={"download_fail_on_dataloss": True})


# --- limits --------------------------------------------------------------------------------------


async def test_a_body_that_drips_is_cut_off_in_time(handler: DownloadHandler) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with serving(drip) as server:
        with pytest.raises(DownloadTimeoutError):
            await fetch(handler, server.url, meta={"download_timeout": 0.2})
    assert stat(handler, "download/timeouts") == 1


@pytest.mark.parametrize(
    "fields",
    [[b"X-%d: 1" % number for number in range(5000)], [b"X: " + b"y" * 70_000]],
    ids=["many", "long"],
)
async def test_too_many_or_too_long_headers_are_a_failure(
    handler: DownloadHandler, fields: list[bytes]
) -> None:
    async with serving(ok(b"", *fields)) as server:
        with pytest.raises(DownloadFailedError):
            await fetch(handler, server.url)


async def test_a_body_that_is_too_big_is_counted() -> None:
    async with handler_with(DOWNLOAD_MAXSIZE=3) as handler, serving(ok(b"1234")) as server:
        with pytest.raises(TooBig):
            await fetch(handler, server.url)
        assert (await fetch(handler, server.url, meta={"download_maxsize": 0})).body == b"1234"
    assert stat(handler, "download/too_big") == 1


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
async def test_a_bomb_does_not_go_off(encoding: str) -> None:
    zeros = bytes(8 * 1024 * 1024)
    zstd = pytest.importorskip("zstandard")
    packed = {
        "gzip": lambda: gzip.compress(zeros),
        "deflate": lambda: zlib.compress(zeros),
        "br": lambda: brotli.compress(zeros, quality=1),
        "zstd": lambda: zstd.compress(zeros),
        "gzip, gzip": lambda: gzip.compress(gzip.compress(zeros)),
    }[encoding]()
    assert len(packed) < 100_000
    async with (
        handler_with(DOWNLOAD_MAXSIZE=1024 * 1024) as handler,
        serving(ok(packed, b"Content-Encoding: " + encoding.encode())) as server,
    ):
        request = Request(server.url)
        response = await handler.download_request(request)
        middleware = Decompression.from_crawler(handler.crawler)
        with pytest.raises(IgnoreRequest, match="DOWNLOAD_MAXSIZE"):
            await ensure_awaitable(middleware.process_response(request, response))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_every_encoding_is_accepted(encoding: str) -> None:
    request = Request("http://h.test/")
    Decompression.from_crawler(project_crawler()).process_request(request)
    assert encoding in str(request.headers["Accept-Encoding"])


async def test_connections_are_bounded() -> None:
    open_now, most = 0, 0

    async def slow(writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.02)
        open_now -= 1
        writer.write(ok(b""))

    async with handler_with(CONCURRENT_REQUESTS=3) as handler, serving(slow) as server:
        await asyncio.gather(*(fetch(handler, server.url) for _ in range(12)))
    assert most == 3


# --- types ---------------------------------------------------------------------------------------


def leased(server: Server, **meta: Any) -> Request:
    return Request(server.url, meta={LEASE: lease_of(server.url), **meta})


async def test_a_type_that_is_not_accepted_is_not_downloaded(handler: DownloadHandler) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: Video/MP4; x=y\r\nContent-Length: 99999999\r\n\r\n"
    async with serving(then_silent(head)) as server:
        response = await handler.download_request(leased(server))
    assert (response.status, response.body) == (200, b"")
    assert response.flags == ["type_not_accepted"]
    assert response.headers["Content-Type"] == b"Video/MP4; x=y"
    assert stat(handler, "download/type_not_accepted") == 1


@pytest.mark.parametrize(
    "header",
    [HTML, b"Content-Type: text/html; charset=utf-8", b"Content-Type: TEXT/HTML", b"X: y",
     b"Content-Type: application/rss+xml", b"Content-Type: application/json", b"Content-Type:",
     b"Content-Type: image/png\r\nContent-Type: text/html"],
)  # fmt: skip
async def test_a_page_is_downloaded(handler: DownloadHandler, header: bytes) -> None:
    async with serving(ok(b"page", header)) as server:
        response = await handler.download_request(leased(server))
    assert (response.body, response.flags) == (b"page", [])


async def test_what_is_no_page_may_be_of_any_type(handler: DownloadHandler) -> None:
    async with serving(ok(b"rules", b"Content-Type: image/png")) as server:
        assert (await fetch(handler, server.url)).body == b"rules"


async def test_all_types_may_be_accepted() -> None:
    async with (
        handler_with(ACCEPT_TYPES=[]) as handler,
        serving(ok(b"image", b"Content-Type: image/png")) as server,
    ):
        assert (await handler.download_request(leased(server))).body == b"image"


# --- ways ----------------------------------------------------------------------------------------


async def test_a_request_may_name_its_local_address(handler: DownloadHandler) -> None:
    peers: list[str] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        writer.write(ok(b""))

    async with serving(answer) as server:
        await fetch(handler, server.url)
        for _ in range(2):
            await fetch(handler, server.url, meta={"bindaddress": "127.0.0.3"})
        # A list is what JSON makes of a tuple.
        for address in (("127.0.0.4", 0), ["127.0.0.4", 0]):
            await fetch(handler, server.url, meta={"bindaddress": address})
        await fetch(handler, server.url)
    # A kept connection is used again only for its own local address.
    assert [int(peer[-1]) for peer in peers] == [1, 3, 3, 4, 4, 1]
    assert server.connections == 3


async def test_the_settings_may_name_the_local_address() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(ok(writer.get_extra_info("peername")[0].encode()))

    async with (
        handler_with(DOWNLOAD_BIND_ADDRESS="127.0.0.5") as handler,
        serving(answer) as server,
    ):
        assert (await fetch(handler, server.url)).body == b"127.0.0.5"
