"""A scheduler that only writes down what components ask of it."""

from collections.abc import Sequence
from typing import Any

from scrapy.crawler import Crawler

from crawler.frontier import Added, Again, Entry, Frontier, Lease
from crawler.frontier.entry import decode
from crawler.scheduler import Scheduler
from crawler.scheduling.adder import RedirectSettler, SeenCache, UrlAdder
from crawler.scheduling.failures import Failures
from crawler.scheduling.notices import KnownStarts
from crawler.scheduling.options import OptionsWatcher
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.retry_policy import Bury, Retry, RetryPolicy
from crawler.urls import DEFAULT, fingerprint
from crawler.util.file_limit import OutOfSockets
from tests.support.crawlers import project_crawler


def lease_of(url: str = "http://h.test/a", **fields: Any) -> Lease:
    return Lease(shard=0, token=b"1", entry=Entry(id=fingerprint(url), url=url, **fields))


class WritingScheduler(Scheduler):
    """Its `calls` are (verb, lease's URL, value)."""

    def __init__(self, *, retry_times: int = 3) -> None:
        self.crawl = "crawl"
        self.is_scoped = False
        # Whether this process is surely the owner of its leases.
        self.sure = True
        self.thresholds = [80, 60, 40, 20]
        self.urls = DEFAULT
        self.calls: list[tuple[Any, ...]] = []
        # Of each `done`, beside it.
        self.why_no_page: list[str] = []
        self.added: list[Entry] = []
        # To each of them.
        self.answer = "1"
        self.failures = Failures(self, RetryPolicy(times=retry_times, base_s=30.0))
        self.redirect_settler = RedirectSettler(self)
        self.recrawls = Recrawls()
        self.options_watcher = OptionsWatcher(recrawls=self.recrawls)
        self.known_starts = KnownStarts(self.crawl, "", lambda _name, _by: None)
        # Asked for its shards only; it has no server.
        self.frontier = Frontier(None, self.crawl)
        # Asked for what it knows only, which is what `added` has; it has no outbox.
        self.adder = UrlAdder(None, SeenCache(1000), lambda _name, _by: None)  # type: ignore[arg-type]

    def holds(self, lease: Lease) -> bool:
        return True

    def may_fetch(self, lease: Lease) -> bool:
        return self.sure

    def release(self, lease: Lease, rest_ms: int, *, usual: bool = True) -> None:
        self.calls.append(("release" if usual else "long_release", lease.entry.url, rest_ms))

    def hand_back(self, lease: Lease, rest_ms: int) -> None:
        self.calls.append(("hand_back", lease.entry.url, rest_ms))

    def done(
        self, lease: Lease, *, page: bool, no_page: str = "", again: Again | None = None
    ) -> None:
        self.why_no_page.append(no_page)
        self.calls.append(("done", lease.entry.url, page, *([again] if again else [])))

    def fail(self, lease: Lease, decision: Retry | Bury) -> None:
        self.calls.append(("fail", lease.entry.url, decision))

    def ran_out(self, lease: Lease, error: OutOfSockets) -> None:
        self.calls.append(("ran_out", lease.entry.url, str(error)))

    async def add(self, entries: Sequence[Entry], mode: str = "new") -> Added:
        self.added += entries
        return Added(self.answer * len(entries))

    async def add_links(self, ids: Sequence[int], entries: Sequence[Entry | bytes]) -> Added:
        return await self.add([decode(entry) for entry in entries])


class Engine:
    """What components see of Scrapy's engine."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.downloader: Any = None


def crawler_with(scheduler: Scheduler, **settings: Any) -> Crawler:
    crawler = project_crawler(**settings)
    crawler.engine = Engine(scheduler)  # type: ignore[assignment]
    return crawler
