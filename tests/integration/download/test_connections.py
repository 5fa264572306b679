"""Connections: which are used again, and that none is left behind."""

import asyncio
import gc
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import (
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
)

from crawler.download import client as clients
from crawler.download.client import Route
from crawler.download.errors import Malformed, StoppedTooLong
from crawler.download.handler import DownloadHandler
from crawler.download.receiver import Receiver
from crawler.download.request_writer import write
from crawler.util.request_meta import CRAWL_DELAY, MAY_FETCH
from tests.support.certificates import server_context
from tests.support.dns_server import DnsServer
from tests.support.http_server import handler_with, ok, reset, serving, then_closed, then_silent
from tests.support.waiting import until


async def fetch(handler: DownloadHandler, url: str, **meta: Any) -> bytes:
    return (await handler.download_request(Request(url, meta=meta))).body


def kept(handler: DownloadHandler) -> int:
    """Connections that wait for the next fetch and are open."""
    ways = handler._client.pool.waiting.values()
    return sum(connection.is_open for waiting in ways for connection, _ in waiting)


def open_now(handler: DownloadHandler) -> int:
    return len(handler._client._connector._open)


# --- used again ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"x") + b"more",
        ok(b"x") + ok(b"y"),
        ok(b"x", b"Connection: close"),
        ok(b"x", b"Connection: close") + b"more",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
    ],
    ids=["bytes", "answer", "close", "close and bytes", "304", "101", "1.0"],
)
async def test_a_connection_that_may_hold_something_else_is_not_used_again(
    handler: DownloadHandler, answer: bytes
) -> None:
    async with serving(then_silent(answer)) as server:
        for _ in range(3):
            assert await fetch(handler, server.url) in (b"x", b"")
            assert kept(handler) == 0
        await until(lambda: open_now(handler) == 0)
    assert (server.connections, len(server.requests)) == (3, 3)


@pytest.mark.parametrize(
    ("promise", "connections"),
    [
        (b"timeout=60", 1),
        (b"max=100, Timeout=60", 1),
        (b"max=100", 1),
        (b"timeout=x", 1),
        # Of which nothing is left when the next request may arrive.
        (b"timeout=1", 2),
        (b"timeout=0, max=5", 2),
    ],
)
async def test_a_connection_is_used_as_long_as_the_server_says_that_it_listens(
    handler: DownloadHandler, promise: bytes, connections: int
) -> None:
    async with serving(then_silent(ok(b"x", b"Keep-Alive: " + promise))) as server:
        for _ in range(2):
            assert await fetch(handler, server.url) == b"x"
    assert (server.connections, len(server.requests)) == (connections, 2)


async def test_the_body_of_an_answer_that_should_have_none_is_not_the_next_answer(
    handler: DownloadHandler,
) -> None:
    async with serving(then_silent(ok(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))) as server:
        for _ in range(2):
            head = await handler.download_request(Request(server.url, method="HEAD"))
            assert int(head.headers["Content-Length"]) > 0
    assert server.connections == 2


async def test_more_of_an_answer_is_not_skipped_to_find_the_next(handler: DownloadHandler) -> None:
    spilt = b"spilt\r\n" + ok(b"of another page")

    async def answer(writer: asyncio.StreamWriter) -> None:
        # With the second request on its way, so that nobody could notice before.
        writer.write(ok(b"x") if len(server.requests) % 2 else spilt)

    async with serving(answer) as server:
        assert await fetch(handler, server.url) == b"x"
        with pytest.raises(Malformed):
            await fetch(handler, server.url)
        assert await fetch(handler, server.url) == b"x"
    assert (server.connections, len(server.requests)) == (2, 3)


async def test_what_comes_unasked_closes_a_kept_connection(handler: DownloadHandler) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(ok(b"x"))

    async with serving(answer) as server:
        await fetch(handler, server.url)
        assert kept(handler) == 1
        writers[0].write(ok(b"not asked for"))
        await until(lambda: kept(handler) == 0)
        assert await fetch(handler, server.url) == b"x"
    assert server.connections == 2


async def test_a_kept_connection_that_the_server_closed_is_not_used(
    handler: DownloadHandler,
) -> None:
    async with serving(then_closed(ok(b"x"))) as server:
        for _ in range(3):
            assert await fetch(handler, server.url) == b"x"
            await until(lambda: kept(handler) == 0)
    assert server.connections == 3


async def test_a_request_that_asks_for_the_end_gets_it(handler: DownloadHandler) -> None:
    async with serving(then_silent(ok(b"x"))) as server:
        for _ in range(2):
            request = Request(server.url, headers={"Connection": "close"})
            await handler.download_request(request)
            assert kept(handler) == 0
    assert server.connections == 2


async def test_a_connection_waits_only_for_its_time() -> None:
    ended: list[bool] = []

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"x"))
        ended.append(await reader.read() == b"")
        writer.close()

    listener = await asyncio.start_server(watch, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    async with handler_with(DOWNLOAD_KEEPALIVE=0.05) as handler:
        await fetch(handler, url)
        await until(lambda: ended == [True])
        assert not handler._client.pool.waiting
        await fetch(handler, url)
        await until(lambda: ended == [True, True])
    listener.close()


async def test_a_way_too_old_is_not_taken() -> None:
    async with handler_with(DOWNLOAD_KEEPALIVE=1000) as handler, serving(ok(b"x")) as server:
        await fetch(handler, server.url)
        pool = handler._client.pool
        ((route, [(connection, since)]),) = pool.waiting.items()
        pool.waiting[route] = [(connection, since - 1001)]
        await fetch(handler, server.url)
        assert not connection.is_open
    assert server.connections == 2


async def test_nothing_is_sent_by_a_process_that_lost_its_lease(handler: DownloadHandler) -> None:
    async with serving(ok(b"x")) as server:
        for answers in ([False], [True, False]):
            for may_send in answers:
                if may_send:
                    assert await fetch(handler, server.url, **{MAY_FETCH: lambda: True}) == b"x"
                else:
                    with pytest.raises(StoppedTooLong):
                        await fetch(handler, server.url, **{MAY_FETCH: lambda: False})
                    assert kept(handler) == 0
        await until(lambda: open_now(handler) == 0)
    assert (server.connections, len(server.requests)) == (2, 1)


# --- servers that speak first --------------------------------------------------------------------


Then = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def stay(writer: asyncio.StreamWriter) -> None:
    pass


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()


@asynccontextmanager
async def speaking_first(data: bytes, then: Then = stay) -> AsyncIterator[str]:
    """A server that does not wait for requests; yields its URL."""
    over = asyncio.Event()

    async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await then(writer)
        await over.wait()
        writer.transport.abort()

    listener = await asyncio.start_server(speak, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    finally:
        over.set()
        listener.close()
        await listener.wait_closed()


@pytest.mark.parametrize("then", [stay, leave])
async def test_an_answer_may_come_before_its_request_but_no_other_after_it(
    handler: DownloadHandler, then: Then
) -> None:
    async with speaking_first(ok(b"busy"), then) as url:
        request = Request(url)
        receiver = Receiver(request, handler._limits)
        written = write(request)
        connection = await handler._client._connector.connect(Route(written.origin, None))
        await until(lambda: bool(connection._early))
        if then is leave:
            await until(lambda: not connection.is_open)
        assert not await connection.exchange(written.data, receiver, only_head=False)
        assert receiver.content == b"busy"
        await until(lambda: open_now(handler) == 0)


async def test_a_server_that_goes_on_speaking_is_hung_up_on(handler: DownloadHandler) -> None:
    async with speaking_first(bytes(500_000)) as url:
        route = Route(write(Request(url)).origin, None)
        connection = await handler._client._connector.connect(route)
        await until(lambda: not connection.is_open)
        assert len(connection._early) < 400_000


async def test_a_greeting_is_no_answer(handler: DownloadHandler) -> None:
    async with speaking_first(b"220 mail.test ESMTP\r\n") as url:
        with pytest.raises(DownloadFailedError):
            await fetch(handler, url)


async def test_an_early_answer_to_a_long_request_ends_the_connection(
    handler: DownloadHandler,
) -> None:
    """The server reads nothing of it but answers."""
    async with speaking_first(ok(b"too long")) as url:
        request = Request(url, method="POST", body=bytes(50_000_000))
        assert (await handler.download_request(request)).body == b"too long"
        assert kept(handler) == 0
        await until(lambda: open_now(handler) == 0)


# --- left behind ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
)
async def test_a_fetch_that_is_given_up_leaves_no_connection(
    handler: DownloadHandler, answer: bytes
) -> None:
    async with serving(then_silent(answer)) as server:
        task = asyncio.ensure_future(fetch(handler, server.url))
        await until(lambda: len(server.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kept(handler) == 0
        with pytest.raises(DownloadTimeoutError):
            await fetch(handler, server.url, download_timeout=0.05)
        assert kept(handler) == 0
        await until(lambda: open_now(handler) == 0)


async def test_a_fetch_may_be_given_up_while_it_connects() -> None:
    """A server that accepts and never says hello: TLS waits for it."""
    async with handler_with() as handler, serving(then_silent(b"")) as server:
        url = f"https://127.0.0.1:{server.port}/"
        with pytest.raises(DownloadTimeoutError):
            await fetch(handler, url, download_timeout=0.1)
        await until(lambda: open_now(handler) == 0)


@pytest.mark.parametrize("bind", [None, "127.0.0.1"], ids=["by the loop", "by a socket"])
async def test_a_fetch_may_be_given_up_while_nobody_answers(
    handler: DownloadHandler, bind: str | None
) -> None:
    """The listener's queue is full, so that the system lets further connections wait."""
    with socket.socket() as listener, ExitStack() as queue:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            waiting = queue.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pytest.raises(DownloadTimeoutError):
            await fetch(handler, url, download_timeout=0.1, bindaddress=bind)
        assert open_now(handler) == 0


async def test_a_place_is_free_again_however_a_fetch_ends() -> None:
    async with (
        handler_with(CONCURRENT_REQUESTS=1) as handler,
        serving(ok(b"x")) as good,
        serving(reset) as bad,
        serving(then_silent(b"")) as silent,
    ):
        for _ in range(3):
            with pytest.raises(DownloadFailedError):
                await fetch(handler, bad.url)
            with pytest.raises(DownloadTimeoutError):
                await fetch(handler, silent.url, download_timeout=0.05)
            assert await fetch(handler, good.url) == b"x"


async def test_a_client_that_is_closed_has_no_connections_left() -> None:
    async with handler_with() as handler, serving(ok(b"x")) as server:
        await asyncio.gather(*(fetch(handler, server.url) for _ in range(5)))
        assert kept(handler) == open_now(handler) == 5
        await handler.close()
        assert (kept(handler), open_now(handler)) == (0, 0)
        # The fixture closes it once more.
        handler._client._users += 1


async def test_a_client_that_is_closed_does_not_wait_for_who_still_connects() -> None:
    async with handler_with() as handler, serving(then_silent(b"")) as server:
        url = f"https://127.0.0.1:{server.port}/"
        task = asyncio.ensure_future(fetch(handler, url))
        await until(lambda: server.connections == 1)
        async with asyncio.timeout(60):
            await handler._client._connector.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_of_several_connections_to_a_host_those_that_waited_too_long_are_closed() -> None:
    async with handler_with(DOWNLOAD_KEEPALIVE=1000) as handler, serving(ok(b"x")) as server:
        await asyncio.gather(*(fetch(handler, server.url) for _ in range(3)))
        ((route, waiting),) = handler._client.pool.waiting.items()
        handler._client.pool.waiting[route] = [(one, since - 1001) for one, since in waiting]
        handler._client.pool.waiting[route][-1] = waiting[-1]
        await fetch(handler, server.url)
        assert kept(handler) == 1
    assert server.connections == 3


# --- how many are kept ---------------------------------------------------------------------------

OVERRIDES = {".test": "127.0.0.1"}


def kept_hosts(handler: DownloadHandler) -> list[str]:
    return [route.origin.host for route in handler._client.pool.waiting]


async def test_hosts_that_were_met_first_keep_their_connections() -> None:
    """Hosts are contacted in turn: one that made room for the next would be needed first."""
    async with (
        handler_with(DOWNLOAD_KEEPALIVE_HOSTS=2, DNS_OVERRIDES=OVERRIDES) as handler,
        serving(ok(b"")) as server,
    ):
        for _ in range(3):
            for host in ("a", "b", "c"):
                await fetch(handler, f"http://{host}.test:{server.port}/")
                assert len(handler._client.pool) <= 2
        assert kept_hosts(handler) == ["a.test", "b.test"]
        await until(lambda: open_now(handler) == 2)
    assert server.connections == 2 + 3


async def test_each_connection_of_a_host_counts() -> None:
    async with handler_with(DOWNLOAD_KEEPALIVE_HOSTS=2) as handler, serving(ok(b"")) as server:
        await asyncio.gather(*(fetch(handler, server.url) for _ in range(5)))
        assert len(handler._client.pool) == kept(handler) == 2


async def test_a_connection_that_the_server_closes_makes_room() -> None:
    async with (
        handler_with(DOWNLOAD_KEEPALIVE_HOSTS=1, DNS_OVERRIDES=OVERRIDES) as handler,
        serving(ok(b"")) as server,
    ):
        async with serving(ok(b"")) as leaving:
            await fetch(handler, leaving.url)
            assert len(handler._client.pool) == 1
        await until(lambda: len(handler._client.pool) == 0)
        await fetch(handler, f"http://a.test:{server.port}/")
        assert kept_hosts(handler) == ["a.test"]


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_closed_connection_leaves_nothing_to_collect(scheme: str, tmp_path: Path) -> None:
    tls = server_context(tmp_path) if scheme == "https" else None
    async with handler_with() as handler, serving(ok(b"x"), tls=tls) as server:
        gc.disable()
        try:
            await fetch(handler, f"{scheme}://127.0.0.1:{server.port}/")
            pool = handler._client.pool
            left = weakref.ref(next(iter(pool.waiting.values()))[0][0]._transport)
            assert pool.shed()
            await until(lambda: left() is None)
        finally:
            gc.enable()


@pytest.mark.parametrize(
    ("delay_s", "promise", "count"),
    [(3.0, b"", 1), (16.0, b"", 0), (3.5, b"Keep-Alive: timeout=4", 0)],
)
async def test_a_connection_that_is_not_needed_in_time_is_closed_at_once(
    handler: DownloadHandler, delay_s: float, promise: bytes, count: int
) -> None:
    async with serving(ok(b"x", promise) if promise else ok(b"x")) as server:
        await fetch(handler, server.url, **{CRAWL_DELAY: delay_s})
        assert kept(handler) == len(handler._client.pool) == count
        await until(lambda: open_now(handler) == count)


async def test_many_idle_connections_are_closed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_SWEEP_MAX", 2)
    async with (
        handler_with(DOWNLOAD_KEEPALIVE=0.01, DNS_OVERRIDES=OVERRIDES) as handler,
        serving(ok(b"")) as server,
    ):
        hosts = [f"http://{number}.test:{server.port}/" for number in range(5)]
        await asyncio.gather(*(fetch(handler, url) for url in hosts))
        await until(lambda: open_now(handler) == 0)
        assert len(handler._client.pool) == 0
        assert not handler._client.pool.waiting


# --- addresses and TLS ---------------------------------------------------------------------------


async def test_an_address_of_ipv6_is_connected_to(handler: DownloadHandler) -> None:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with serving(ok(b"six"), host="::1") as server:
        response = await handler.download_request(Request(f"http://[::1]:{server.port}/"))
    assert (response.body, str(response.ip_address)) == (b"six", "::1")
    assert b"Host: [::1]:%d\r\n" % server.port in server.requests[0]


async def test_of_several_addresses_the_first_that_answers_is_used() -> None:
    async with (
        DnsServer() as dns,
        handler_with(DNS_SERVERS=[dns.address]) as handler,
        serving(ok(b"x"), host="127.0.0.3") as server,
    ):
        dns.set("many.test", "127.0.0.1", "127.0.0.2", "127.0.0.3")
        response = await handler.download_request(Request(f"http://many.test:{server.port}/"))
        assert str(response.ip_address) == "127.0.0.3"
        dns.set("none.test", "127.0.0.1", "127.0.0.2")
        with pytest.raises(DownloadConnectionRefusedError, match=f"none.test:{server.port}"):
            await fetch(handler, f"http://none.test:{server.port}/")


async def test_an_address_that_speaks_no_tls_is_passed_over(tmp_path: Path) -> None:
    async with (
        DnsServer() as dns,
        handler_with(DNS_SERVERS=[dns.address]) as handler,
        serving(ok(b"secure"), host="127.0.0.2", tls=server_context(tmp_path)) as server,
    ):

        async def no_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        listener = await asyncio.start_server(no_tls, "127.0.0.1", server.port)
        dns.set("mixed.test", "127.0.0.1", "127.0.0.2")
        assert await fetch(handler, f"https://mixed.test:{server.port}/") == b"secure"
        dns.set("plain.test", "127.0.0.1")
        with pytest.raises(DownloadFailedError):
            await fetch(handler, f"https://plain.test:{server.port}/")
        listener.close()


async def test_a_secure_connection_is_used_again_and_names_its_host(tmp_path: Path) -> None:
    asked: list[str | None] = []
    tls = server_context(tmp_path)
    tls.sni_callback = lambda _, name, __: asked.append(name)
    overrides = {".test": "127.0.0.1"}
    async with (
        handler_with(DNS_OVERRIDES=overrides) as handler,
        serving(ok(b"x"), tls=tls) as server,
    ):
        for host in ("a.test", "a.test", "b.test.", "A.test"):
            response = await handler.download_request(Request(f"https://{host}:{server.port}/"))
            assert response.certificate
    assert asked == ["a.test", "b.test"]


async def test_a_secure_answer_ends_with_its_connection(tmp_path: Path) -> None:
    answer = then_closed(b"HTTP/1.0 200 OK\r\n\r\nabc")
    async with handler_with() as handler, serving(answer, tls=server_context(tmp_path)) as server:
        assert await fetch(handler, f"https://127.0.0.1:{server.port}/") == b"abc"


async def test_a_secure_answer_may_end_without_a_word(tmp_path: Path) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nabc")
        await writer.drain()
        # Of TLS: the connection below it ends.
        writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    async with handler_with() as handler, serving(answer, tls=server_context(tmp_path)) as server:
        assert await fetch(handler, f"https://127.0.0.1:{server.port}/") == b"abc"


async def test_a_name_that_a_certificate_does_not_have_is_refused(tmp_path: Path) -> None:
    tls: ssl.SSLContext = server_context(tmp_path)
    async with (
        handler_with(DOWNLOAD_VERIFY_CERTIFICATES=True) as handler,
        serving(ok(b"x"), tls=tls) as server,
    ):
        with pytest.raises(DownloadFailedError, match="certificate verify failed"):
            await fetch(handler, f"https://127.0.0.1:{server.port}/")
        assert open_now(handler) == 0
    assert server.requests == []


@pytest.mark.parametrize("host", ["a" * 70 + ".test", ".test"])
async def test_a_name_that_tls_cannot_send_fails(tmp_path: Path, host: str) -> None:
    async with (
        handler_with(DNS_OVERRIDES={".test": "127.0.0.1"}) as handler,
        serving(ok(b"x"), tls=server_context(tmp_path)) as server,
    ):
        with pytest.raises(DownloadFailedError):
            await fetch(handler, f"https://{host}:{server.port}/")
        assert open_now(handler) == 0
