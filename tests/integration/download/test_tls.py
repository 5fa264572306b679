"""TLS: which sessions are resumed, and that what it guards stays guarded."""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadFailedError
from scrapy.http import Response

from crawler.download import client as clients
from crawler.download.handler import DownloadHandler
from tests.support.certificates import server_context
from tests.support.dns_server import DnsServer
from tests.support.http_proxy import proxying
from tests.support.http_server import Server, handler_with, ok, serving, then_closed
from tests.support.waiting import until

CLOSED = ok(b"hi", b"Connection: close")
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    return server_context(tmp_path)


class TlsServer:
    """Server that records of each connection whether it resumed a session."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.resumed: list[bool] = []
        self.protocols: list[str | None] = []

    def url(self, host: str) -> str:
        return f"https://{host}:{self.server.port}/"


@asynccontextmanager
async def secure(
    tls: ssl.SSLContext, data: bytes = CLOSED, port: int = 0, host: str = "127.0.0.1"
) -> AsyncIterator[TlsServer]:
    async def answer(writer: asyncio.StreamWriter) -> None:
        found = writer.get_extra_info("ssl_object")
        secured.resumed.append(found.session_reused)
        secured.protocols.append(found.selected_alpn_protocol())
        writer.write(data)
        await writer.drain()

    async with serving(answer, host, tls=tls, port=port) as server:
        secured = TlsServer(server)
        yield secured


class Handshakes:
    """Counts the handshakes that begin, and fails one of them."""

    def __init__(self, tls: ssl.SSLContext, *, failing: int = 0) -> None:
        self.count = 0
        self._failing = failing
        tls.sni_callback = self._begun

    def _begun(self, *_: object) -> int | None:
        self.count += 1
        return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR if self.count == self._failing else None


@asynccontextmanager
async def crawling(**settings: Any) -> AsyncIterator[Callable[..., Awaitable[Response]]]:
    """Fetch, and wait until the connection is closed."""
    settings = {"DNS_OVERRIDES": {".test": "127.0.0.1"}, **settings}
    async with handler_with(**settings) as handler:

        async def fetch(url: str, *, closes: bool = True, **meta: Any) -> Response:
            response = await handler.download_request(Request(url, meta=meta))
            if closes:
                await until(lambda: not open_connections(handler))
            return response

        yield fetch


def open_connections(handler: DownloadHandler) -> int:
    return len(handler._client._connector._open)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_next_connection_to_a_host_resumes_the_session(
    tls: ssl.SSLContext, version: ssl.TLSVersion
) -> None:
    tls.maximum_version = version
    async with secure(tls) as server, crawling() as fetch:
        found = [await fetch(server.url("h.test")) for _ in range(3)]
    assert server.resumed == [False, True, True]
    assert found[0].certificate
    assert [each.certificate for each in found] == [found[0].certificate] * 3
    assert [each.body for each in found] == [b"hi"] * 3


async def test_a_session_is_for_one_name_only(tls: ssl.SSLContext) -> None:
    async with secure(tls) as server, crawling() as fetch:
        for host in ("h.test", "other.test", "h.test", "other.test"):
            await fetch(server.url(host))
    assert server.resumed == [False, False, True, True]


async def test_a_session_is_for_one_route_only(tls: ssl.SSLContext) -> None:
    """Whoever crawls through several proxies may not want to be known again."""
    async with secure(tls) as server, proxying() as proxy, crawling() as fetch:
        proxy.to = server.server.port
        meta = {"proxy": f"http://{proxy.address}"}
        await fetch(server.url("h.test"))
        for _ in range(2):
            await fetch(server.url("h.test"), **meta)
        for _ in range(2):
            await fetch(server.url("h.test"), bindaddress="127.0.0.3")
    assert server.resumed == [False, False, True, False, True]


async def test_a_ticket_is_used_once(tls: ssl.SSLContext) -> None:
    async with secure(tls, ok(b"hi")) as server, crawling(DOWNLOAD_KEEPALIVE_HOSTS=0) as fetch:
        await fetch(server.url("h.test"))
        await asyncio.gather(*(fetch(server.url("h.test"), closes=False) for _ in range(2)))
    assert sorted(server.resumed) == [False, False, True]


async def test_a_server_without_tickets_gets_full_handshakes(tls: ssl.SSLContext) -> None:
    tls.num_tickets = 0
    async with secure(tls) as server, crawling() as fetch:
        for _ in range(2):
            await fetch(server.url("h.test"))
    assert server.resumed == [False, False]


async def test_a_session_that_a_server_forgot_does_no_harm(
    tls: ssl.SSLContext, tmp_path: Path
) -> None:
    async with crawling() as fetch:
        async with secure(tls) as first:
            await fetch(first.url("h.test"))
        async with secure(server_context(tmp_path), port=first.server.port) as second:
            assert (await fetch(second.url("h.test"))).body == b"hi"
    assert second.resumed == [False]
    assert second.server.connections == 1


async def test_a_server_that_fails_over_a_session_gets_a_full_handshake(
    tls: ssl.SSLContext,
) -> None:
    handshakes = Handshakes(tls, failing=2)
    async with secure(tls) as server, crawling() as fetch:
        for _ in range(2):
            assert (await fetch(server.url("h.test"))).body == b"hi"
        assert server.resumed == [False, False]
        # Without a session there is no second handshake.
        handshakes.count = 1
        with pytest.raises(DownloadConnectionRefusedError):
            await fetch(server.url("other.test"))
    assert handshakes.count == 2


async def test_a_resumed_session_is_one_whose_certificate_was_verified(
    tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    async with secure(tls) as server, crawling(DOWNLOAD_VERIFY_CERTIFICATES=True) as fetch:
        for _ in range(2):
            assert (await fetch(server.url("h.test"))).certificate
            with pytest.raises(DownloadFailedError, match="certificate"):
                await fetch(server.url("other.test"))
    assert server.resumed == [False, True]


async def test_a_session_is_offered_to_one_address_only(tls: ssl.SSLContext) -> None:
    handshakes = Handshakes(tls, failing=2)
    async with DnsServer() as dns, secure(tls, host="0.0.0.0") as server:
        dns.set("h.test", "127.0.0.1", "127.0.0.2")
        settings = {"DNS_OVERRIDES": {}, "DNS_SERVERS": [dns.address]}
        async with crawling(**settings) as fetch:
            for _ in range(2):
                assert (await fetch(server.url("h.test"))).body == b"hi"
    assert handshakes.count == 3
    assert server.resumed == [False, False]


async def test_a_server_whose_certificate_was_refused_is_not_contacted_again(
    tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    async with crawling(DOWNLOAD_VERIFY_CERTIFICATES=True) as fetch:
        async with secure(tls) as first:
            await fetch(first.url("h.test"))
        other = server_context(tmp_path)
        handshakes = Handshakes(other)
        async with secure(other, port=first.server.port) as second:
            with pytest.raises(DownloadFailedError, match="certificate"):
                await fetch(second.url("h.test"))
    assert handshakes.count == 1


async def test_only_http_1_1_is_offered(tls: ssl.SSLContext) -> None:
    tls.set_alpn_protocols(["h2", "http/1.1"])
    async with secure(tls) as server, crawling() as fetch:
        await fetch(server.url("h.test"))
    assert server.protocols == ["http/1.1"]


async def test_a_body_without_a_length_ends_with_the_connection(tls: ssl.SSLContext) -> None:
    body = b"x" * 300_000
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    async with serving(then_closed(head + body), tls=tls) as server, crawling() as fetch:
        found = await fetch(f"https://h.test:{server.port}/")
    assert found.body == body


@asynccontextmanager
async def packing(
    tls: ssl.SSLContext, parts: list[bytes], changed: Callable[[bytes], bytes]
) -> AsyncIterator[str]:
    """A server that sends these records at once, with their bytes changed, and ends there."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = tls.wrap_bio(incoming, outgoing, server_side=True)
        for step in (server.do_handshake, partial(server.read, 65536)):
            while True:
                try:
                    step()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
        writer.write(outgoing.read())
        for part in parts:
            server.write(part)
        writer.write(changed(outgoing.read()))
        writer.close()

    listener = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with listener:
        yield f"https://h.test:{listener.sockets[0].getsockname()[1]}/"


async def test_a_whole_response_is_not_lost_with_a_damaged_record_after_it(
    tls: ssl.SSLContext,
) -> None:
    def damaged(data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1])

    async with packing(tls, [ok(b"hi"), b"junk"], damaged) as url, crawling() as fetch:
        found = await fetch(url)
    assert (found.body, found.flags) == (b"hi", [])


@pytest.mark.parametrize("missing", [1, 100, 1018])
async def test_a_body_that_ends_inside_a_record_is_incomplete(
    tls: ssl.SSLContext, missing: int
) -> None:
    parts = [b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 1000, b"b" * 1000]
    async with (
        packing(tls, parts, lambda data: data[:-missing]) as url,
        crawling(DOWNLOAD_FAIL_ON_DATALOSS=False) as fetch,
    ):
        found = await fetch(url)
    assert found.body == b"a" * 1000
    assert found.flags == ["dataloss", "dataloss:reset"]


async def test_a_large_request_is_sent_in_many_records(tls: ssl.SSLContext) -> None:
    body = b"x" * 300_000
    async with secure(tls) as server, handler_with() as handler:
        url = f"https://127.0.0.1:{server.server.port}/"
        await handler.download_request(Request(url, method="POST", body=body))
    assert server.server.requests[0].endswith(b"\r\n\r\n" + body)


async def test_a_handshake_that_cannot_begin_fails_once(
    tls: ssl.SSLContext, caplog: pytest.LogCaptureFixture
) -> None:
    impossible = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    impossible.check_hostname = False
    impossible.minimum_version = ssl.TLSVersion.TLSv1_3
    impossible.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secure(tls) as server, handler_with() as handler:
        handler._client._connector._make_tls = lambda: impossible
        with pytest.raises(DownloadFailedError, match="no protocols available"):
            await handler.download_request(Request(f"https://127.0.0.1:{server.server.port}/"))
        await until(lambda: not open_connections(handler))
    gc.collect()
    # "Future exception was never retrieved", for one.
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_a_handshake_ends_if_the_server_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_HANDSHAKE_S", 0.2)
    async with serving(b"") as server, crawling(DOWNLOAD_TIMEOUT=0) as fetch:
        with pytest.raises(DownloadConnectionRefusedError, match="handshake"):
            await asyncio.wait_for(fetch(f"https://h.test:{server.port}/"), 20)


async def test_what_is_no_tls_is_told() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    async with server, crawling() as fetch:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(DownloadFailedError, match=f"h.test:{port}"):
            await fetch(f"https://h.test:{port}/")
