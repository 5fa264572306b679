"""Serve the zoo of hostile servers on loopback: each behaviour on hosts of its own."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.hostile.behaviour import Behaviour
from demo.hostile.certificates import Authority
from demo.hostile.names import DnsServer
from demo.hostile.talk import Talk, head
from demo.hostile.zoo import behaviours

# What is called large has so many bytes, a little less than DOWNLOAD_MAXSIZE.
SIZE: Final = 10 * 1024 * 1024
_HEAD_BYTES: Final = 256 * 1024
_NOT_FOUND: Final = head(404, length=0)
_NO_PORT: Final = 1
_Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Served:
    """Where the zoo is, for a crawl of it."""

    # DNS_OVERRIDES and DNS_SERVERS.
    overrides: Mapping[str, str]
    dns: str
    # File of the authority that vouches for the good certificates: SSL_CERT_FILE.
    authority: str
    # URLs of each behaviour, by its name.
    urls: Mapping[str, list[str]]


@asynccontextmanager
async def serve(size: int = SIZE, only: frozenset[str] = frozenset()) -> AsyncIterator[Served]:
    """Serve the zoo inside the block, or the behaviours with these names."""
    wanted = [each for each in behaviours() if not only or each.name in only]
    by_host = {name: (each, at) for each in wanted for at, name in enumerate(each.names)}
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-")))
        authority = Authority(folder)
        open_port = _Ports(stack)
        plain = await open_port(_asked(by_host, size))
        overrides, urls = {}, {}
        for each in wanted:
            if each.is_closed:
                port = _NO_PORT
            elif each.is_raw:
                port = await open_port(_raw(each, size))
            elif each.certificate is not None:
                context = authority.context(each.certificate, each.names[0])
                port = await open_port(_asked(by_host, size), context)
            else:
                port = plain
            if each.addresses:
                urls[each.name] = [f"http://{name}:{port}{each.path}" for name in each.names]
                continue
            overrides |= dict.fromkeys(each.names, f"127.0.0.1:{port}")
            urls[each.name] = [f"{each.scheme}://{name}{each.path}" for name in each.names]
        answers = {each.names[0]: each.addresses for each in wanted if each.addresses}
        dns = await stack.enter_async_context(DnsServer(answers))
        yield Served(overrides, f"127.0.0.1:{dns.port}", str(authority.file), urls)


class _Ports:
    """Opens ports; the connections of all of them end with the stack."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._tasks: set[asyncio.Task[None]] = set()
        stack.push_async_callback(self._end)

    async def __call__(self, handle: _Handle, tls: ssl.SSLContext | None = None) -> int:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await handle(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                # Most clients leave.
                writer.transport.abort()
            finally:
                self._tasks.discard(task)

        server = await asyncio.start_server(
            connected, "127.0.0.1", 0, ssl=tls, limit=_HEAD_BYTES, backlog=1024
        )
        self._stack.callback(server.close)
        return int(server.sockets[0].getsockname()[1])

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _asked(by_host: Mapping[str, tuple[Behaviour, int]], size: int) -> _Handle:
    """Answer requests by the host that they name."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            target, host = _parsed(request)
            known = by_host.get(host)
            if known is None:
                await Talk(reader, writer, size=size).send(_NOT_FOUND)
                continue
            behaviour, number = known
            talk = Talk(reader, writer, size=size, host=host, target=target, number=number)
            if not target.startswith("/robots.txt"):
                await behaviour.answer(talk)
            elif behaviour.robots is not None:
                await behaviour.robots(talk)
            else:
                await talk.send(_NOT_FOUND)

    return handle


def _parsed(request: str) -> tuple[str, str]:
    """Return the target and the host of a request."""
    line, *fields = request.split("\r\n")
    words = line.split(" ")
    hosts = [field[5:].strip() for field in fields if field.lower().startswith("host:")]
    host = hosts[0].partition(":")[0] if len(hosts) == 1 else ""
    return (words[1] if len(words) == 3 else ""), host


def _raw(behaviour: Behaviour, size: int) -> _Handle:
    """Answer connections before any request."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(reader, writer, size=size, host=behaviour.names[0])
        with suppress(asyncio.IncompleteReadError):
            await behaviour.answer(talk)

    return handle
