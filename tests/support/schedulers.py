"""A scheduler without servers, which records what components do with leases and URLs."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from scrapy import Request, Spider
from scrapy.core.scraper import Slot
from scrapy.crawler import Crawler

from crawler.errors import NotStored
from crawler.frontier import Added, Again, Entry, Frontier, Lease
from crawler.frontier.entry import decode
from crawler.frontier.outbox import SeenCache, UrlAdder
from crawler.scheduler import Scheduler
from crawler.scheduling.outcome import Bury, Failures, Retry, RetryPolicy
from crawler.scheduling.page_maker import PageMaker
from crawler.servers.health import GaveUp
from crawler.urls import fingerprint
from crawler.util.request_meta import LEASE
from tests.support.crawlers import project_crawler


def lease_of(url: str = "http://h.test/a", **fields: Any) -> Lease:
    return Lease(shard=0, token=b"1", entry=Entry(id=fingerprint(url), url=url, **fields))


class FakeLeases:
    """A lease pool that holds every lease, and only writes down how each is settled.

    Its `calls` are (verb, lease's URL, value).
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        # Whether this process is surely the owner of its leases.
        self.sure = True
        # The stat of each `done`.
        self.why_no_page: list[str] = []
        self.settling: set[tuple[int, bytes]] = set()

    def holds(self, lease: Lease) -> bool:
        return lease.key not in self.settling

    def may_fetch(self, lease: Lease) -> bool:
        return self.sure

    def parsed(self, lease: Lease) -> None:
        self.calls.append(("parsed", lease.entry.url))

    def release(self, lease: Lease, delay_ms: int, *, usual: bool = True) -> None:
        self.calls.append(("release" if usual else "long_release", lease.entry.url, delay_ms))

    def hand_back(self, lease: Lease, delay_ms: int) -> None:
        self.calls.append(("hand_back", lease.entry.url, delay_ms))

    def postpone(self, lease: Lease, delay_ms: int, *, queue: int) -> None:
        self.calls.append(("postpone", lease.entry.url, delay_ms, queue))

    def put_off(self, request: Request, delay_ms: int) -> Request:
        self.hand_back(request.meta[LEASE], delay_ms)
        return request

    def done(
        self, lease: Lease, *, page: bool, no_page: str = "", again: Again | None = None
    ) -> None:
        self.why_no_page.append(no_page)
        self.calls.append(("done", lease.entry.url, page, *([again] if again else [])))

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        self.calls.append(("fail", lease.entry.url, decision))

    def settle_after(
        self,
        lease: Lease,
        safe: asyncio.Future[Any],
        settle: Callable[[BaseException | None], None],
    ) -> None:
        def finished(safe: asyncio.Future[Any]) -> None:
            self.settling.discard(lease.key)
            if isinstance(safe.exception(), (GaveUp, NotStored)):
                self.hand_back(lease, 0)
            else:
                settle(safe.exception())

        self.settling.add(lease.key)
        safe.add_done_callback(finished)


class WritingScheduler(Scheduler):
    """The real scheduler, with fakes in the place of what its `open` connects to servers."""

    leases: FakeLeases  # type: ignore[assignment]

    def __init__(self, *, retry_times: int = 3) -> None:
        crawler = project_crawler(CRAWL="crawl")
        crawler.spider = Spider("any")
        super().__init__(crawler)
        self.added: list[Entry] = []
        # To each of them.
        self.answer = "1"
        self.leases = FakeLeases()
        # What there was no file descriptor for.
        self.out_of_sockets: list[str] = []
        self.failures = Failures(
            RetryPolicy(times=retry_times, base_s=30.0),
            self.leases,  # type: ignore[arg-type]
            self.recrawls,
            PageMaker.of(crawler),
            arrival=lambda: self.adder.arrival(),  # noqa: PLW0108 - tests replace it
            run_fewer=lambda error: self.out_of_sockets.append(str(error)),
        )
        # Asked for its shards only; it has no server.
        self.frontier = Frontier(None, self.crawl)
        # Asked for what it knows only, which is what `added` has; it has no outbox.
        self.adder = UrlAdder(None, SeenCache(1000), lambda _name, _by: None)  # type: ignore[arg-type]

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        return self.leases.calls

    async def add(self, entries: Sequence[Entry], mode: str = "new") -> Added:
        self.added += entries
        return Added(self.answer * len(entries))

    async def add_links(
        self, ids: Sequence[int], entries: Sequence[Entry | bytes], scores: Sequence[int]
    ) -> Added:
        return await self.add([decode(entry) for entry in entries])


class Engine:
    """What components see of Scrapy's engine."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.downloader: Any = None
        self.scraper = SimpleNamespace(slot=Slot())
        # Of a crawl that is not closing.
        self._slot = SimpleNamespace(closing=None)


def crawler_with(scheduler: Scheduler, **settings: Any) -> Crawler:
    crawler = project_crawler(**settings)
    crawler.engine = Engine(scheduler)  # type: ignore[assignment]
    return crawler
