"""A web that answers late and without effort, and keeps account. Run as a process of its own.

It has hosts `h<number>.test` with pages `/<number>`. An answer takes its time and hardly any CPU
time, so that crawlers wait for the web and not for the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self, cast

from benchmarks.machine import raise_file_limit
from crawler.errors import CrawlerError
from demo import event_loop

ACCOUNT_HOST = "account.invalid"
_ROOT = Path(__file__).parent.parent.parent
# A connection of each host that each of many crawl processes keeps.
_FILES = 100_000
_ROBOTS = b"User-agent: *\nDisallow: /private/\n"


@dataclass(frozen=True, slots=True)
class WebSize:
    """Hosts, pages of a host, and how late answers come."""

    hosts: int
    pages: int = 1
    # On average, see `latency_of`.
    latency_s: float = 0.0
    # Other pages that a page links to: half of them on its own host.
    links: int = 0


def url_of(host: int, page: int) -> str:
    """Return the URL of a page."""
    return f"http://h{host}.test/{page}"


def links_of(host: int, page: int, size: WebSize) -> Iterator[str]:
    """Yield the URLs that a page links to. The pages of all hosts are found from their first."""
    inside = min(size.links // 2, size.pages - 1)
    for step in range(1, inside + 1):
        yield url_of(host, (page + step) % size.pages)
    outside = size.links - inside
    for step in range(1, outside + 1):
        # Spread over all hosts, and other ones for each page.
        other = (host + (page * outside + step) * 7919) % size.hosts
        yield url_of(other, page)


def latency_of(url: str, size: WebSize) -> float:
    """Return how long an answer takes: half to one and a half times the average.

    With the same time for all, the fetches of a crawler would begin and end together.
    """
    return size.latency_s * (0.5 + zlib.crc32(url.encode()) / 2**32)


def page_of(host: int, page: int, size: WebSize) -> bytes:
    """Return the HTML of a page."""
    links = "\n".join(f'<p><a href="{url}">{url}</a></p>' for url in links_of(host, page, size))
    title = f"Page {page} of host {host}"
    return f"<html><head><title>{title}</title></head><body>{title}\n{links}</body></html>".encode()


class Account:
    """What was fetched, and whether hosts were left alone between two pages. Pure."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._fetched: dict[tuple[int, int], int] = {}
        # By host: when the next page may be asked for; None while one is on its way.
        self._due: dict[int, float | None] = {}
        self._first_s: float | None = None
        self._answered = self._early = self._waiting = self._most = 0

    def waits(self, change: int) -> None:
        """Note that a request of any kind begins to wait for its answer (1), or has it (-1)."""
        self._waiting += change
        self._most = max(self._most, self._waiting)

    def asked(self, host: int, page: int, now_s: float) -> None:
        """Note a request for a page."""
        if self._first_s is None:
            self._first_s = now_s
        due_s = self._due.get(host, 0.0)
        if due_s is None or now_s < due_s:
            self._early += 1
        self._due[host] = None
        self._fetched[host, page] = self._fetched.get((host, page), 0) + 1

    def answered(self, host: int, now_s: float) -> None:
        """Note the end of an answer, or of its connection."""
        self._due[host] = now_s + self._delay_s
        self._answered += 1

    def totals(self, now_s: float) -> Totals:
        """Return the account up to this moment."""
        repeated = sum(self._fetched.values()) - len(self._fetched)
        first_s = self._first_s
        return Totals(
            now_s,
            first_s,
            self._answered,
            len(self._due),
            len(self._fetched),
            repeated,
            self._early,
            self._waiting,
            self._most,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """The account of a web up to a moment, by the clock that all processes of a machine share."""

    at_s: float
    first_s: float | None
    # Answers, hosts and pages that were asked for, and requests for a page that was asked before.
    answered: int
    hosts: int
    pages: int
    repeated: int
    # Pages that were asked for too early: beside another page of their host, or within its delay.
    early: int
    # Requests, also for robots.txt, that wait for their answer, and the most that did at once.
    waiting: int
    waiting_most: int

    def to_json(self) -> bytes:
        """Return it as the web sends it."""
        return json.dumps([getattr(self, name) for name in self.__slots__]).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        return cls(*json.loads(data))


class Connection(asyncio.Protocol):
    """HTTP/1.1 with keep-alive, for requests without bodies."""

    def __init__(self, size: WebSize, account: Account) -> None:
        self._size = size
        self._account = account
        self._input = b""
        # Whether an answer is on its way, and if it is a page, the host.
        self._is_late = False
        self._host: int | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended()

    def data_received(self, data: bytes) -> None:
        self._input += data
        while (end := self._input.find(b"\r\n\r\n")) >= 0:
            head, self._input = self._input[:end].decode("latin-1"), self._input[end + 4 :]
            self._respond(head)

    def _respond(self, head: str) -> None:
        line, *fields = head.split("\r\n")
        path = line.split(" ", 2)[1]
        hosts = (field[5:].strip() for field in fields if field[:5].lower() == "host:")
        host = next(hosts, "").partition(":")[0]
        if host == ACCOUNT_HOST:
            self._send("application/json", self._account.totals(monotonic()).to_json())
            return
        number, page = host.removeprefix("h").removesuffix(".test"), path.removeprefix("/")
        if number.isdigit() and page.isdigit() and int(page) < self._size.pages:
            self._host = int(number)
            self._account.asked(self._host, int(page), monotonic())
            body = page_of(self._host, int(page), self._size)
        else:
            body = _ROBOTS
        self._is_late = True
        self._account.waits(1)
        kind = "text/plain" if body is _ROBOTS else "text/html; charset=utf-8"
        latency_s = latency_of(f"{host}{path}", self._size)
        asyncio.get_running_loop().call_later(latency_s, self._send, kind, body)

    def _send(self, kind: str, body: bytes) -> None:
        self._ended()
        if not self._transport.is_closing():
            fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            self._transport.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n".encode() + body)

    def _ended(self) -> None:
        if self._is_late:
            self._is_late = False
            self._account.waits(-1)
        if self._host is not None:
            self._account.answered(self._host, monotonic())
            self._host = None


async def serve(size: WebSize, delay_s: float) -> int:
    """Serve until SIGTERM; prints the port."""
    raise_file_limit(_FILES)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    account = Account(delay_s)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await loop.create_server(lambda: Connection(size, account), sock=listener, backlog=4096)
    print(listener.getsockname()[1], flush=True)
    await stopped.wait()
    return 0


class Web:
    """The web of a running process, as its crawlers and its judge see it."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def settings(self) -> dict[str, str]:
        """The settings that lead a crawler here."""
        overrides = {".test": f"127.0.0.1:{self._port}"}
        return {"DNS_OVERRIDES": json.dumps(overrides), "ALLOW_NETWORKS": "127.0.0.0/8"}

    def totals(self) -> Totals:
        """Return the account up to now."""
        url, headers = f"http://127.0.0.1:{self._port}/", {"Host": ACCOUNT_HOST}
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            return Totals.from_json(answer.read())


@contextmanager
def late_web(size: WebSize, *, delay_s: float = 0.0) -> Iterator[Web]:
    """Serve inside the block. Hosts want to be left alone for the delay after each page."""
    options: dict[str, Any] = {"hosts": size.hosts, "pages": size.pages, "links": size.links}
    options |= {"latency": size.latency_s, "delay": delay_s}
    command = [sys.executable, "-m", "benchmarks.scaling.web"]
    command += [f"--{name}={value}" for name, value in options.items()]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        try:
            if not said:
                raise CrawlerError("The late web does not start; its own message says why.")
            yield Web(int(said))
        finally:
            process.terminate()


def main() -> int:
    """Serve a web of the size that the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("hosts", "pages", "links"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("latency", "delay"):
        parser.add_argument(f"--{name}", type=float, required=True, metavar="SECONDS")
    given = parser.parse_args()
    size = WebSize(given.hosts, given.pages, given.latency, given.links)
    return event_loop.run(serve(size, given.delay))


if __name__ == "__main__":
    sys.exit(main())
