"""A slow line to a server: a proxy on loopback that passes everything on a little later."""

import asyncio
import threading
from contextlib import suppress
from types import TracebackType

_CHUNK = 65536


class SlowLine:
    """A context manager with the address of a proxy in front of a server's Unix socket.

    Bytes reach the server `latency_s` after they were sent, in their order; answers come at once.
    """

    def __init__(self, socket_path: str, latency_s: float) -> None:
        self.port = 0
        self._socket_path = socket_path
        self._latency_s = latency_s
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._is_open.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with suppress(asyncio.CancelledError, OSError):
                self._loop.run_until_complete(task)
        self._server.close()
        self._loop.run_until_complete(self._server.wait_closed())
        self._loop.close()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._socket_path)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forward(reader, back, self._latency_s))
                both.create_task(self._forward(there, writer, 0.0))
        except* OSError:
            pass
        finally:
            for end in (writer, back):
                end.close()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, latency_s: float
    ) -> None:
        while data := await reader.read(_CHUNK):
            if latency_s:
                # Timers of the same length fire in their order.
                self._loop.call_later(latency_s, writer.write, data)
            else:
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError

    def __enter__(self) -> "SlowLine":
        self._thread.start()
        self._is_open.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
