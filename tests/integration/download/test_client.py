"""Connections: nothing is sent by a process that may have lost its lease while it connected."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from crawler.download.errors import StoppedTooLong
from crawler.download.http1.proxied import MAY_SEND, ProxyConnector


class Host:
    """Answers every request, and keeps what it received."""

    def __init__(self) -> None:
        self.port = 0
        self.received = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self.received += line
            if line == b"\r\n":
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    host = Host()
    async with await asyncio.start_server(host.serve, "127.0.0.1", 0) as server:
        host.port = server.sockets[0].getsockname()[1]
        yield host


async def fetch(host: Host, may_send: list[bool]) -> list[int]:
    """Fetch as often as there are answers to the question, by one pool of connections."""
    statuses = []
    async with aiohttp.ClientSession(connector=ProxyConnector(max_idle=4)) as session:
        for answer in may_send:
            MAY_SEND.set(lambda answer=answer: answer)
            async with session.get(f"http://127.0.0.1:{host.port}/") as response:
                statuses.append(response.status)
    return statuses


async def test_a_process_that_stood_still_while_it_connected_sends_nothing(host: Host) -> None:
    with pytest.raises(StoppedTooLong):
        await fetch(host, [False])
    assert host.received == b""


async def test_a_kept_connection_is_asked_about_too(host: Host) -> None:
    with pytest.raises(StoppedTooLong):
        await fetch(host, [True, False])
    assert host.received.count(b"GET / ") == 1


async def test_others_fetch(host: Host) -> None:
    assert await fetch(host, [True, True]) == [200, 200]
