"""An HTTP proxy on loopback: absolute-form requests for http, tunnels for https.

async with proxying() as proxy:
    proxy.to = server.port         # where every name leads
    proxy.credentials = b"Basic …" # without these it responds with 407
    proxy.refusal = b"HTTP/1.1 …"  # its response to every request, then it closes
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress


class HttpProxy:
    """Proxy that leads every name to one port of loopback."""

    def __init__(self) -> None:
        self.port = 0
        self.to = 0
        self.credentials = b""
        self.refusal: bytes | None = None
        self.connections = 0
        # Heads of the requests for the proxy itself.
        self.requests: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head)
            if self.refusal is not None:
                writer.write(self.refusal)
                return
            wanted = b"\r\nProxy-Authorization: %b\r\n" % self.credentials
            if self.credentials and wanted not in head:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 3\r\n\r\nwho")
                continue
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.to)
            if head.startswith(b"CONNECT "):
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                await asyncio.gather(_copy(reader, there), _copy(there_reader, writer))
                return
            with closing(there):
                there.write(head)
                response = await there_reader.readuntil(b"\r\n\r\n")
                length = int(response.lower().partition(b"content-length:")[2].split()[0])
                writer.write(response + await there_reader.readexactly(length))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            to.write(data)
    except OSError:
        pass
    finally:
        to.close()


@asynccontextmanager
async def proxying(tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpProxy]:
    proxy = HttpProxy()
    listener = await asyncio.start_server(proxy.handle, "127.0.0.1", 0, ssl=tls)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.close()
