"""The least that a page costs in Python: aiohttp, lexbor, the text and its SimHash, and a set.

No robots.txt, no Redis, no Scrapy, no limits, nothing that survives an error. Run as
`python -m benchmarks.crawl.bare_client SEEDS PAGES`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from pathlib import Path
from urllib.parse import urljoin

import aiohttp
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from selectolax.lexbor import LexborHTMLParser

from benchmarks.crawl.meter import Stopwatch
from crawler.dedup.content import SHINGLE, simhashes
from crawler.urls import canonical
from crawler.util.decompress import inflate

_AT_ONCE = 100
# Pages that are hashed together, about as many as ours hashes at a time.
_TOGETHER = 8
_UNREAD = ["script", "style", "noscript", "template", "iframe"]


class _Loopback(AbstractResolver):
    """Every name is this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0
            )
        ]

    async def close(self) -> None:
        pass


class _Crawl:
    """All of it in memory."""

    def __init__(self, session: aiohttp.ClientSession, seeds: list[str], pages: int) -> None:
        self._session = session
        self._pages = pages
        self._seen = set(seeds)
        self._queue = deque(seeds)
        self._fetched = 0
        # Those that wait to be hashed.
        self._texts: dict[str, str] = {}
        self.hashes: dict[str, int | None] = {}

    async def run(self) -> None:
        await asyncio.gather(*(self._work() for _ in range(_AT_ONCE)))
        self._hash()

    async def _work(self) -> None:
        while self._queue and self._fetched < self._pages:
            url = self._queue.popleft()
            async with self._session.get(url) as response:
                self._read(url, await response.read())

    def _read(self, url: str, html: bytes) -> None:
        self._fetched += 1
        tree = LexborHTMLParser(html)
        for node in tree.tags("a"):
            href = node.attributes.get("href") or ""
            link = canonical(href if href.startswith("http") else urljoin(url, href))
            if isinstance(link, str) and link not in self._seen:
                self._seen.add(link)
                self._queue.append(link)
        tree.strip_tags(_UNREAD)
        assert tree.body is not None
        self._texts[url] = tree.body.text(separator=" ", strip=True)
        if len(self._texts) == _TOGETHER:
            self._hash()

    def _hash(self) -> None:
        hashes = simhashes(list(self._texts.values()), SHINGLE)
        self.hashes.update(zip(self._texts, hashes, strict=True))
        self._texts.clear()


async def crawl(seeds: list[str], pages: int) -> None:
    """Fetch so many pages; certificates are not checked, as by the others."""
    watch = Stopwatch()
    aiohttp.set_zlib_backend(inflate)
    connector = aiohttp.TCPConnector(limit=_AT_ONCE, resolver=_Loopback(), ssl=False)
    async with aiohttp.ClientSession(connector=connector) as session:
        await _Crawl(session, seeds, pages).run()
    watch.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        start = Path(sys.argv[1]).read_text(encoding="utf-8").split()
        runner.run(crawl(start, int(sys.argv[2])))
