"""Fetches through a real proxy on loopback: requests, connections, and failures of the proxy."""

import asyncio
import ssl
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.exceptions import (
    DownloadFailedError,
    DownloadTimeoutError,
)
from scrapy.http import Response

from crawler.download.errors import (
    Malformed,
    PrivateAddress,
    ProxyFailed,
    StoppedTooLong,
    failure_of,
)
from crawler.download.handler import DownloadHandler
from crawler.util.request_meta import MAY_FETCH
from tests.support.certificates import server_context
from tests.support.http_proxy import HttpProxy, proxying
from tests.support.http_server import handler_with, ok, serving, then_silent
from tests.support.waiting import until

CREDENTIALS = b"Basic dXNlcjpzZWNyZXQ="


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    return server_context(tmp_path)


async def fetch(
    handler: DownloadHandler, url: str, proxy: HttpProxy | str, **meta: object
) -> Response:
    address = proxy if isinstance(proxy, str) else f"http://{proxy.address}"
    return await handler.download_request(Request(url, meta={"proxy": address, **meta}))


def open_connections(handler: DownloadHandler) -> int:
    return len(handler._client._connector._open)


# --- what is sent --------------------------------------------------------------------------------


async def test_plain_requests_name_the_whole_url(handler: DownloadHandler) -> None:
    async with serving(ok(b"hi")) as server, proxying() as proxy:
        proxy.to = server.port
        response = await fetch(handler, "http://user:pass@h.test:81/x?y#z", proxy)
    assert response.body == b"hi"
    line, *fields = proxy.requests[0].split(b"\r\n")
    assert line == b"GET http://h.test:81/x?y HTTP/1.1"
    assert b"Host: h.test:81" in fields
    assert b"Authorization: Basic dXNlcjpwYXNz" in fields


async def test_secure_requests_go_through_a_tunnel(
    handler: DownloadHandler, tls: ssl.SSLContext
) -> None:
    async with serving(ok(b"secure"), tls=tls) as server, proxying() as proxy:
        proxy.to = server.port
        response = await fetch(handler, "https://h.test/x", proxy)
    assert response.body == b"secure"
    assert response.certificate is not None
    assert str(response.ip_address) == "127.0.0.1"
    assert proxy.requests == [b"CONNECT h.test:443 HTTP/1.1\r\nHost: h.test:443\r\n\r\n"]
    assert server.requests[0].startswith(b"GET /x HTTP/1.1\r\nHost: h.test\r\n")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_may_speak_tls_itself(
    handler: DownloadHandler, tls: ssl.SSLContext, scheme: str
) -> None:
    async with (
        serving(ok(b"hi"), tls=tls if scheme == "https" else None) as server,
        proxying(tls) as proxy,
    ):
        proxy.to = server.port
        for _ in range(2):
            response = await fetch(handler, f"{scheme}://h.test/", f"https://{proxy.address}")
            assert response.body == b"hi"
    assert proxy.connections == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_credentials_are_for_the_proxy_alone(
    handler: DownloadHandler, tls: ssl.SSLContext, scheme: str
) -> None:
    async with (
        serving(ok(b"hi"), tls=tls if scheme == "https" else None) as server,
        proxying() as proxy,
    ):
        proxy.to, proxy.credentials = server.port, CREDENTIALS
        address = f"http://user:secret@{proxy.address}"
        # By Scrapy's middleware, which moves them into a header, and without it.
        request = Request(f"{scheme}://h.test/", meta={"proxy": address})
        HttpProxyMiddleware.from_crawler(handler.crawler).process_request(request)
        assert (await handler.download_request(request)).body == b"hi"
        assert (await fetch(handler, f"{scheme}://h.test/", address)).body == b"hi"
    if scheme == "https":
        assert b"Proxy-Authorization" not in b"".join(server.requests)


async def test_credentials_cannot_begin_another_line(handler: DownloadHandler) -> None:
    for url in ("http://h.test/", "https://h.test/"):
        async with proxying() as proxy:
            headers = {"Proxy-Authorization": "Basic x\r\nX: y"}
            request = Request(url, headers=headers, meta={"proxy": proxy.address})
            with pytest.raises(DownloadFailedError, match="line break or a zero byte"):
                await handler.download_request(request)
            assert not proxy.requests


# --- connections ---------------------------------------------------------------------------------


async def test_a_tunnel_is_used_again_for_its_server_and_user(
    handler: DownloadHandler, tls: ssl.SSLContext
) -> None:
    async with serving(ok(b"hi"), tls=tls) as server, proxying() as proxy:
        proxy.to = server.port
        for url, user in (
            ("https://h.test/1", ""),
            ("https://h.test/2", ""),
            ("https://other.test/3", ""),
            ("https://h.test/4", "somebody:else@"),
        ):
            await fetch(handler, url, f"http://{user}{proxy.address}")
        assert (proxy.connections, server.connections) == (3, 3)
        # A direct fetch never takes a connection of a proxy.
        await handler.download_request(Request(server.url.replace("http:", "https:")))
        assert (proxy.connections, server.connections) == (3, 4)


async def test_a_client_that_is_closed_has_no_tunnels_left(tls: ssl.SSLContext) -> None:
    async with serving(ok(b"hi"), tls=tls) as server, proxying() as proxy:
        proxy.to = server.port
        async with handler_with() as handler:
            await fetch(handler, "https://h.test/", proxy)
            assert open_connections(handler) == 1
        assert open_connections(handler) == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_process_that_stood_still_while_it_connected_sends_nothing(
    handler: DownloadHandler, tls: ssl.SSLContext, scheme: str
) -> None:
    async with (
        serving(ok(b"hi"), tls=tls if scheme == "https" else None) as server,
        proxying() as proxy,
    ):
        proxy.to = server.port
        with pytest.raises(StoppedTooLong):
            await fetch(handler, f"{scheme}://h.test/", proxy, **{MAY_FETCH: lambda: False})
    assert not server.requests


async def test_a_local_address_holds_for_the_connection_to_the_proxy(
    handler: DownloadHandler,
) -> None:
    peers: list[str] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        writer.write(ok(b"hi"))

    async with serving(answer) as proxy:
        await fetch(handler, "http://h.test/", proxy.url, bindaddress="127.0.0.5")
    assert peers == ["127.0.0.5"]


# --- failures ------------------------------------------------------------------------------------


async def test_a_proxy_that_asks_for_credentials(
    handler: DownloadHandler, tls: ssl.SSLContext
) -> None:
    async with serving(ok(b"hi"), tls=tls) as server, proxying() as proxy:
        proxy.to, proxy.credentials = server.port, CREDENTIALS
        # Of a plain request the status is its response, as with any other status.
        assert (await fetch(handler, "http://h.test/", proxy)).status == 407
        with pytest.raises(ProxyFailed, match=r"opened no tunnel to h\.test:443: .*407"):
            await fetch(handler, "https://h.test/", proxy)
        await until(lambda: open_connections(handler) == 1)


@pytest.mark.parametrize(
    ("refusal", "reason"),
    [
        (b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", "status 403"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://a.test/\r\n\r\n", "status 302"),
        (b"HTTP/1.0 502 Bad Gateway\r\n\r\nnobody there", "status 502"),
        (b"", "closed it"),
        (b"220 mail.test ESMTP\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: y", "closed it"),
    ],
)
async def test_a_tunnel_that_is_not_opened_is_the_proxys_failure(
    handler: DownloadHandler, refusal: bytes, reason: str
) -> None:
    async with proxying() as proxy:
        proxy.refusal = refusal
        with pytest.raises(DownloadFailedError, match=reason) as error:
            await fetch(handler, "https://h.test/", proxy)
        assert f"The proxy {proxy.address} opened no tunnel to h.test:443" in str(error.value)
    # That would count as a response of the host.
    assert not isinstance(error.value, Malformed)
    await until(lambda: open_connections(handler) == 0)


async def test_a_tunnel_that_ends_at_once_says_nothing_of_the_host(
    handler: DownloadHandler,
) -> None:
    async with proxying() as proxy:
        proxy.refusal = b"HTTP/1.1 200 Connected\r\n\r\n"
        with pytest.raises(ProxyFailed, match=proxy.address):
            await fetch(handler, "https://h.test/", proxy)
    await until(lambda: open_connections(handler) == 0)


async def test_a_server_without_tls_behind_a_tunnel_fails(handler: DownloadHandler) -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server, proxying() as proxy:
        proxy.to = server.sockets[0].getsockname()[1]
        with pytest.raises(DownloadFailedError, match=r"h\.test:443 through the proxy .*SSL"):
            await fetch(handler, "https://h.test/", proxy)
    await until(lambda: open_connections(handler) == 0)


async def test_the_certificate_behind_a_tunnel_is_verified_if_asked_for(
    tls: ssl.SSLContext,
) -> None:
    async with (
        handler_with(DOWNLOAD_VERIFY_CERTIFICATES=True) as handler,
        serving(ok(b"hi"), tls=tls) as server,
        proxying() as proxy,
    ):
        proxy.to = server.port
        with pytest.raises(DownloadFailedError, match="certificate verify failed"):
            await fetch(handler, "https://h.test/", proxy)
        assert not server.requests
        await until(lambda: open_connections(handler) == 0)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_away_is_not_the_hosts_fault(
    handler: DownloadHandler, scheme: str
) -> None:
    for proxy in ("http://127.0.0.1:9", "https://127.0.0.1:9"):
        with pytest.raises(ProxyFailed, match=r"the proxy 127\.0\.0\.1:9") as failed:
            await fetch(handler, f"{scheme}://h.test/", proxy)
        assert failure_of(failed.value).answered is None


async def test_a_proxy_without_an_address_is_no_host_without_one(handler: DownloadHandler) -> None:
    with pytest.raises(ProxyFailed, match=r"through the proxy no\.localhost\.1"):
        await fetch(handler, "http://h.test/", "http://no.localhost.1:80")


async def test_a_silent_proxy_takes_no_longer_than_a_fetch_may(handler: DownloadHandler) -> None:
    async with serving(then_silent(b"")) as proxy:
        for scheme in ("http", "https"):
            with pytest.raises(DownloadTimeoutError):
                await fetch(handler, f"{scheme}://h.test/", proxy.url, download_timeout=0.2)
    await until(lambda: open_connections(handler) == 0)


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "ftp://h", "http://", "http://h:99999"])
async def test_other_proxies_are_refused_in_one_line(handler: DownloadHandler, proxy: str) -> None:
    for scheme in ("http", "https"):
        with pytest.raises(DownloadFailedError, match=r"The proxy '.*' cannot be used: "):
            await fetch(handler, f"{scheme}://h.test/", proxy)


@pytest.mark.parametrize(
    "proxy", ["socks5://user:secret@127.0.0.1:9", "user:secret@h:99999", "http://u:secret x@h:80"]
)
async def test_a_refusal_shows_no_password(handler: DownloadHandler, proxy: str) -> None:
    with pytest.raises(ProxyFailed) as error:
        await fetch(handler, "http://h.test/", proxy)
    assert "secret" not in str(error.value)


async def test_a_private_address_is_refused_and_a_private_proxy_is_not() -> None:
    async with (
        handler_with(ALLOW_NETWORKS=[]) as handler,
        serving(ok(b"hi")) as server,
        proxying() as proxy,
    ):
        proxy.to = server.port
        assert (await fetch(handler, "http://h.test/", proxy)).body == b"hi"
        for url in ("http://10.0.0.1/", "https://[::1]/", "http://localhost/"):
            with pytest.raises(PrivateAddress):
                await fetch(handler, url, proxy)
    assert len(proxy.requests) == 1
