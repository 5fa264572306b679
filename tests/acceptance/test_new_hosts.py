"""The robots.txt files of many new hosts are fetched at once, and each host is left in peace."""

import asyncio
from collections import Counter
from itertools import pairwise
from pathlib import Path
from time import monotonic

from tests.acceptance.crawls import Crawls
from tests.acceptance.fleets import Process
from tests.support.dns_server import DnsServer

HOSTS = 50
DELAY_S = 0.3
_RULES = b"User-agent: *\nDisallow: /private\n"


class Web:
    """Hosts whose robots.txt files are answered when all of them have been asked for.

    A crawl that fetches them one after the other, or a few at a time, gets none of them.
    """

    def __init__(self) -> None:
        self.port = 0
        # Host → start and end of each request.
        self.contacts: dict[str, list[tuple[float, float]]] = {}
        self.paths: Counter[str] = Counter()
        self.met_at_once = 0
        self._open: Counter[str] = Counter()
        self._all_asked = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                (host,) = (line[6:] for line in lines if line.lower().startswith("host: "))
                await self._answer(host, lines[0].split()[1], writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    async def _answer(self, host: str, path: str, writer: asyncio.StreamWriter) -> None:
        started = monotonic()
        self.paths[path] += 1
        self._open[host] += 1
        self.met_at_once += self._open[host] > 1
        if path == "/robots.txt":
            if self.paths[path] == HOSTS:
                self._all_asked.set()
            await self._all_asked.wait()
        body = _RULES if path == "/robots.txt" else b"<title>page</title>"
        self._open[host] -= 1
        self.contacts.setdefault(host, []).append((started, monotonic()))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)


async def test_the_rules_of_fifty_new_hosts_are_fetched_at_once_and_politely(
    tmp_path: Path, redis_url: str
) -> None:
    web = Web()
    server = await asyncio.start_server(web.handle, "127.0.0.1", 0)
    web.port = server.sockets[0].getsockname()[1]
    seeds = tmp_path / "seeds.txt"
    urls = [f"http://h{n}.test:{web.port}/{page}" for n in range(HOSTS) for page in range(2)]
    seeds.write_text("\n".join(urls), encoding="utf-8")
    async with DnsServer() as dns:
        dns.set("*", "127.0.0.1")
        settings = {"DNS_SERVERS": dns.address, "DELAY_MIN": DELAY_S + 0.01}
        process = Process(
            Crawls(tmp_path, redis_url).command(str(seeds), settings=settings),
            tmp_path / "crawl.log",
        )
        try:
            assert await asyncio.to_thread(process.wait) == 0, process.log
        finally:
            process.kill()
            server.close()
    assert web.paths == {"/robots.txt": HOSTS, "/0": HOSTS, "/1": HOSTS}
    assert web.met_at_once == 0
    for contacts in web.contacts.values():
        gaps = [start - end for (_, end), (start, _) in pairwise(contacts)]
        assert min(gaps) >= DELAY_S, gaps
