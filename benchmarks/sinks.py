"""How fast do pages get into each sink, and how much CPU time does a page cost?

The same pages, of 26 KB with 60 links, go through the storage of a crawl (batches, one write at a
time) into one sink after the other, in rounds. As many pages are in flight as in a fast crawl. CPU
time is that of the client, all threads; servers are processes of their own, on other cores if there
are any. A figure is the median of all rounds, a spread the largest value less the smallest.

MongoDB and PostgreSQL sync to disk before they acknowledge, and so do WARC files. PostgreSQL keeps
records without bodies. The Kafka broker is librdkafka's mock cluster, in memory. The server for
Elasticsearch is that of the tests, so only the CPU time of the client is a figure.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from benchmarks import store
from benchmarks.command import run
from benchmarks.cores import Cores, running_on
from benchmarks.figures import Figure, at_least
from benchmarks.servers import private_mongo
from crawler import settings as ours
from crawler.errors import CrawlerError
from crawler.items import Exchange, Page
from crawler.servers.connections import Servers
from crawler.storage.sinks import named_sinks
from crawler.storage.storage import BatchLimits, Storage
from tests.support.elastic_server import serving
from tests.support.kafka_broker import KafkaBroker
from tests.support.postgres_server import PrivatePostgres

_PAGES, _ROUNDS = 5_000, 5
_QUICK_PAGES, _QUICK_ROUNDS = 500, 2
_IN_FLIGHT = 512
_START_S = 60
_TARGET_RECORDS_S = 5_000
_REQUEST = (
    b"GET /library/page HTTP/1.1\r\nHost: www.words.example\r\nUser-Agent: crawler/0.1\r\n"
    b"Accept: text/html\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
)
_HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: demo\r\nContent-Type: text/html; charset=utf-8\r\n"
    b'ETag: "1"\r\nContent-Length: %d\r\n\r\n'
)

# Settings of a crawl into a sink whose server runs inside the block.
Serve = Callable[[], AbstractContextManager[Mapping[str, Any]]]


class Run(NamedTuple):
    """One round of a sink."""

    pages_per_s: float
    cpu_ms: float


# --- servers --------------------------------------------------------------------------------------


@contextmanager
def _mongo() -> Iterator[Mapping[str, Any]]:
    with private_mongo() as mongo:
        yield {"SINKS": "mongo", "MONGO_URI": mongo.url}


@contextmanager
def _postgresql() -> Iterator[Mapping[str, Any]]:
    with PrivatePostgres(fsync="on", full_page_writes="on", shared_buffers="256MB") as server:
        yield {"SINKS": server.url()}


@contextmanager
def _kafka() -> Iterator[Mapping[str, Any]]:
    with KafkaBroker() as broker:
        yield {"SINKS": broker.url}


@contextmanager
def _warc() -> Iterator[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield {"SINKS": f"warc:{folder}"}


@contextmanager
def _elasticsearch() -> Iterator[Mapping[str, Any]]:
    # Started anew: a fork would have the threads' locks of this process.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_elasticsearch, args=(theirs,), daemon=True)
    process.start()
    try:
        if not ours.poll(_START_S):
            raise CrawlerError(f"The server for Elasticsearch did not start in {_START_S} s.")
        yield {"SINKS": ours.recv()}
    finally:
        process.kill()
        process.join()


def _serve_elasticsearch(pipe: Connection) -> None:
    with serving() as server:
        pipe.send(server.url())
        pipe.recv()


SERVERS: dict[str, Serve] = {
    "mongo": _mongo,
    "postgresql": _postgresql,
    "kafka": _kafka,
    "warc": _warc,
    "elasticsearch": _elasticsearch,
}


# --- rounds ---------------------------------------------------------------------------------------


def pages(count: int, number: int) -> list[Page]:
    """Return the pages of a round: new URLs, as most are in a crawl."""
    found = list(store.pages(count, f"round{number}"))
    for page in found:
        page.crawl = "web"
        page.language = "en"
        page.description = "What this page is about, in a sentence that search engines show."
        head = _HEAD % len(page.body)
        page.exchange = Exchange(
            *(_REQUEST, head, page.body, page.crawled_at.timestamp()),
            address="127.0.0.1",
            protocols=("http/1.1",),
            truncated="",
        )
    return found


@asynccontextmanager
async def _storage(given: Mapping[str, Any]) -> AsyncIterator[Storage]:
    values = {name: getattr(ours, name) for name in dir(ours) if name.isupper()}
    values |= {
        "EXTENSIONS": {"crawler.servers.connections.Servers": 0},
        "TWISTED_REACTOR_ENABLED": False,
        **given,
    }
    crawler = get_crawler(settings_dict=Settings(values))
    servers = Servers.of(crawler)
    sinks = {
        sink.name: sink.make("web", crawler.settings, servers)
        for sink in named_sinks(crawler.settings)
    }
    stats = MemoryStatsCollector(crawler)
    storage = Storage(sinks, stats, BatchLimits(), is_closing=lambda: False)
    await storage.open()
    try:
        yield storage
    finally:
        await storage.close()
        await servers.close()


async def _round(given: Mapping[str, Any], work: Sequence[Page]) -> Run:
    free = asyncio.Semaphore(_IN_FLIGHT)

    async def put(page: Page) -> None:
        await storage.put(page)
        free.release()

    async with _storage(given) as storage:
        started_s, cpu_s = perf_counter(), process_time()
        async with asyncio.TaskGroup() as writes:
            for page in work:
                await free.acquire()
                writes.create_task(put(page))
                # Pages come one after the other, as responses do. Between two, writes go on.
                await asyncio.sleep(0)
        spent_s, cpu_s = perf_counter() - started_s, process_time() - cpu_s
    return Run(len(work) / spent_s, cpu_s / len(work) * 1000)


def measure(quick: bool, names: Sequence[str] = tuple(SERVERS)) -> Iterator[Figure]:
    """Write to the sinks in turns."""
    count, rounds = (_QUICK_PAGES, _QUICK_ROUNDS) if quick else (_PAGES, _ROUNDS)
    cores = Cores.found()
    runs: dict[str, list[Run]] = defaultdict(list)
    with ExitStack() as stack:
        with running_on(cores.servers):
            given = {name: stack.enter_context(SERVERS[name]()) for name in names}
        with running_on(cores.client):
            for number in range(rounds):
                # Each is first once in a while: the machine may get slower or faster in a round.
                turn = number % len(given)
                for name in (*list(given)[turn:], *list(given)[:turn]):
                    found = asyncio.run(_round(given[name], pages(count, number)))
                    runs[name].append(found)
                    print(
                        f"round {number + 1}: {name}: {found.pages_per_s:,.0f} pages/s, "
                        f"{found.cpu_ms:.3f} ms of CPU a page",
                        file=sys.stderr,
                    )
    yield from figures(runs)


def figures(runs: Mapping[str, Sequence[Run]]) -> Iterator[Figure]:
    """Return the medians and spreads of all rounds."""
    for name, found in runs.items():
        rates = [run.pages_per_s for run in found]
        costs = [run.cpu_ms for run in found]
        if name == "postgresql":
            rate = Figure(
                *("sinks.postgresql.records_per_s", median(rates), "records/s"),
                target=at_least(_TARGET_RECORDS_S),
            )
        else:
            rate = Figure(f"sinks.{name}.pages_per_s", median(rates), "pages/s")
        # The server of the tests is written in Python: its speed is no figure.
        if name != "elasticsearch":
            yield rate
            yield Figure(f"sinks.{name}.rate_spread", max(rates) - min(rates), rate.unit)
        yield Figure(f"sinks.{name}.cpu_ms_per_page", median(costs), "ms")
        yield Figure(f"sinks.{name}.cpu_ms_spread", max(costs) - min(costs), "ms")


if __name__ == "__main__":
    sys.exit(run("benchmarks.sinks", __doc__, {"sinks": measure}))
