"""A TCP proxy on loopback in front of a server's Unix socket, to make its line slow, silent or cut.

It can also end TLS for a server that has none.

with Proxy(path_of_a_unix_socket) as proxy:
    connect to proxy.port …
    proxy.silence()            # what is connected stays so, and hears nothing any more
    proxy.silence(new=True)    # the same for whoever connects from now on
    proxy.speak()              # whoever connects from now on is heard; the others never again
"""

import asyncio
import ssl
import threading
from contextlib import suppress
from types import TracebackType

_CHUNK_BYTES = 65_536
_TIMEOUT_S = 30.0


class Proxy:
    """A proxy with an event loop in a thread of its own: the server's clients may block theirs.

    What clients send reaches the server `latency_s` later, in its order. After so many `messages`
    of theirs all connections are cut, and new ones refused. With `tls`, clients have to use it.
    """

    def __init__(
        self,
        socket_path: str,
        *,
        latency_s: float = 0.0,
        messages: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = 0
        self._socket_path = socket_path
        self._latency_s = latency_s
        self._messages_left = messages
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._is_silent = False
        # Connections that were accepted before the last silence forward nothing.
        self._generation = 0
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def silence(self, *, new: bool = False) -> None:
        """Let open connections stay open, and forward nothing on them from now on."""
        self._generation += 1
        self._is_silent = new

    def speak(self) -> None:
        """Serve new connections again."""
        self._is_silent = False

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        generation = -1 if self._is_silent else self._generation
        there, to_server = await asyncio.open_unix_connection(self._socket_path)
        both = {writer, to_server}
        self._writers |= both
        try:
            # Python 3.11 complains of such a task that ends by a cancellation.
            with suppress(asyncio.CancelledError, OSError):
                await asyncio.gather(
                    self._send(reader, to_server, generation),
                    self._answer(there, writer, generation),
                )
        finally:
            self._writers -= both
            for each in both:
                each.close()

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, generation: int
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if generation != self._generation:
                continue
            if self._messages_left is not None:
                if self._messages_left == 0:
                    self._cut()
                    return
                self._messages_left -= 1
            # Timers of the same length fire in their order.
            self._loop.call_later(self._latency_s, writer.write, data)
        writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, generation: int
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if generation == self._generation:
                writer.write(data)
                await writer.drain()
        writer.close()

    def _cut(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(_TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()
