"""An HTTP server on loopback that answers as it is told, and the handler that meets it."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from crawler.download.handler import DownloadHandler
from tests.support.crawlers import project_crawler

LOOPBACK = ["127.0.0.0/8", "::1"]
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Reads requests and gives each connection's next request the same answer."""

    def __init__(self, answer: bytes | Answer) -> None:
        self.port = 0
        self.connections = 0
        self.requests: list[bytes] = []
        self._answer = answer
        self._is_closed = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                self.requests.append(head + await reader.readexactly(length))
                if callable(self._answer):
                    await self._answer(writer)
                else:
                    writer.write(self._answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.transport.abort() if self._is_closed else writer.close()

    async def close(self) -> None:
        """End the connections that clients keep."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(
    answer: bytes | Answer,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
    port: int = 0,
) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await asyncio.start_server(server.handle, host, port, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()


@asynccontextmanager
async def handler_with(**settings: Any) -> AsyncIterator[DownloadHandler]:
    handler = DownloadHandler.from_crawler(
        project_crawler(**{"ALLOW_NETWORKS": LOOPBACK, **settings})
    )
    try:
        yield handler
    finally:
        await handler.close()


def ok(body: bytes, *headers: bytes) -> bytes:
    fields = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, len(body), body)


async def reset(writer: asyncio.StreamWriter) -> None:
    """Close the connection so that the client gets a reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def then_closed(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return answer


def then_silent(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer
