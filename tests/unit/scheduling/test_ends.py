"""URLs that end without a page, and new URLs: what sinks are told, and when."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from scrapy import Request

from crawler.errors import NotStored
from crawler.frontier import Added, Entry, Kind, Lease
from crawler.frontier.frontier import POISON
from crawler.items import Page
from crawler.scheduling.outcome import Bury
from crawler.servers.redis.errors import RedisAway
from crawler.storage.sink import Discovered
from crawler.util.request_meta import LEASE
from tests.support.schedulers import WritingScheduler, lease_of

URL = "http://h.test/a"


class Ends:
    """A scheduler whose leases are given, and the pages that its sinks get."""

    def __init__(self, *leases: Lease) -> None:
        self.scheduler = WritingScheduler()
        ready = iter(leases)
        self.scheduler.leases.take = lambda: next(ready, None)  # type: ignore[attr-defined]
        self.scheduler.failures.record = self.record
        self.pages: list[Page] = []

    def record(self, page: Page) -> asyncio.Future[None]:
        self.pages.append(page)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def next_request(self) -> Request | None:
        found = self.scheduler.next_request()
        await asyncio.sleep(0)
        return found


async def test_a_url_that_killed_its_processes_is_told_and_never_fetched() -> None:
    ends = Ends(lease_of(URL, reclaims=POISON))
    assert await ends.next_request() is None
    assert [(page.url, page.reason) for page in ends.pages] == [(URL, "poison")]
    assert ends.scheduler.calls == [("fail", URL, Bury("poison"))]


async def test_a_url_that_killed_fewer_is_fetched() -> None:
    ends = Ends(lease_of(URL, reclaims=POISON - 1))
    assert await ends.next_request() is not None
    assert ends.pages == []


async def test_an_entry_that_the_spider_cannot_read_is_told() -> None:
    ends = Ends(lease_of(URL, tail={"callback": "gone"}))
    assert await ends.next_request() is None
    (page,) = ends.pages
    assert page.reason.startswith("unreadable: ")
    assert ends.scheduler.calls[0][0] == "fail"


async def test_a_url_that_is_excluded_by_now_is_told_unless_it_has_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends = Ends(lease_of(URL), lease_of("http://h.test/known", tail={"visit": [1, 0, 0, 0]}))
    watcher = ends.scheduler.options_watcher
    monkeypatch.setattr(
        watcher, "scope", replace(watcher.scope, excluded_domains=frozenset({"h.test"}))
    )
    assert await ends.next_request() is None
    assert [(page.url, page.reason, page.error_count) for page in ends.pages] == [
        (URL, "excluded", 0)
    ]
    assert sorted(call[:2] for call in ends.scheduler.calls) == [
        ("done", URL),
        ("done", "http://h.test/known"),
    ]


async def test_a_redirect_that_is_refused_is_told() -> None:
    ends = Ends()
    target = Request("http://h.test/" + "x" * 5000, meta={LEASE: lease_of(URL)})
    assert not ends.scheduler.enqueue_request(target)
    await asyncio.sleep(0)
    assert [(page.url, page.reason) for page in ends.pages] == [(URL, "redirect_refused")]
    assert ends.scheduler.calls == [("done", URL, False)]


async def test_the_end_of_a_sitemap_is_no_error() -> None:
    ends = Ends(lease_of(URL, reclaims=POISON, kind=Kind.SITEMAP))
    assert await ends.next_request() is None
    assert ends.pages == []
    assert ends.scheduler.calls == [("fail", URL, Bury("poison"))]


# --- new URLs ------------------------------------------------------------------------------------


class Announcing:
    """A scheduler whose sinks want new URLs; writes down what happens in which order."""

    wants_discovered = True

    def __init__(self, *, unseen: bool = True) -> None:
        self.scheduler = WritingScheduler()
        self.scheduler.storage = self  # type: ignore[assignment]
        self.scheduler.frontier = self  # type: ignore[assignment]
        self.scheduler.adder = self  # type: ignore[assignment]
        self.scheduler._engine = self  # type: ignore[assignment]
        self.events: list[tuple[str, list[str]]] = []
        self.told: list[Discovered] = []
        self.is_unseen = unseen
        self.error: Exception | None = None
        self.refusal: Exception | None = None

    async def unseen(self, entries: Sequence[Entry]) -> list[bool]:
        if self.error is not None:
            raise self.error
        return [self.is_unseen] * len(entries)

    async def discover(self, urls: Sequence[Discovered]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.told += urls
        self.events.append(("told", [found.entry.url for found in urls]))

    async def add_unknown(self, ids: Sequence[int], entries: Sequence[Any]) -> Added:
        self.events.append(("added", [entry.url for entry in entries]))
        return Added("1" * len(ids))

    async def add(self, entries: Sequence[Entry], mode: str) -> Added:
        self.events.append(("added", [entry.url for entry in entries]))
        return Added("1" * len(entries))

    def send(self, entry: Entry, mode: str, done: Any) -> asyncio.Future[Added]:
        self.events.append(("added", [entry.url]))
        sent: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        sent.set_result(Added("1"))
        return sent

    def wake(self) -> None: ...

    async def add_links(self, *entries: Entry) -> None:
        ids = [entry.id for entry in entries]
        await super(WritingScheduler, self.scheduler).add_links(ids, entries, [70] * len(ids))


def entry(url: str, **fields: Any) -> Entry:
    return lease_of(url, **fields).entry


async def test_new_urls_are_told_before_they_are_added() -> None:
    found = Announcing()
    await found.add_links(entry("http://h.test/1"), entry("http://h.test/2"))
    urls = ["http://h.test/1", "http://h.test/2"]
    assert found.events == [("told", urls), ("added", urls)]
    assert [each.score for each in found.told] == [70, 70]


async def test_known_urls_sitemaps_and_posts_are_not_told() -> None:
    known = Announcing(unseen=False)
    await known.add_links(entry("http://h.test/1"))
    others = Announcing()
    post = entry("http://h.test/3", tail={"method": "POST"})
    await others.add_links(entry("http://h.test/2", kind=Kind.SITEMAP), post)
    assert known.told == others.told == []
    assert len(known.events) == len(others.events) == 1


async def test_seeds_of_a_stream_are_not_told_even_if_they_are_forced() -> None:
    found = Announcing()
    await found.scheduler._add_seeds([entry("http://h.test/1")], "force")
    assert found.events == [("added", ["http://h.test/1"])]


async def test_without_an_answer_of_redis_urls_are_told_rather_than_lost() -> None:
    found = Announcing(unseen=False)
    found.error = RedisAway[0]("away")
    await found.add_links(entry("http://h.test/1"))
    assert len(found.told) == 1


async def test_a_page_whose_new_urls_cannot_be_told_adds_none() -> None:
    found = Announcing()
    found.refusal = NotStored("the crawl ends")
    with pytest.raises(NotStored):
        await found.add_links(entry("http://h.test/1"))
    assert found.events == []


async def test_the_target_of_a_redirect_is_told_before_it_is_added() -> None:
    found = Announcing()
    request = Request("http://h.test/b", meta={LEASE: lease_of(URL)})
    assert found.scheduler.enqueue_request(request)
    for _ in range(5):
        await asyncio.sleep(0)
    assert found.events == [("told", ["http://h.test/b"]), ("added", ["http://h.test/b"])]
    assert found.scheduler.calls == [("done", URL, False)]
