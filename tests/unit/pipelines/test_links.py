"""Links of a page go to the frontier, those that belong to the crawl."""

from datetime import UTC, datetime
from typing import Any

import pytest

from crawler.items import Page
from crawler.pipelines.links import Links
from crawler.policy.url_filter import Scope
from crawler.urls import fingerprint
from tests.unit.schedulers import WritingScheduler, crawler_with

URL = "http://www.h.test/"


def page(**fields: Any) -> Page:
    return Page(
        url=URL, final_url=URL, status=200, crawled_at=datetime(2026, 1, 1, tzinfo=UTC), **fields
    )


@pytest.fixture
def scheduler() -> WritingScheduler:
    return WritingScheduler()


async def test_links_become_entries_one_deeper_with_their_parent(
    scheduler: WritingScheduler,
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    item = page(depth=2, links=[URL + "a", "http://other.h.test/"])
    assert await links.process_item(item) is item
    assert [entry.url for entry in scheduler.added] == item.links
    for entry in scheduler.added:
        assert (entry.depth, entry.parent) == (3, fingerprint(URL))
        assert entry.id == fingerprint(entry.url)
    assert [entry.queue for entry in scheduler.added] == [2, 1]


async def test_what_does_not_belong_is_counted_and_left(scheduler: WritingScheduler) -> None:
    scheduler.orders.scope = Scope("host", max_depth=3)
    crawler = crawler_with(scheduler)
    links = Links.from_crawler(crawler)
    await links.process_item(page(links=["http://x.test/", "http://y.test/", URL + "a.pdf"]))
    await links.process_item(page(depth=3, links=[URL + "deep"]))
    assert scheduler.added == []
    stats = crawler.stats.get_stats()
    assert (stats["links/refused/scope"], stats["links/refused/extension"]) == (2, 1)
    assert stats["links/refused/depth"] == 1


@pytest.mark.parametrize(
    "item", [page(links=[URL + "a"], duplicate_of="0" * 16), page(), {"links": [URL + "a"]}]
)
async def test_duplicates_and_other_items_have_no_links_to_follow(
    scheduler: WritingScheduler, item: Any
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    assert await links.process_item(item) is item
    assert scheduler.added == []
