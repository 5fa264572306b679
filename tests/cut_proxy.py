"""A TCP way to a server that is cut after some messages: from then on the server is away."""

import asyncio
from pathlib import Path
from types import TracebackType
from typing import Self


class CutProxy:
    """An async context manager. Forwards to a unix socket, and counts what clients send."""

    def __init__(self, socket: Path, *, messages: int) -> None:
        self._socket = socket
        self._left = messages
        self._writers: list[asyncio.StreamWriter] = []
        self._listener: asyncio.Server

    @property
    def address(self) -> str:
        host, port = self._listener.sockets[0].getsockname()
        return f"{host}:{port}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._cut()

    def _cut(self) -> None:
        """Refuse connections, and drop those that there are."""
        self._listener.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_unix_connection(self._socket)
        self._writers += [writer, server]
        try:
            await asyncio.gather(self._forward(reader, server), _copy(answers, writer))
        except OSError:
            pass
        finally:
            writer.transport.abort()
            server.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self._left == 0:
                self._cut()
                return
            self._left -= 1
            server.write(data)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
