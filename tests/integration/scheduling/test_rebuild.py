"""A frontier that is made anew from what MongoDB and PostgreSQL have of its crawl."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crawler.frontier import CrawlControl, Entry, Frontier
from crawler.items import Page, parent_hash
from crawler.scheduling.options import CrawlOptions
from crawler.scheduling.rebuild import Rebuild, Rebuilt, link_rules
from crawler.scheduling.recrawls import visit_of
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import Client
from crawler.storage.readers import open_reader
from crawler.storage.sinks import named_sinks
from crawler.urls import fingerprint
from tests.integration.frontier.fleet import beat, claim
from tests.support.crawlers import project_crawler

CRAWL = "web"
NOW = datetime.now(UTC).replace(microsecond=0)
HOME = "http://a.test/"


def page(url: str, *links: str, parent: str = "", **fields: Any) -> Page:
    entry = Entry(fingerprint(url), url, parent=fingerprint(parent) if parent else 0)
    found: dict[str, Any] = {
        "content_hash": f"{fingerprint(url):064x}",
        "content_type": "text/html",
        "depth": 1 if parent else 0,
        "priority": 2,
        "parent": parent_hash(entry),
        **fields,
    }
    crawl = found.pop("crawl", CRAWL)
    made = Page(url, url, found.pop("status", 200), NOW, crawl, **found)
    made.links = list(links)
    return made


class Place:
    """A store with pages of a crawl, and an empty frontier."""

    def __init__(self, settings: Any, servers: Servers, redis: Client) -> None:
        self.settings = settings
        self.servers = servers
        self.redis = redis
        self.frontier = Frontier(redis, CRAWL, shards=4)

    async def store(self, *pages: Page) -> None:
        for named in named_sinks(self.settings):
            sink = named.make(CRAWL, self.settings, self.servers)
            await sink.open()
            assert not await sink.write([sink.prepare(each) for each in pages])
            await sink.close()

    async def rebuild(self, **options: Any) -> Rebuilt:
        await self.frontier.create()
        control = await CrawlControl.open(self.redis, CRAWL)
        reader = await open_reader(self.settings, self.servers)
        rebuild = Rebuild(
            *(self.frontier, control, reader, replace(CrawlOptions(), **options)),
            lambda now: link_rules(self.settings, control.urls, now),
        )
        advanced: list[int] = []
        found = await rebuild.run(advanced.append)
        assert sum(advanced) == 2 * await rebuild.count()
        return found

    async def waiting(self) -> list[Entry]:
        """Claim all that waits: one URL of each host."""
        await self.frontier.open()
        await beat(self.frontier)
        return [lease.entry for lease in await claim(self.frontier, now_ms=0)]

    async def known(self, *urls: str) -> Sequence[bool]:
        entries = [Entry(fingerprint(url), url) for url in urls]
        return [not unseen for unseen in await self.frontier.unseen(entries)]


@pytest.fixture
def mongo_settings(mongo_uri: str, mongo_db_name: str) -> dict[str, Any]:
    return {"SINKS": "mongo", "MONGO_URI": mongo_uri, "MONGO_DATABASE": mongo_db_name}


@pytest.fixture
def postgresql_settings(postgres_url: str) -> dict[str, Any]:
    return {"SINKS": postgres_url}


@pytest.fixture(params=["mongo", "postgresql"])
async def place(
    request: pytest.FixtureRequest, redis_client: Client, tmp_path: Path
) -> AsyncIterator[Place]:
    store = request.getfixturevalue(f"{request.param}_settings")
    settings = project_crawler(CRAWL_DIR=str(tmp_path / "crawl"), **store).settings
    servers = Servers.from_settings(settings)
    yield Place(settings, servers, redis_client)
    await servers.close()


async def test_pages_are_known_and_their_links_wait(place: Place) -> None:
    child, gone, new = f"{HOME}child", f"{HOME}gone", "http://b.a.test/new"
    await place.store(
        page(HOME, child, gone, new, "http://elsewhere.test/"),
        page(child, HOME, parent=HOME),
        page(gone, parent=HOME, status=404, stored=False, reason="status_404", content_hash=""),
        page("http://other.test/x", crawl="shop"),
    )
    found = await place.rebuild()
    assert found == Rebuilt(records=3, crawled=3, waiting=1)
    sizes = await place.frontier.sizes()
    assert (sizes.done, sizes.pages, sizes.waiting) == (3, 2, 1)
    assert await place.known(HOME, child, gone, new) == [True] * 4
    assert await place.known("http://elsewhere.test/", "http://other.test/x") == [False] * 2
    [entry] = await place.waiting()
    assert (entry.url, entry.depth, entry.parent) == (new, 1, fingerprint(HOME))
    # Once more, as after an interruption.
    assert await place.rebuild() == Rebuilt(records=3)


async def test_the_scope_of_the_crawl_decides_on_links(place: Place) -> None:
    pages = [page(HOME, "http://b.test/", "http://c.test/x"), page("http://c.test/")]
    await place.store(*pages)
    assert (await place.rebuild(follow=False)).waiting == 0
    assert (await place.rebuild(scope="seeds")).waiting == 1
    assert await place.known("http://c.test/x", "http://b.test/") == [True, False]
    assert (await place.rebuild(scope="any", excluded_domains=("b.test",))).waiting == 0
    assert (await place.rebuild(scope="any")).waiting == 1


async def test_recrawls_keep_their_times_and_what_is_known_of_the_page(place: Place) -> None:
    later = NOW + timedelta(days=3)
    given: dict[str, Any] = {"visits": 4, "changes": 2, "recrawl_interval_s": 600.0, "etag": "x1"}
    await place.store(
        page("http://due.test/", next_crawl=NOW - timedelta(hours=1), simhash="00ff", **given),
        page("http://later.test/", next_crawl=later, **given),
        page("http://once.test/"),
    )
    found = await place.rebuild(recrawl="adaptive")
    assert (found.crawled, found.recrawls) == (3, 2)
    assert (await place.frontier.sizes()).recrawls == 2
    await place.frontier.open()
    await beat(place.frontier)
    # Delays are rounded up to a second.
    now_ms = round(datetime.now(UTC).timestamp() * 1000) + 5000
    await place.frontier.promote(now_ms=now_ms)
    [lease] = await claim(place.frontier, now_ms=now_ms)
    visit = visit_of(lease.entry)
    assert lease.entry.url == "http://due.test/"
    assert lease.entry.tail["etag"] == "x1"
    assert visit is not None
    assert (visit.visits, visit.changes, visit.interval_s, visit.simhash) == (4, 2, 600.0, 255)
    assert visit.digest == bytes.fromhex(f"{fingerprint(lease.entry.url):064x}")[:12]
    assert visit.at_s == int(NOW.timestamp())


async def test_nothing_is_visited_again_while_recrawls_are_off(place: Place) -> None:
    await place.store(page(HOME, next_crawl=NOW, recrawl_interval_s=600.0))
    assert (await place.rebuild()).recrawls == 0


async def test_a_page_with_more_links_than_its_record_is_fetched_again(place: Place) -> None:
    links = [f"{HOME}{number}" for number in range(1001)]
    await place.store(page(HOME, *links))
    found = await place.rebuild()
    assert (found.crawled, found.to_fetch_again, found.waiting) == (0, 1, 1000)
    sizes = await place.frontier.sizes()
    assert (sizes.done, sizes.waiting) == (0, 1001)


async def test_sources_of_redirects_are_known(place: Place) -> None:
    await place.store(page(f"{HOME}new", redirects=[f"{HOME}old"], redirect_statuses=[301]))
    assert (await place.rebuild()).crawled == 2
    assert await place.known(f"{HOME}old") == [True]


async def test_links_of_copies_are_not_followed(place: Place) -> None:
    hashes = {"content_hash": "aa" * 32, "simhash": "01" * 8}
    copy = page("http://copy.test/x", "http://copy.test/y", parent=HOME, **hashes)
    copy.duplicate_of = f"{fingerprint(HOME):016x}"
    await place.store(page(HOME, **hashes), copy)
    assert (await place.rebuild(scope="any")).waiting == 0
