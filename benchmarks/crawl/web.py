"""Serve the pages of a ground from memory, and keep account of what was fetched. Its own process.

The answers to seeds are ready when it starts, compressed, so that this is never what a crawler
waits for. Two ports: the web's, and a plain one that tells the account.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import signal
import socket
import ssl
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import NamedTuple, cast
from zlib import crc32

import brotli

from benchmarks.crawl.certificate import server_context
from benchmarks.crawl.grounds import GROUNDS, Ground, of_real_pages
from benchmarks.crawl.pages import (
    ROBOTS,
    Size,
    address_of,
    host_of_page,
    number_of,
    number_of_host,
)
from benchmarks.machine import raise_file_limit
from demo import event_loop

_BACKLOG = 4096
_ADDRESSES_MAX = 5000
# Beside those for hosts.
_OTHER_FILES = 500
_ROBOTS_PATH = b"/robots.txt"
_FAR = 2**20
_CHUNK_BYTES = 16 * 1024
# As servers compress ahead, and as they do it for one request.
_LEVELS = {True: {"gzip": 6, "br": 5}, False: {"gzip": 1, "br": 1}}


class Answer(NamedTuple):
    """Response as it goes over the wire, and the bytes of the page in it."""

    wire: bytes
    page_bytes: int


def share(name: str, what: str) -> float:
    """Return where a name stands between 0 and 1 in this respect."""
    return crc32(f"{what}:{name}".encode()) / 2**32


@dataclass(frozen=True, slots=True)
class Host:
    """How a host answers."""

    latency_s: float
    closes: bool
    chunked: bool

    @classmethod
    def of(cls, ground: Ground, name: str) -> Host:
        """Return the host of this name."""
        low, high = ground.slow_ms
        late_ms = low + (high - low) * share(name, "latency")
        is_slow = share(name, "slow") < ground.slow_share
        return cls(
            latency_s=late_ms / 1000 if is_slow else 0.0,
            closes=share(name, "closes") < ground.closing_share,
            chunked=share(name, "chunked") < ground.chunked_share,
        )


@dataclass(frozen=True, slots=True)
class Web:
    """Maker of answers."""

    ground: Ground
    size: Size
    port: int

    def make(self, number: int, *, ahead: bool) -> Answer:
        """Make the answer of a page."""
        html = self.ground.page(number, self.size, self.port, self.ground.scheme)
        name = host_of_page(number, self.size)
        encoding = self._encoding(number)
        level = _LEVELS[ahead].get(encoding, 0)
        body = html
        if encoding == "gzip":
            body = gzip.compress(html, level, mtime=0)
        elif encoding == "br":
            body = brotli.compress(html, quality=level)
        fields = [*self.ground.fields, f"Content-Type: {self.ground.content_type}"]
        if encoding:
            fields.append(f"Content-Encoding: {encoding}")
        host = Host.of(self.ground, name)
        if host.closes:
            fields.append("Connection: close")
        return Answer(_response("200 OK", fields, body, chunked=host.chunked), len(html))

    def _encoding(self, number: int) -> str:
        at = share(str(number), "encoding")
        for encoding, part in self.ground.encodings:
            at -= part
            if at < 0:
                return encoding
        return ""

    def make_seeds(self) -> dict[int, Answer]:
        """Make all answers that are asked for first, on every core there is."""
        numbers = range(self.size.seeds)
        if not self.ground.encodings:
            return {number: self.make(number, ahead=True) for number in numbers}
        with ProcessPoolExecutor(initializer=_work_for, initargs=(self,)) as pool:
            return dict(zip(numbers, pool.map(_make_seed, numbers, chunksize=32), strict=True))


# The web that a worker process makes seeds of.
_working_for: Web


def _work_for(web: Web) -> None:
    global _working_for  # noqa: PLW0603 - given once, instead of with each number
    _working_for = web


def _make_seed(number: int) -> Answer:
    return _working_for.make(number, ahead=True)


def _response(status: str, fields: list[str], body: bytes, *, chunked: bool = False) -> bytes:
    if chunked:
        fields = [*fields, "Transfer-Encoding: chunked"]
        begins = range(0, len(body), _CHUNK_BYTES)
        chunks = [body[begin : begin + _CHUNK_BYTES] for begin in begins]
        body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in [*chunks, b""])
    else:
        fields = [*fields, f"Content-Length: {len(body)}"]
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode() + body


class Account:
    """What was fetched since the last look."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self.begin()

    def begin(self) -> None:
        """Forget all of it."""
        self._fetched: dict[int, int] = {}
        self._first = self._last = 0.0
        self._page_bytes = 0
        self._cpu_s = process_time()
        self.connections = self.resumed = 0

    def page(self, number: int, page_bytes: int) -> None:
        """Count a page that was fetched."""
        self._last = monotonic()
        self._first = self._first or self._last
        self._fetched[number] = self._fetched.get(number, 0) + 1
        self._page_bytes += page_bytes

    def take(self) -> bytes:
        """Return it as JSON; the next account begins."""
        said = {
            "seeds": sum(number < self._seeds for number in self._fetched),
            "pages": len(self._fetched),
            "repeated": sum(self._fetched.values()) - len(self._fetched),
            "took_s": self._last - self._first,
            "page_bytes": self._page_bytes,
            "cpu_s": process_time() - self._cpu_s,
            "connections": self.connections,
            "resumed": self.resumed,
        }
        self.begin()
        return json.dumps(said).encode()


class Site:
    """All hosts of the web: finds the answer to a request."""

    def __init__(self, web: Web, account: Account) -> None:
        self.web = web
        self._account = account
        self._seeds = web.make_seeds()
        self._hosts = {
            (name := host_of_page(number, web.size)).encode(): Host.of(web.ground, name)
            for number in range(web.size.hosts)
        }

    def answer(self, host: bytes, path: bytes) -> tuple[bytes, Host | None]:
        """Return a response, and the host if it is one of this web."""
        known = self._hosts.get(host)
        number = self._number(host, path) if known is not None else None
        if number is not None:
            found = self._seeds.get(number) or self.web.make(number, ahead=False)
            self._account.page(number, found.page_bytes)
            return found.wire, known
        fields = ["Server: demo", "Content-Type: text/plain"]
        if known is not None and known.closes:
            fields.append("Connection: close")
        if path == _ROBOTS_PATH:
            return _response("200 OK", fields, ROBOTS), known
        return _response("404 Not Found", fields, b"There is no such page.\n"), known

    def _number(self, host: bytes, path: bytes) -> int | None:
        """Return the page that is at a path of a host."""
        size = self.web.size
        number = number_of(path.decode("latin-1"))
        if number is not None and host == host_of_page(number, size).encode():
            return number
        if not self.web.ground.any_path or path == _ROBOTS_PATH:
            return None
        # Far behind all others, and on this host.
        return (_FAR + crc32(path)) * size.hosts + number_of_host(host.decode())


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive and pipelining, for requests without bodies."""

    def __init__(self, site: Site, account: Account) -> None:
        self._site = site
        self._account = account
        self._input = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._account.connections += 1
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._account.resumed += bool(tls.session_reused)

    def data_received(self, data: bytes) -> None:
        self._input += data
        while (end := self._input.find(b"\r\n\r\n")) >= 0:
            head, self._input = self._input[:end], self._input[end + 4 :]
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        line, *fields = head.split(b"\r\n")
        path = line.split(b" ", 2)[1]
        hosts = (field[5:] for field in fields if field[:5].lower() == b"host:")
        name = next(hosts, b"").strip().partition(b":")[0]
        wire, host = self._site.answer(name, path)
        closes = host is not None and host.closes
        if host is not None and host.latency_s:
            # All answers of a host are equally late, so they keep their order.
            loop = asyncio.get_running_loop()
            loop.call_later(host.latency_s, self._send, wire, closes)
        else:
            self._send(wire, closes)

    def _send(self, wire: bytes, closes: bool) -> None:
        if not self._transport.is_closing():
            self._transport.write(wire)
            if closes:
                self._transport.close()


class AccountConnection(asyncio.Protocol):
    """Tells the account to whoever connects."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        answer = cast(asyncio.Transport, transport)
        answer.write(self._account.take())
        answer.close()


def _listeners(size: Size) -> list[socket.socket]:
    """Listen at the usual loopback address, and on Linux at one for each host, with one port.

    For more hosts than that it would take too many files.
    """
    first = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    port = first.getsockname()[1]
    names = [host_of_page(number, size) for number in range(size.hosts)]
    is_addressed = sys.platform == "linux" and size.hosts <= _ADDRESSES_MAX
    addresses = map(address_of, names) if is_addressed else ()
    return [first, *(socket.create_server((found, port), backlog=64) for found in addresses)]


async def serve(site: Site, account: Account, listeners: list[socket.socket]) -> int:
    """Serve until SIGTERM; prints the ports of the web and of the account."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    context = None
    if site.web.ground.scheme == "https":
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            context = server_context(Path(folder), "*.test")
    for listener in listeners:
        await loop.create_server(
            lambda: Connection(site, account), sock=listener, backlog=_BACKLOG, ssl=context
        )
    telling = await loop.create_server(lambda: AccountConnection(account), "127.0.0.1", 0)
    print(site.web.port, telling.sockets[0].getsockname()[1], flush=True)
    await stopped.wait()
    return 0


def main() -> int:
    """Serve a ground."""
    parser = argparse.ArgumentParser(description=__doc__)
    pages = parser.add_mutually_exclusive_group(required=True)
    pages.add_argument("--ground", choices=GROUNDS)
    pages.add_argument("--pages", type=Path, help="serve the real pages of this folder")
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    arguments = parser.parse_args()
    size = Size(arguments.seeds, arguments.hosts)
    ground = of_real_pages(arguments.pages) if arguments.pages else GROUNDS[arguments.ground]
    raise_file_limit(2 * size.hosts + _OTHER_FILES)
    listeners = _listeners(size)
    account = Account(size.seeds)
    site = Site(Web(ground, size, listeners[0].getsockname()[1]), account)
    return event_loop.run(serve(site, account, listeners))


if __name__ == "__main__":
    sys.exit(main())
