"""The download handler over real sockets: answers, failures, limits and the guard."""

import asyncio
import socket
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.http import HtmlResponse, Response

from crawler.dns.lookup import DnsFailed, NoSuchHost
from crawler.download import client
from crawler.download.errors import NotRendered, PrivateAddress, RenderingFull
from crawler.download.handler import DownloadHandler
from crawler.errors import ConfigurationError
from crawler.util.request_meta import BESIDE, FINISH
from tests.support.crawlers import project_crawler
from tests.support.dns_server import DnsServer
from tests.support.http_server import (
    LOOPBACK,
    Answer,
    Server,
    handler_with,
    ok,
    reset,
    serving,
    then_closed,
    then_silent,
)
from tests.support.waiting import until


@pytest.fixture
async def handler() -> AsyncIterator[DownloadHandler]:
    async with handler_with() as handler:
        yield handler


async def test_an_answer_becomes_a_response(handler: DownloadHandler) -> None:
    answer = ok(b"<p>hi", b"Content-Type: text/html", b"X-Two: 1", b"x-two: 2", b"X-Raw: \xe9\xff")
    async with serving(answer) as server:
        request = Request(server.url + "a%7Cb?c=%20")
        response = await handler.download_request(request)
    assert isinstance(response, HtmlResponse)
    assert (response.status, response.body, response.url) == (200, b"<p>hi", request.url)
    assert response.headers.getlist("X-Two") == [b"1", b"2"]
    assert response.headers["X-Raw"] == b"\xe9\xff"
    assert request.meta["download_latency"] > 0
    assert server.requests[0].startswith(b"GET /a%7Cb?c=%20 HTTP/1.1\r\n")


@pytest.mark.parametrize("status", [204, 301, 404, 503])
async def test_every_status_is_a_response_and_no_redirect_is_followed(
    handler: DownloadHandler, status: int
) -> None:
    head = b"HTTP/1.1 %d Odd\r\nLocation: /\xc3\xbc\r\nContent-Length: 0\r\n\r\n" % status
    async with serving(head) as server:
        response = await handler.download_request(Request(server.url))
    assert response.status == status
    assert response.headers["Location"] == b"/\xc3\xbc"
    assert len(server.requests) == 1


async def test_only_the_headers_of_the_request_are_sent(handler: DownloadHandler) -> None:
    headers = {"User-Agent": "crawler", "X-Name": ["ü".encode(), b"\xff"]}
    async with serving(ok(b"")) as server:
        await handler.download_request(Request(server.url, headers=headers))
    lines = server.requests[0].strip().split(b"\r\n")[1:]
    assert sorted(lines) == sorted(
        [
            b"Host: 127.0.0.1:%d" % server.port,
            b"User-Agent: crawler",
            b"X-Name: \xc3\xbc",
            b"X-Name: \xff",
        ]
    )


async def test_a_body_is_posted(handler: DownloadHandler) -> None:
    async with serving(ok(b"")) as server:
        request = Request(server.url, method="POST", body=b"a=\x00\xff")
        await handler.download_request(request)
    assert server.requests[0].startswith(b"POST / HTTP/1.1\r\n")
    assert server.requests[0].endswith(b"\r\n\r\na=\x00\xff")


async def test_a_compressed_body_is_left_to_scrapy(handler: DownloadHandler) -> None:
    async with serving(ok(b"\x1f\x8bnot really", b"Content-Encoding: gzip")) as server:
        response = await handler.download_request(Request(server.url))
    assert response.body == b"\x1f\x8bnot really"


async def test_a_connection_is_used_again(handler: DownloadHandler) -> None:
    async with serving(ok(b"x")) as server:
        for _ in range(3):
            await handler.download_request(Request(server.url))
    assert (server.connections, len(server.requests)) == (1, 3)


async def test_no_cookie_is_kept(handler: DownloadHandler) -> None:
    async with serving(ok(b"", b"Set-Cookie: a=b")) as server:
        for _ in range(2):
            await handler.download_request(Request(server.url))
    assert b"Cookie" not in server.requests[1]


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"],
    ids=["silence", "half a head", "half a body"],
)
async def test_a_silent_server_times_out(handler: DownloadHandler, answer: bytes) -> None:
    async with serving(then_silent(answer)) as server:
        request = Request(server.url, meta={"download_timeout": 0.1})
        with pytest.raises(DownloadTimeoutError, match=r"took longer than 0\.1 seconds"):
            await handler.download_request(request)


async def test_the_timeout_of_the_settings_counts() -> None:
    async with handler_with(DOWNLOAD_TIMEOUT=0.1) as handler, serving(then_silent(b"")) as server:
        with pytest.raises(DownloadTimeoutError):
            await handler.download_request(Request(server.url))


async def test_a_closed_port_refuses(handler: DownloadHandler) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
        with pytest.raises(DownloadConnectionRefusedError):
            await handler.download_request(Request(url))


@pytest.mark.parametrize("answer", [reset, then_closed(b"")], ids=["reset", "closed"])
async def test_a_broken_connection_is_no_second_request(
    handler: DownloadHandler, answer: Answer
) -> None:
    async with serving(answer) as server:
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))
    assert (server.connections, len(server.requests)) == (1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
    ],
    ids=["length", "chunks", "no chunks"],
)
async def test_a_body_that_ends_early_is_data_loss(handler: DownloadHandler, answer: bytes) -> None:
    async with serving(then_closed(answer)) as server:
        with pytest.raises((ResponseDataLossError, DownloadFailedError)):
            await handler.download_request(Request(server.url))


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    ],
    ids=["no HTTP", "status", "long header"],
)
async def test_an_answer_that_is_no_http_fails(handler: DownloadHandler, answer: bytes) -> None:
    async with serving(then_closed(answer)) as server:
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))


async def test_a_name_that_no_server_knows_is_not_resolved() -> None:
    async with DnsServer() as dns, handler_with(DNS_SERVERS=[dns.address]) as handler:
        with pytest.raises(NoSuchHost):
            await handler.download_request(Request("http://nowhere.test/"))
        dns.mood = "servfail"
        with pytest.raises(DnsFailed):
            await handler.download_request(Request("http://unknown.test/"))


# --- limits --------------------------------------------------------------------------------------


async def test_a_body_that_is_said_to_be_too_big_is_not_read() -> None:
    async with (
        handler_with(DOWNLOAD_MAXSIZE=10) as handler,
        serving(then_silent(b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")) as server,
    ):
        with pytest.raises(
            DownloadCancelledError, match="11 bytes or more; DOWNLOAD_MAXSIZE is 10"
        ):
            await handler.download_request(Request(server.url))


async def test_a_body_of_unknown_size_is_read_up_to_the_limit() -> None:
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"5\r\nhello\r\n" * 100
    async with (
        handler_with(DOWNLOAD_MAXSIZE=10) as handler,
        serving(then_silent(endless)) as server,
    ):
        with pytest.raises(DownloadCancelledError, match="DOWNLOAD_MAXSIZE is 10"):
            await handler.download_request(Request(server.url))


async def test_a_body_as_big_as_the_limit_is_read() -> None:
    async with handler_with(DOWNLOAD_MAXSIZE=10) as handler, serving(ok(b"0123456789")) as server:
        response = await handler.download_request(Request(server.url))
    assert response.body == b"0123456789"


async def test_a_request_may_have_a_limit_of_its_own(handler: DownloadHandler) -> None:
    async with serving(ok(b"0123456789")) as server:
        request = Request(server.url, meta={"download_maxsize": 9})
        with pytest.raises(DownloadCancelledError):
            await handler.download_request(request)


async def test_a_cut_takes_the_beginning_and_asks_for_no_more() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    async with (
        handler_with(DOWNLOAD_MAXSIZE=100) as handler,
        serving(then_silent(head + b"0123456789")) as server,
    ):
        response = await handler.download_request(Request(server.url, meta={"download_cut": 10}))
        assert response.body == b"0123456789"
        # The rest is still to come on that connection, so it is not used again.
        await handler.download_request(Request(server.url, meta={"download_cut": 10}))
    assert server.connections == 2


async def test_a_download_that_a_signal_stops_has_no_body() -> None:
    crawler = project_crawler(ALLOW_NETWORKS=LOOPBACK)
    handler = DownloadHandler.from_crawler(crawler)

    def stop(headers: Any, body_length: int) -> None:
        assert body_length == 5
        raise StopDownload(fail=False)

    crawler.signals.connect(stop, signals.headers_received)
    async with serving(ok(b"hello")) as server:
        response = await handler.download_request(Request(server.url))
    assert (response.status, response.body) == (200, b"")
    await handler.close()


# --- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "inside.test", "[::ffff:127.0.0.1]"])
async def test_a_private_address_is_never_connected_to(host: str) -> None:
    overrides = {"inside.test": "127.0.0.1"}
    async with (
        handler_with(ALLOW_NETWORKS=[], DNS_OVERRIDES=overrides) as handler,
        serving(ok(b"secret")) as server,
    ):
        request = Request(f"http://{host}:{server.port}/")
        with pytest.raises(DownloadCancelledError, match="ALLOW_NETWORKS can open it"):
            await handler.download_request(request)
    assert server.connections == 0


async def test_a_name_with_private_addresses_only_is_refused_once() -> None:
    async with (
        DnsServer() as dns,
        handler_with(ALLOW_NETWORKS=[], DNS_SERVERS=[dns.address]) as handler,
    ):
        dns.set("both.test", "10.0.0.1", "192.168.0.1", "fd00::1")
        with pytest.raises(PrivateAddress, match="private or reserved"):
            await handler.download_request(Request("http://both.test/"))


async def test_an_override_leads_to_another_address_and_port() -> None:
    async with serving(ok(b"found")) as server:
        overrides = {".test": f"127.0.0.1:{server.port}"}
        async with handler_with(DNS_OVERRIDES=overrides) as handler:
            response = await handler.download_request(Request("http://a.b.test/x"))
    assert response.body == b"found"
    assert b"Host: a.b.test\r\n" in server.requests[0]


async def test_a_proxy_is_used() -> None:
    async with handler_with() as handler, serving(ok(b"by proxy")) as server:
        request = Request("http://h.test/x", meta={"proxy": server.url})
        response = await handler.download_request(request)
    assert response.body == b"by proxy"
    assert server.requests[0].startswith(b"GET http://h.test/x HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "settings", [{"ALLOW_NETWORKS": ["nonsense"]}, {"DNS_OVERRIDES": {"h.test": "nonsense"}}]
)
async def test_a_bad_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        DownloadHandler.from_crawler(project_crawler(**settings))


# --- what finishes a response ---------------------------------------------------------------------


async def test_a_response_may_be_finished_within_its_fetch(handler: DownloadHandler) -> None:
    async def finish(request: Request, response: Response) -> Response:
        assert response.url == request.url
        return response.replace(body=response.body + b", and more")

    async with serving(ok(b"found", b"Content-Type: text/html")) as server:
        response = await handler.download_request(Request(server.url, meta={FINISH: finish}))
    assert response.body == b"found, and more"
    assert isinstance(response, HtmlResponse)


async def test_the_time_limit_of_a_fetch_ends_before_its_response_is_finished(
    handler: DownloadHandler,
) -> None:
    timeout_s = 2.0

    async def finish(_request: Request, response: Response) -> Response:
        ends = monotonic() + timeout_s
        await until(lambda: monotonic() > ends)
        return response

    async with serving(ok(b"found")) as server:
        meta = {"download_timeout": timeout_s, FINISH: finish}
        response = await handler.download_request(Request(server.url, meta=meta))
    assert response.body == b"found"


@pytest.mark.parametrize("error", [NotRendered("crashed"), RenderingFull(), TimeoutError("slow")])
async def test_an_error_of_what_finishes_a_response_is_that_of_the_download(
    handler: DownloadHandler, error: Exception
) -> None:
    async def finish(_request: Request, _response: Response) -> Response:
        raise error

    async with serving(ok(b"found")) as server:
        with pytest.raises(type(error)) as caught:
            await handler.download_request(Request(server.url, meta={FINISH: finish}))
        assert caught.value is error
        # The connection is used again all the same.
        await handler.download_request(Request(server.url))
    assert server.connections == 1


async def test_there_is_nothing_to_finish_without_a_response(handler: DownloadHandler) -> None:
    async def finish(_request: Request, response: Response) -> Response:
        pytest.fail(f"{response} is finished")

    async with serving(then_closed(b"")) as server:
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url, meta={FINISH: finish}))


async def test_a_page_that_is_finished_leaves_its_place_to_the_next_fetch() -> None:
    finishing = asyncio.Event()

    async def finish(_request: Request, response: Response) -> Response:
        await finishing.wait()
        return response

    async with handler_with(CONCURRENT_REQUESTS=1) as handler, serving(ok(b"found")) as server:
        request = Request(server.url, meta={FINISH: finish})
        first = asyncio.ensure_future(handler.download_request(request))
        await until(lambda: server.requests)
        await handler.download_request(Request(server.url))
        assert not first.done()
        finishing.set()
        assert (await first).body == b"found"


# --- requests beside those of the engine ----------------------------------------------------------


def held_back(server: list[Server], gate: asyncio.Event) -> Answer:
    """An answer to requests for /held that waits, while others get theirs at once."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        if server[0].requests[-1].split()[1] == b"/held":
            await gate.wait()
        writer.write(ok(b"found"))
        await writer.drain()

    return answer


@pytest.mark.parametrize(
    ("held", "passes"), [({}, {BESIDE: True}), ({BESIDE: True}, {})], ids=["page", "part"]
)
async def test_pages_and_parts_of_pages_do_not_take_each_others_places(
    monkeypatch: pytest.MonkeyPatch, held: dict[str, Any], passes: dict[str, Any]
) -> None:
    monkeypatch.setattr(client, "_BESIDE_MAX", 1)
    gate, servers = asyncio.Event(), list[Server]()
    async with (
        handler_with(CONCURRENT_REQUESTS=1) as handler,
        serving(held_back(servers, gate)) as server,
    ):
        servers.append(server)

        def fetch(path: str, meta: dict[str, Any]) -> asyncio.Future[Response]:
            request = Request(f"{server.url}{path}", meta=dict(meta))
            return asyncio.ensure_future(handler.download_request(request))

        first = fetch("held", held)
        await until(lambda: server.requests)
        # One of the same kind waits for its place; the other kind has its own.
        second = fetch("second", held)
        assert (await fetch("third", passes)).body == b"found"
        assert [request.split()[1] for request in server.requests] == [b"/held", b"/third"]
        gate.set()
        assert [(await each).body for each in (first, second)] == [b"found"] * 2
