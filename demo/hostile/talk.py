"""One request to a hostile host, and what may be done with its connection."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Final

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
# Between two bytes of a server that is slow on purpose.
_DRIP_S: Final = 0.2


class Talk:
    """A connection after a request. `size` is the number of bytes of what is called large."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        size: int,
        host: str = "",
        target: str = "/",
        number: int = 0,
    ) -> None:
        self.size = size
        self.host = host
        self.target = target
        self.number = number
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Send, and wait while the client does not read; raises ConnectionError if it left."""
        if self._writer.is_closing():
            raise ConnectionResetError("the client left")
        self._writer.write(data)
        await self._writer.drain()
        # Without a pause an endless answer would let nobody else answer.
        await asyncio.sleep(0)

    async def endlessly(self, piece: bytes) -> None:
        """Send the same again and again until the client leaves."""
        block = piece * max(1, 65_536 // len(piece))
        while True:
            await self.send(block)

    async def drip(self, piece: bytes) -> None:
        """Send the same slowly until the client leaves."""
        while True:
            await self.send(piece)
            await asyncio.sleep(_DRIP_S)

    async def read(self) -> bytes:
        """Wait for bytes of the client; none come when it leaves."""
        return await self._reader.read(65_536)

    async def hang(self) -> None:
        """Do nothing until the client leaves."""
        while await self.read():
            pass

    def close(self) -> None:
        """Close the connection when all that was sent has left."""
        self._writer.close()

    def reset(self) -> None:
        """Break the connection."""
        # Linger 0 makes the kernel send RST instead of FIN.
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()

    def send_below_tls(self, data: bytes) -> None:
        """Put bytes that are no records of TLS on the wire."""
        os.write(self._writer.get_extra_info("socket").fileno(), data)


def head(
    status: int = 200,
    *,
    length: int | None = None,
    kind: str = "text/html; charset=utf-8",
    fields: str = "",
) -> bytes:
    """Return the head of a response; `fields` are more lines, each with its end."""
    size = "" if length is None else f"Content-Length: {length}\r\n"
    return f"HTTP/1.1 {status} X\r\n{size}Content-Type: {kind}\r\n{fields}\r\n".encode("latin-1")


def page(host: str, inner: bytes | str = b"") -> bytes:
    """Return a small page that differs from those of other hosts."""
    inner = inner.encode() if isinstance(inner, str) else inner
    words = host.replace(".", " ").replace("-", " ")
    start = f"<!DOCTYPE html><title>{words}</title><p>This page of {words} is quite harmless.</p>"
    return start.encode() + inner


async def harmless(talk: Talk, inner: bytes | str = b"") -> None:
    """Answer with a small page."""
    body = page(talk.host + talk.target.replace("/", " "), inner)
    await talk.send(head(length=len(body)) + body)
