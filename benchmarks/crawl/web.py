"""Serve the pages from memory, and keep account of what was fetched. Run as a process of its own.

The answers are ready when it starts, so that this is never what a crawler waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import sys
from time import monotonic
from typing import cast

from benchmarks.crawl.pages import ROBOTS, Size, host_of_page, number_of, page
from demo import event_loop

ACCOUNT_HOST = b"account"
_HEAD = (
    "HTTP/1.1 {status}\r\nServer: demo\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
)


def _answer(status: str, kind: str, body: bytes) -> bytes:
    fields = f"Server: demo\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + body


class Account:
    """What was fetched since the last look."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self.begin()

    def begin(self) -> None:
        """Forget all of it."""
        self._fetched: dict[int, int] = {}
        self._first = self._last = 0.0

    def page(self, number: int) -> None:
        """A page was fetched."""
        self._last = monotonic()
        self._first = self._first or self._last
        self._fetched[number] = self._fetched.get(number, 0) + 1

    def take(self) -> bytes:
        """It as JSON; the next account begins."""
        said = {
            "seeds": sum(number < self._seeds for number in self._fetched),
            "pages": len(self._fetched),
            "repeated": sum(self._fetched.values()) - len(self._fetched),
            "took_s": self._last - self._first,
        }
        self.begin()
        return json.dumps(said).encode()


class Answers:
    """Pages as they go over the wire. Seeds are made before they are asked for."""

    def __init__(self, size: Size, port: int) -> None:
        self._size = size
        self._port = port
        self._made = {number: self._make(number) for number in range(size.seeds)}

    def find(self, host: bytes, path: bytes) -> tuple[int, bytes] | None:
        """The number and the answer of a page, or None."""
        number = number_of(path.decode("latin-1"))
        if number is None or host_of_page(number, self._size).encode() != host:
            return None
        return number, self._made.get(number) or self._make(number)

    def _make(self, number: int) -> bytes:
        html = page(number, self._size, self._port)
        return _answer("200 OK", "text/html; charset=utf-8", html)


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive and pipelining, for requests without bodies."""

    def __init__(self, answers: Answers, account: Account) -> None:
        self._answers = answers
        self._account = account
        self._input = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._input += data
        while (end := self._input.find(b"\r\n\r\n")) >= 0:
            head, self._input = self._input[:end], self._input[end + 4 :]
            self._transport.write(self._answer(head))

    def _answer(self, head: bytes) -> bytes:
        line, *fields = head.split(b"\r\n")
        path = line.split(b" ", 2)[1]
        hosts = (field[5:] for field in fields if field[:5].lower() == b"host:")
        host = next(hosts, b"").strip().partition(b":")[0]
        found = self._answers.find(host, path)
        if found is not None:
            self._account.page(found[0])
            return found[1]
        if host == ACCOUNT_HOST:
            return _answer("200 OK", "application/json", self._account.take())
        if path == b"/robots.txt":
            return _answer("200 OK", "text/plain", ROBOTS)
        return _answer("404 Not Found", "text/plain", b"There is no such page.\n")


async def serve(size: Size) -> int:
    """Serve until SIGTERM; prints the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    port = listener.getsockname()[1]
    answers, account = Answers(size, port), Account(size.seeds)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await loop.create_server(lambda: Connection(answers, account), sock=listener, backlog=4096)
    print(port, flush=True)
    await stopped.wait()
    return 0


def main() -> int:
    """Serve a web of the size that the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, required=True)
    parser.add_argument("--hosts", type=int, required=True)
    arguments = parser.parse_args()
    return event_loop.run(serve(Size(arguments.seeds, arguments.hosts)))


if __name__ == "__main__":
    sys.exit(main())
