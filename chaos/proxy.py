"""A TCP proxy on loopback in front of a server, to make its line slow, silent or cut.

with Proxy(path_of_a_unix_socket) as proxy:      # or Proxy(("127.0.0.1", port))
    connect to proxy.port …
    proxy.silence()            # what is connected stays so, and hears nothing any more
    proxy.silence(new=True)    # the same for whoever connects from now on
    proxy.speak()              # whoever connects from now on is heard; the others never again
    proxy.cut()                # connections are reset; whoever connects from now on is served
    proxy.refuse()             # the same, and nobody connects, until proxy.accept()
    proxy.hold(TO_CLIENT)      # what goes this way waits, until proxy.let_go()
    proxy.latency_s = 0.5      # both ways from now on
    proxy.reset_replies(3)     # the next three replies end in their middle, by a reset

It can also end TLS for a server that has none.
"""

import asyncio
import random
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

TO_SERVER, TO_CLIENT = "to the server", "to the client"
_CHUNK_BYTES = 65_536
_TIMEOUT_S = 30.0
# Timers of different length fire in the order of their times only if these differ.
_TICK_S = 1e-6
# On close a socket with this option sends a reset, and forgets what it had to send.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """A proxy with an event loop in a thread of its own: the server's clients may block theirs.

    What goes either way arrives `latency_s` later, in its order. After so many `messages` of
    clients all connections are cut, and new ones refused. The server need not be there: who
    connects meanwhile is cut. With `tls`, clients have to use it.
    """

    def __init__(
        self,
        server: str | tuple[str, int],
        *,
        latency_s: float = 0.0,
        messages: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = 0
        # May change at any time.
        self.latency_s = latency_s
        self._server_address = server
        self._messages_left = messages
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._listener: asyncio.Server | None = None
        self._is_silent = False
        # Connections that were accepted before the last silence forward nothing.
        self._generation = 0
        self._lines: set[_Line] = set()
        self._gates = {TO_SERVER: asyncio.Event(), TO_CLIENT: asyncio.Event()}
        for gate in self._gates.values():
            gate.set()
        self._resets_left = 0
        self._chance = random.Random(0)

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

    def cut(self, share: float = 1.0, chance: random.Random | None = None) -> int:
        """Reset connections, or a share of them that `chance` draws; return how many."""

        def reset() -> int:
            lines = sorted(self._lines, key=lambda line: line.number)
            if share < 1.0:
                drawn = chance or self._chance
                lines = [line for line in lines if drawn.random() < share]
            for line in lines:
                line.reset()
            return len(lines)

        return self._do(reset)

    def refuse(self) -> None:
        """Reset all connections, and let nobody connect."""
        self._do(self._refuse)

    def accept(self) -> None:
        """Let clients connect again."""
        self._wait_for(self._listen())

    def hold(self, way: str) -> None:
        """Let what goes this way (TO_SERVER, TO_CLIENT) wait."""
        self._do(self._gates[way].clear)

    def let_go(self) -> None:
        """Forward what waits, both ways."""
        for gate in self._gates.values():
            self._do(gate.set)

    def reset_replies(self, count: int, chance: random.Random | None = None) -> None:
        """Forward a part of each of the next replies, and reset its connection; 0 ends that."""
        if chance is not None:
            self._chance = random.Random(chance.getrandbits(32))
        self._resets_left = count

    # --- in the thread of the loop ---------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        generation = -1 if self._is_silent else self._generation
        try:
            there, to_server = await self._connect()
        except OSError:
            _reset(writer)
            return
        line = _Line(generation, (writer, to_server))
        self._lines.add(line)
        try:
            # Python 3.11 complains of such a task that ends by a cancellation.
            with suppress(asyncio.CancelledError, OSError):
                await asyncio.gather(
                    self._forward(reader, to_server, line, TO_SERVER),
                    self._forward(there, writer, line, TO_CLIENT),
                )
        finally:
            self._lines.discard(line)
            for each in line.writers:
                each.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server_address, str):
            return await asyncio.open_unix_connection(self._server_address)
        return await asyncio.open_connection(*self._server_address)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        line: "_Line",
        way: str,
    ) -> None:
        due_s = 0.0
        while data := await reader.read(_CHUNK_BYTES):
            if line.generation != self._generation:
                continue
            await self._gates[way].wait()
            if way == TO_SERVER and not self._count_message():
                return
            if way == TO_CLIENT and self._resets_left > 0:
                self._resets_left -= 1
                writer.write(data[: self._chance.randrange(len(data))])
                # Otherwise the reset would overtake it.
                await asyncio.sleep(0.01)
                line.reset()
                return
            if self.latency_s or due_s > self._loop.time():
                due_s = max(due_s + _TICK_S, self._loop.time() + self.latency_s)
                self._loop.call_at(due_s, writer.write, data)
            else:
                writer.write(data)
                await writer.drain()
        # After what is still on its way.
        self._loop.call_at(max(due_s + _TICK_S, self._loop.time()), writer.close)

    def _count_message(self) -> bool:
        """Count a message of a client; False: there were enough, and all connections are cut."""
        if self._messages_left is None:
            return True
        if self._messages_left == 0:
            self._refuse()
            return False
        self._messages_left -= 1
        return True

    def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for line in list(self._lines):
            line.reset()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(
                self._accept, "127.0.0.1", self.port, ssl=self._tls
            )
            self.port = self._listener.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._refuse()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- from other threads ----------------------------------------------------------------------

    def _do(self, work: Callable[[], Any]) -> Any:
        async def done() -> Any:
            return work()

        return self._wait_for(done())

    def _wait_for(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_TIMEOUT_S)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._wait_for(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wait_for(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()


class _Line:
    """Connection of a client, and the one to the server that belongs to it."""

    _count = 0

    def __init__(self, generation: int, writers: tuple[asyncio.StreamWriter, ...]) -> None:
        _Line._count += 1
        self.number = _Line._count
        self.generation = generation
        self.writers = writers

    def reset(self) -> None:
        for writer in self.writers:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    # Of a Unix socket, or of one that is closed already, there is nothing to reset.
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
