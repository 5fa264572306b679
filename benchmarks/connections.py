"""Measure idle connections: the memory of each, and whether one process can have 5,000 open.

A server in another process keeps every connection open. Our handler fetches a page from as many
hosts, all of which lead there, and what its process grew by is shared out.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from scrapy import Request
from scrapy.utils.misc import build_from_crawler
from scrapy.utils.test import get_crawler

from benchmarks import command
from benchmarks.crawl.certificate import server_context
from benchmarks.figures import Figure, Skipped, at_least, at_most
from benchmarks.machine import raise_file_limit
from crawler import settings as ours
from crawler.download.handler import DownloadHandler
from crawler.extensions.fastpath import keep_memory
from crawler.util import file_limit

_STATM = Path("/proc/self/statm")
_HOST = "127.0.0.1"
# A packed page.
_BODY = bytes(range(256)) * 100
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(_BODY)
_AT_ONCE = 32
_WARM = 100
_TLS_TARGET_KB = 100


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """Memory and CPU time of connections that stay open, with TLS and without."""
    count = 500 if quick else 5000
    needed = file_limit.Connections(_AT_ONCE, count + _WARM).files
    if not _STATM.exists():
        yield Skipped("connections", "this system does not tell the memory of a process")
        return
    if (most := file_limit.limits()[1]) < needed:
        yield Skipped("connections", f"only {most} files may be open, and {needed} are needed")
        return
    raise_file_limit(needed)
    keep_memory()
    for scheme, target in (("http", None), ("https", at_most(_TLS_TARGET_KB))):
        opened, kb, ms = asyncio.run(_measure(scheme, count))
        name = f"connections.{scheme}"
        yield Figure(f"{name}.open", opened, "", target=at_least(count))
        yield Figure(f"{name}.kb_each", kb, "KB", target=target)
        yield Figure(f"{name}.open_cpu", ms, "ms")


async def _measure(scheme: str, count: int) -> tuple[int, float, float]:
    """Connections that are open at the end, the KB and the ms of CPU time of each."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    server = spawn.Process(target=_serve, args=(there, scheme, count + _WARM), daemon=True)
    server.start()
    port = await asyncio.to_thread(here.recv)
    handler = _handler(count + _WARM)
    try:
        await _fetch(handler, [f"{scheme}://w{number}.test:{port}/" for number in range(_WARM)])
        before, started = _memory_bytes(), time.process_time()
        await _fetch(handler, [f"{scheme}://h{number}.test:{port}/" for number in range(count)])
        took_s, after = time.process_time() - started, _memory_bytes()
        opened = len(handler._client.pool) - _WARM  # noqa: SLF001 - nobody else needs it
    finally:
        await handler.close()
        server.terminate()
        await asyncio.to_thread(server.join)
    return opened, (after - before) / count / 1024, took_s / count * 1000


async def _fetch(handler: DownloadHandler, urls: list[str]) -> None:
    waiting = iter(urls)

    async def fetch_all() -> None:
        for url in waiting:
            response = await handler.download_request(Request(url))
            assert response.body == _BODY

    await asyncio.gather(*(fetch_all() for _ in range(_AT_ONCE)))


def _handler(kept: int) -> DownloadHandler:
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {
        "EXTENSIONS": {},
        "TWISTED_REACTOR_ENABLED": False,
        "ALLOW_NETWORKS": ["127.0.0.0/8"],
        "DNS_OVERRIDES": {".test": _HOST},
        "DOWNLOAD_KEEPALIVE": 600.0,
        "DOWNLOAD_KEEPALIVE_HOSTS": kept,
    }
    handler: DownloadHandler = build_from_crawler(
        DownloadHandler, get_crawler(settings_dict=values)
    )
    return handler


def _memory_bytes() -> int:
    gc.collect()
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()


class _Answers(asyncio.Protocol):
    """Server's side of a connection: it answers every request, and stays open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"\r\n\r\n"):
            self._transport.write(_ANSWER + _BODY)


def _serve(parent: Connection, scheme: str, count: int) -> None:
    """Serve, and tell the parent the port. Runs in its own process."""
    raise_file_limit(count + 100)

    async def serve() -> None:
        with tempfile.TemporaryDirectory() as folder:
            tls = server_context(Path(folder), "h.test") if scheme == "https" else None
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Answers, _HOST, 0, ssl=tls, backlog=1024)
        parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    sys.exit(command.run("benchmarks.connections", __doc__, {"connections": measure}))
