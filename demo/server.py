"""Run the synthetic web on one loopback port."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TextIO

from demo.access_log import FLUSH_EVERY_S, AccessLog
from demo.answers import Answering, Answers
from demo.clock import Clock
from demo.control import HostileHosts, obey
from demo.protocol import Connection
from demo.web import Web, WebOptions


async def _flush_regularly(log: AccessLog) -> None:
    while True:
        await asyncio.sleep(FLUSH_EVERY_S)
        log.flush()


@asynccontextmanager
async def serve(
    options: WebOptions,
    host: str = "127.0.0.1",
    port: int = 0,
    log_path: str | Path | None = None,
    *,
    clock: Clock | None = None,
    latency_s: float = 0.0,
    commands: TextIO | None = None,
) -> AsyncIterator[int]:
    """Serve the web within the `async with` block and give the port that was bound.

    `latency_s` is waited before each answer; for `commands` see demo/control.py. On leaving, open
    connections are dropped and the access log is complete on disk.
    """
    answers = Answers(Web(options), clock or Clock())
    async with serve_answers(
        answers, host, port, log_path, latency_s=latency_s, commands=commands
    ) as bound:
        yield bound


@asynccontextmanager
async def serve_answers(
    answers: Answering,
    host: str = "127.0.0.1",
    port: int = 0,
    log_path: str | Path | None = None,
    *,
    latency_s: float = 0.0,
    commands: TextIO | None = None,
) -> AsyncIterator[int]:
    """Serve answers of any kind, as `serve` does."""
    loop = asyncio.get_running_loop()
    hostile = HostileHosts(answers)
    log = AccessLog(log_path) if log_path is not None else None
    connections: set[Connection] = set()

    def connect() -> Connection:
        served = hostile if commands is not None else answers
        return Connection(served, log, latency_s, connections)

    servers: list[asyncio.Server] = []

    async def listen(host: str, port: int) -> None:
        servers.append(await loop.create_server(connect, host, port, backlog=4096))

    try:
        await listen(host, port)
        tasks = [asyncio.create_task(_flush_regularly(log))] if log is not None else []
        if commands is not None:
            tasks.append(asyncio.create_task(obey(commands, hostile, listen)))
        try:
            yield servers[0].sockets[0].getsockname()[1]
        finally:
            for server in servers:
                server.close()
            for connection in list(connections):
                connection.drop()
            await asyncio.sleep(0)  # lets dropped connections write their entries
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        if log is not None:
            log.close()


@contextmanager
def serving_thread(answers: Answering) -> Iterator[int]:
    """Serve answers from a thread within the `with` block and give the port that was bound."""
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    bound: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def serve_until_ended() -> None:
        async with serve_answers(answers) as port:
            bound.put(port)
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve_until_ended(),))
    thread.start()
    try:
        yield bound.get()
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()
