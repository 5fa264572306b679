"""Measure what a fetch costs: our download handler and Scrapy's Twisted one, side by side.

Both run in one process, in turns, in the event loop that crawls have, against the demo's web in
another process; what counts is this process's CPU time, which other load on the machine disturbs
least. The best round of each counts, since load can only make one slower.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from scrapy import Request
from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.reactor import install_reactor
from scrapy.utils.test import get_crawler

from benchmarks import command
from benchmarks.figures import Figure, Skipped, at_most
from crawler import settings as ours
from demo.process import DemoServer
from demo.web import Web, WebOptions

_REACTOR = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
_OURS = "crawler.download.DownloadHandler"
_TWISTED = "scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler"
_AT_ONCE = 16
_TARGET = 0.75
# Headers of a request as the middlewares leave it.
_HEADERS = {
    "User-Agent": ours.USER_AGENT,
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "Accept-Language": "en",
    "Accept-Encoding": "gzip, deflate, br, zstd",
}


@dataclass(frozen=True, slots=True)
class _Cost:
    """CPU time of a fetch by each handler, in µs."""

    ours_us: float
    twisted_us: float

    @property
    def ratio(self) -> float:
        return self.ours_us / self.twisted_us


def measure(quick: bool) -> Iterator[Figure | Skipped]:
    """The CPU time of a fetch on a kept connection and on a new one."""
    fetches, rounds = (200, 4) if quick else (600, 8)
    options = WebOptions(hosts=1, pages=200, zoo="none")
    with DemoServer(options) as server:
        kept, fresh = _in_reactor(lambda: _measure(server, options, fetches, rounds))
    for name, cost in (("keepalive", kept), ("fresh", fresh)):
        yield Figure(f"fetch.{name}_cpu", cost.ours_us, "µs", "Twisted", cost.ratio)
    yield Figure(
        "fetch.cpu_ratio_to_twisted",
        max(kept.ratio, fresh.ratio),
        "the worse",
        target=at_most(_TARGET),
    )


async def _measure(
    server: DemoServer, options: WebOptions, fetches: int, rounds: int
) -> tuple[_Cost, _Cost]:
    web = Web(options)
    paths = [web.page(0, index).path for index in range(web.profile(0).size)]

    def requests() -> list[Request]:
        urls = (f"http://{server.address}{paths[n % len(paths)]}" for n in range(fetches))
        return [Request(url, headers={**_HEADERS, "Host": "s0.test"}) for url in urls]

    found = []
    for keeps in (True, False):
        handlers = _handlers(keeps=keeps)
        best = [float("inf")] * len(handlers)
        # The first round is for the server, which renders its pages once.
        for turn in range(rounds + 1):
            for index, handler in enumerate(handlers):
                took_us = await _cpu_us(handler, requests())
                if turn:
                    best[index] = min(best[index], took_us)
        found.append(_Cost(*best))
        for handler in handlers:
            await handler.close()
    return found[0], found[1]


async def _cpu_us(handler: BaseDownloadHandler, requests: list[Request]) -> float:
    """CPU time of this process for one of these fetches."""
    waiting = iter(requests)

    async def fetch_all() -> None:
        for request in waiting:
            response = await handler.download_request(request)
            assert response.status == 200
            assert response.body

    gc.collect()
    started = time.process_time()
    await asyncio.gather(*(fetch_all() for _ in range(_AT_ONCE)))
    return (time.process_time() - started) / len(requests) * 1e6


def _handlers(*, keeps: bool) -> list[Any]:
    """Ours and the peer, with kept connections or with a new one for each fetch."""
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {"EXTENSIONS": {}, "ALLOW_NETWORKS": ["127.0.0.0/8"]}
    if not keeps:
        values["DOWNLOAD_KEEPALIVE_HOSTS"] = 0
    crawler = get_crawler(settings_dict=values)
    peer: Any = build_from_crawler(load_object(_TWISTED), crawler)
    peer._pool.persistent = keeps  # noqa: SLF001 - there is no setting
    return [build_from_crawler(load_object(_OURS), crawler), peer]


def _in_reactor(main: Callable[[], Any]) -> Any:
    """The result of a coroutine function that runs in the reactor both handlers need."""
    install_reactor(_REACTOR, getattr(ours, "ASYNCIO_EVENT_LOOP", None))
    from twisted.internet import reactor  # noqa: PLC0415 - it must be installed first

    outcome: list[asyncio.Task[Any]] = []

    def start() -> None:
        outcome.append(asyncio.get_event_loop().create_task(main()))
        outcome[0].add_done_callback(lambda _: reactor.stop())

    reactor.callWhenRunning(start)
    reactor.run()
    return outcome[0].result()


if __name__ == "__main__":
    sys.exit(command.run("benchmarks.fetch", __doc__, {"fetch": measure}))
