"""Kept connections that a server ends as the next request comes: what is sent again, what not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError

from crawler.download.address_guard import Guard
from crawler.download.errors import PrivateAddress, StoppedTooLong
from crawler.download.handler import DownloadHandler
from crawler.util.request_meta import MAY_FETCH
from tests.support.http_server import Answer, ok, reset, then_closed, then_silent

FINE = then_silent(ok(b"x"))
SILENCE = then_silent(b"")
END = then_closed(b"")


class Scripted:
    """Has an answer for each request of each connection."""

    def __init__(self, connections: Sequence[Sequence[Answer]]) -> None:
        self.url = ""
        # Of each connection, how many came.
        self.requests: list[int] = []
        self._scripts = iter(connections)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = len(self.requests)
        self.requests.append(0)
        try:
            for answer in next(self._scripts):
                await reader.readuntil(b"\r\n\r\n")
                self.requests[connection] += 1
                await answer(writer)
            await reader.read()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*connections: Sequence[Answer]) -> AsyncIterator[Scripted]:
    server = Scripted(connections)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    try:
        yield server
    finally:
        listener.close()


@pytest.mark.parametrize("end", [END, reset], ids=["closes", "resets"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_request_that_a_kept_connection_lost_is_sent_on_a_new_one(
    handler: DownloadHandler, method: str, end: Answer
) -> None:
    fine = then_silent(ok(b""))
    async with scripted([fine, end], [fine, fine, end], [fine]) as server:
        for _ in range(4):
            response = await handler.download_request(Request(server.url, method=method))
            assert (response.status, response.flags) == (200, [])
    assert server.requests == [2, 3, 1]


async def test_a_request_that_may_not_be_repeated_is_sent_once(handler: DownloadHandler) -> None:
    async with scripted([FINE, END]) as server:
        await handler.download_request(Request(server.url))
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url, method="POST"))
    assert server.requests == [2]


async def test_a_request_that_a_new_connection_lost_is_not_sent_again(
    handler: DownloadHandler,
) -> None:
    async with scripted([FINE, END], [END]) as server:
        await handler.download_request(Request(server.url))
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))
    assert server.requests == [2, 1]


async def test_an_answer_that_had_begun_is_not_asked_for_again(handler: DownloadHandler) -> None:
    async with scripted([FINE, then_closed(b"HTTP/1.1 200 OK\r\n")]) as server:
        await handler.download_request(Request(server.url))
        with pytest.raises(DownloadFailedError):
            await handler.download_request(Request(server.url))
    assert server.requests == [2]


async def test_the_time_of_a_fetch_holds_for_both_connections(handler: DownloadHandler) -> None:
    async with scripted([FINE, END], [SILENCE]) as server:
        await handler.download_request(Request(server.url))
        with pytest.raises(DownloadTimeoutError):
            await handler.download_request(Request(server.url, meta={"download_timeout": 0.2}))
    assert server.requests == [2, 1]


async def test_the_new_connection_is_judged_as_any_other(handler: DownloadHandler) -> None:
    async with scripted([FINE, END]) as server:
        await handler.download_request(Request(server.url))
        handler._client._connector._guard = Guard([], lambda _: None)
        with pytest.raises(PrivateAddress):
            await handler.download_request(Request(server.url))
    assert server.requests == [2]


async def test_nothing_is_sent_again_by_a_process_that_lost_its_lease(
    handler: DownloadHandler,
) -> None:
    may_fetch = iter([True, False])
    async with scripted([FINE, END], [FINE]) as server:
        await handler.download_request(Request(server.url))
        request = Request(server.url, meta={MAY_FETCH: lambda: next(may_fetch)})
        with pytest.raises(StoppedTooLong):
            await handler.download_request(request)
    assert server.requests[0] == 2
    assert sum(server.requests[1:]) == 0
