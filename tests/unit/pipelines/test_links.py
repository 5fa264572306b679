"""Links of a page go to the frontier, those that belong to the crawl."""

from datetime import UTC, datetime
from typing import Any

import pytest

from crawler.discovery.parents import ParentUrls
from crawler.discovery.scope import Scope
from crawler.items import Page
from crawler.pipelines.links import Links
from crawler.urls import fingerprint
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

URL = "http://www.h.test/"


def page(**fields: Any) -> Page:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Page(**{"url": URL, "final_url": URL, "status": 200, "crawled_at": at, **fields})


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
    assert [entry.queue for entry in scheduler.added] == [2, 2]


async def test_a_page_whose_links_wait_is_no_suspect_if_the_process_dies(
    scheduler: WritingScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = scheduler.leases.calls
    links = Links.from_crawler(crawler_with(scheduler))

    async def follow(urls: list[str], **_fields: Any) -> None:
        calls.append(("follow", *urls))

    monkeypatch.setattr(links._follower, "follow", follow)
    item = page(links=[URL + "a"])
    item.lease = lease_of(URL)
    await links.process_item(item)
    assert calls == [("parsed", URL), ("follow", URL + "a")]


async def test_the_parent_of_links_is_the_page_that_is_stored(scheduler: WritingScheduler) -> None:
    crawler = crawler_with(scheduler)
    # The answer to a POST, after a redirect.
    item = page(url_hash=f"{5:016x}", final_url=URL + "end", links=[URL + "a"])
    await Links.from_crawler(crawler).process_item(item)
    assert [entry.parent for entry in scheduler.added] == [5]
    assert ParentUrls.of(crawler).url_of(5) == URL


async def test_what_does_not_belong_is_counted_and_left(scheduler: WritingScheduler) -> None:
    scheduler.options_watcher.scope = Scope("host", max_depth=3)
    crawler = crawler_with(scheduler)
    links = Links.from_crawler(crawler)
    await links.process_item(page(links=["http://x.test/", "http://y.test/", URL + "a.pdf"]))
    await links.process_item(page(depth=3, links=[URL + "deep"]))
    assert scheduler.added == []
    stats = crawler.stats.get_stats()
    assert (stats["links/refused/scope"], stats["links/refused/extension"]) == (2, 1)
    assert stats["links/refused/depth"] == 1


@pytest.mark.parametrize(
    "item",
    [
        page(links=[URL + "a"], duplicate_of="0" * 16, simhash="0" * 16),
        page(),
        {"links": [URL + "a"]},
    ],
)
async def test_copies_and_other_items_have_no_links_to_follow(
    scheduler: WritingScheduler, item: Any
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    assert await links.process_item(item) is item
    assert scheduler.added == []


ORIGINAL, ENTRANCE = "0" * 15 + "1", "0" * 15 + "2"


def near_duplicate(url: str, *, parent: str, **how_near: Any) -> Page:
    """A page with the text of ORIGINAL."""
    copied = {"duplicate_of": ORIGINAL, **(how_near or {"duplicate_distance": 0})}
    return page(url=url, final_url=url, links=[url + "next"], parent=parent, **copied)


@pytest.mark.parametrize("how_near", [{"duplicate_distance": 0}, {"duplicate_similarity": 0.93}])
async def test_links_of_near_duplicates_are_followed_for_they_were_not_compared(
    scheduler: WritingScheduler, how_near: dict[str, Any]
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    await links.process_item(near_duplicate(URL + "index/", parent=ENTRANCE, **how_near))
    assert [entry.url for entry in scheduler.added] == [URL + "index/next"]


@pytest.mark.parametrize(
    ("url", "parent", "are_followed"),
    [
        (URL, ENTRANCE, True),
        (URL + "frames/", "", True),
        (URL + "fr/", ENTRANCE, False),
        (URL + "?x", ENTRANCE, False),
    ],
)
async def test_links_of_a_home_page_or_seed_with_hardly_a_word_are_its_own(
    scheduler: WritingScheduler, url: str, parent: str, are_followed: bool
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    item = near_duplicate(url, parent=parent)
    item.duplicate_distance = None
    await links.process_item(item)
    assert [entry.url for entry in scheduler.added] == ([url + "next"] if are_followed else [])


async def test_links_of_a_page_with_its_parents_text_are_not_followed(
    scheduler: WritingScheduler,
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    await links.process_item(near_duplicate(URL + "trap/1", parent=ORIGINAL))
    assert scheduler.added == []


async def test_links_of_a_page_with_its_parents_original_are_not_followed(
    scheduler: WritingScheduler,
) -> None:
    links = Links.from_crawler(crawler_with(scheduler))
    await links.process_item(near_duplicate(URL + "trap/1", parent=ENTRANCE))
    parent = f"{fingerprint(URL + 'trap/1'):016x}"
    await links.process_item(near_duplicate(URL + "trap/2", parent=parent))
    assert [entry.url for entry in scheduler.added] == [URL + "trap/1next"]


async def test_the_memory_of_near_duplicates_is_bounded(
    scheduler: WritingScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.pipelines.links._ORIGINALS_MAX_BYTES", 1000)
    links = Links.from_crawler(crawler_with(scheduler))
    for number in range(10):
        await links.process_item(near_duplicate(f"{URL}{number}", parent=ENTRANCE))
    assert 2 <= len(links._originals) < 6
