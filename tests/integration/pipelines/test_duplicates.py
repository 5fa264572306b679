"""The duplicates pipeline with a real Redis: marked, and remembered only when durable."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from scrapy import signals
from scrapy.crawler import Crawler

from crawler.errors import ConfigurationError
from crawler.items import Page
from crawler.pipelines.duplicates import Duplicates
from crawler.scheduling.recrawl_policy import DIGEST_BYTES, Visit
from crawler.scheduling.recrawls import _VISIT as VISIT
from crawler.servers.connections import Servers
from crawler.urls import fingerprint
from tests.support.crawlers import project_crawler
from tests.support.schedulers import WritingScheduler, crawler_with, lease_of

WORDS = [f"word{number}" for number in range(400)]
TEXT = " ".join(WORDS)


def page(number: int, text: str = TEXT, **fields: Any) -> Page:
    url = f"http://h.test/{number}"
    values: dict[str, Any] = {
        "url": url,
        "final_url": url,
        "status": 200,
        "crawled_at": datetime(2026, 1, 1, tzinfo=UTC),
        "text": text,
        "body": text.encode(),
        **fields,
    }
    return Page(**values)


@pytest.fixture
async def crawler(redis_url: str) -> AsyncIterator[Crawler]:
    crawler = crawler_with(WritingScheduler(), REDIS_URL=redis_url, NEAR_BY="simhash")
    yield crawler
    await close(crawler)


@pytest.fixture
async def by_minhash(redis_url: str) -> AsyncIterator[Crawler]:
    crawler = crawler_with(WritingScheduler(), REDIS_URL=redis_url, NEAR_BY="minhash")
    yield crawler
    await close(crawler)


# What is to be closed at the end of a test.
OPENED: list[Duplicates] = []


async def opened(crawler: Crawler) -> Duplicates:
    duplicates = Duplicates.from_crawler(crawler)
    await duplicates.open_spider()
    OPENED.append(duplicates)
    return duplicates


async def close(crawler: Crawler) -> None:
    while OPENED:
        await OPENED.pop().close_spider()
    await Servers.of(crawler).close()


async def store(crawler: Crawler, item: Page) -> None:
    """What the engine does when an item has passed all pipelines."""
    await crawler.signals.send_catch_log_async(signals.item_scraped, item=item)
    for duplicates in OPENED:
        await duplicates._index.flush()


async def test_an_equal_page_is_a_duplicate_once_the_first_is_durable(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    first, early, late = page(1), page(2), page(3)
    await duplicates.process_item(first)
    await duplicates.process_item(early)
    assert (first.duplicate_of, early.duplicate_of) == ("", "")
    await store(crawler, first)
    await duplicates.process_item(late)
    assert late.duplicate_of == f"{fingerprint(first.url):016x}"
    assert late.duplicate_distance is None
    assert len(late.content_hash) == 64
    assert crawler.stats.get_value("duplicates/exact") == 1


async def test_a_nearly_equal_page_is_a_duplicate(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    await store(crawler, await duplicates.process_item(page(1)))
    other = await duplicates.process_item(page(2, TEXT + "!", body=b"another template"))
    assert other.duplicate_distance == 0
    far = await duplicates.process_item(page(3, " ".join(f"x{word}" for word in WORDS)))
    assert far.duplicate_of == ""


async def test_by_minhash_a_page_with_a_paragraph_less_is_a_duplicate(by_minhash: Crawler) -> None:
    duplicates = await opened(by_minhash)
    await store(by_minhash, await duplicates.process_item(page(1)))
    other = await duplicates.process_item(page(2, " ".join(WORDS[:-25])))
    assert other.duplicate_of == f"{fingerprint('http://h.test/1'):016x}"
    assert other.duplicate_distance is None
    assert other.duplicate_similarity == pytest.approx(373 / 398, abs=0.05)
    assert other.is_near_duplicate
    assert by_minhash.stats.get_value("duplicates/near") == 1
    half = await duplicates.process_item(page(3, " ".join(WORDS[:200])))
    assert half.duplicate_of == ""
    # The SimHash tells whether a page changed between two visits.
    assert half.simhash


async def test_by_minhash_pages_of_a_shop_are_not_taken_for_one(by_minhash: Crawler) -> None:
    duplicates = await opened(by_minhash)
    for number in range(5):
        item = page(number, f"{TEXT} item{number}", title="Shop", headings=[f"# Chair {number}"])
        await store(by_minhash, await duplicates.process_item(item))
        assert item.duplicate_of == ""


async def test_by_minhash_a_page_whose_content_changed_gives_up_its_past(
    by_minhash: Crawler,
) -> None:
    duplicates = await opened(by_minhash)
    first = await duplicates.process_item(page(1))
    await store(by_minhash, first)
    changed = page(1, " ".join(f"x{word}" for word in WORDS))
    changed.earlier = (first.content_hash[: 2 * DIGEST_BYTES], first.simhash)
    await store(by_minhash, await duplicates.process_item(changed))
    assert not (await duplicates.process_item(page(2, f"{TEXT} end"))).duplicate_of
    third = await duplicates.process_item(page(3, f"{changed.text} end"))
    assert third.duplicate_of == f"{fingerprint('http://h.test/1'):016x}"


async def test_by_minhash_a_page_that_did_not_change_stays_an_original(by_minhash: Crawler) -> None:
    duplicates = await opened(by_minhash)
    first = await duplicates.process_item(page(1))
    await store(by_minhash, first)
    again = page(1)
    visit = Visit(3600.0, hashlib.sha256(again.body).digest()[:DIGEST_BYTES], 7)
    again.lease = lease_of(again.url, tail={VISIT: visit.packed()})
    await store(by_minhash, await duplicates.process_item(again))
    assert again.duplicate_of == ""
    assert (await duplicates.process_item(page(2, f"{TEXT} end"))).duplicate_of


def framed(number: int, *blocks: str, host: str = "h.test") -> Page:
    item = page(number, " ".join(blocks), body=f"page {number} of {host}".encode())
    url = f"http://{host}/{number}"
    item = replace(item, url=url, final_url=url, url_hash="")
    item.blocks = list(blocks)
    return item


def article(number: int) -> str:
    return " ".join(f"a{number}w{place}" for place in range(100))


async def test_what_a_hosts_pages_have_in_common_is_left_out(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    notices = {host: " ".join(f"{host}{place}" for place in range(40)) for host in ("a", "b")}
    for number in range(4):
        for host, notice in notices.items():
            item = framed(10 * ord(host) + number, notice, article(number), host=f"{host}.test")
            await store(crawler, await duplicates.process_item(item))
            # Only the first three are compared with their frame.
            assert bool(item.duplicate_of) == (host == "b" and number == 3)
    assert item.duplicate_distance == 0


async def test_by_minhash_an_article_is_compared_without_what_is_around_it(
    by_minhash: Crawler,
) -> None:
    duplicates = await opened(by_minhash)
    found = []
    for number in (1, 2):
        item = framed(number, article(1), article(10 + number))
        item.article = [article(1)]
        await store(by_minhash, await duplicates.process_item(item))
        found.append(item)
    assert [item.duplicate_similarity for item in found] == [None, 1]
    # That of all its text, as without MinHash.
    assert found[0].simhash != found[1].simhash


async def test_copies_do_not_make_an_article_a_frame(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    for number in range(8):
        item = framed(number, *(f"{article(part)} ." for part in range(5)))
        await store(crawler, await duplicates.process_item(item))
        assert bool(item.duplicate_of) == (number > 0)


async def test_short_texts_are_near_to_nothing(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    await store(crawler, await duplicates.process_item(page(1, "two words")))
    other = await duplicates.process_item(page(2, "two words", body=b"x"))
    assert (other.duplicate_of, other.simhash) == ("", "")


async def test_texts_shorter_than_a_shingle_are_never_compared(redis_url: str) -> None:
    crawler = crawler_with(WritingScheduler(), REDIS_URL=redis_url, NEAR_MIN_WORDS=0)
    duplicates = await opened(crawler)
    await store(crawler, await duplicates.process_item(page(1, "one")))
    assert (await duplicates.process_item(page(2, "other"))).duplicate_of == ""
    await close(crawler)


async def test_a_duplicate_is_no_original(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    for number in (1, 2):
        await store(crawler, await duplicates.process_item(page(number)))
    third = await duplicates.process_item(page(3))
    assert third.duplicate_of == f"{fingerprint('http://h.test/1'):016x}"


async def test_equal_pages_on_their_way_at_the_same_time_are_counted(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    for number in (1, 2):
        assert not (await duplicates.process_item(page(number))).duplicate_of
    assert crawler.stats.get_value("duplicates/pending") == 1
    assert crawler.stats.get_value("duplicates/compared") == 2


async def test_a_page_that_failed_on_its_way_is_neither_pending_nor_original(
    crawler: Crawler,
) -> None:
    duplicates = await opened(crawler)
    await crawler.signals.send_catch_log_async(
        signals.item_error, item=await duplicates.process_item(page(1))
    )
    assert not (await duplicates.process_item(page(2))).duplicate_of
    assert crawler.stats.get_value("duplicates/pending") is None


async def test_a_page_whose_content_changed_gives_up_its_past(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    first = await duplicates.process_item(page(1))
    await store(crawler, first)
    changed = page(1, " ".join(f"x{word}" for word in WORDS))
    changed.earlier = (first.content_hash, first.simhash)
    await store(crawler, await duplicates.process_item(changed))
    assert not (await duplicates.process_item(page(2))).duplicate_of
    third = await duplicates.process_item(page(3, changed.text))
    assert third.duplicate_of == f"{fingerprint('http://h.test/1'):016x}"


@pytest.mark.parametrize(("status", "is_original"), [(200, False), (304, True), (503, True)])
async def test_a_page_without_content_is_an_original_as_long_as_it_is_stored(
    crawler: Crawler, status: int, is_original: bool
) -> None:
    duplicates = await opened(crawler)
    first = await duplicates.process_item(page(1))
    await store(crawler, first)
    now = page(1, "", stored=False, status=status)
    now.earlier = (first.content_hash, first.simhash)
    await store(crawler, await duplicates.process_item(now))
    assert bool((await duplicates.process_item(page(2))).duplicate_of) == is_original


async def test_the_same_bytes_keep_the_hash_that_was_remembered_of_them(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    again = page(1)
    visit = Visit(3600.0, hashlib.sha256(again.body).digest()[:DIGEST_BYTES], 7)
    again.lease = lease_of(again.url, tail={VISIT: visit.packed()})
    assert (await duplicates.process_item(again)).simhash == f"{7:016x}"


async def test_what_is_remembered_last_is_in_redis_when_the_spider_is_closed(
    crawler: Crawler,
) -> None:
    duplicates = await opened(crawler)
    await store(crawler, await duplicates.process_item(page(1)))
    await duplicates.close_spider()
    assert (await (await opened(crawler)).process_item(page(2))).duplicate_of


async def test_a_page_fetched_again_is_no_duplicate_of_itself(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    for _ in range(2):
        item = await duplicates.process_item(page(1))
        assert item.duplicate_of == ""
        await store(crawler, item)


@pytest.mark.parametrize("item", [page(1, stored=False), page(1, body=b""), {"a": "dict"}])
async def test_what_is_not_kept_is_not_compared(crawler: Crawler, item: Any) -> None:
    duplicates = await opened(crawler)
    assert await duplicates.process_item(item) is item
    await crawler.signals.send_catch_log_async(signals.item_scraped, item=item)
    assert (await duplicates.process_item(page(2))).duplicate_of == ""


async def test_a_page_that_was_too_big_to_store_is_no_original(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    first = await duplicates.process_item(page(1))
    # The store found that out.
    first.stored = False
    await store(crawler, first)
    assert not (await duplicates.process_item(page(2))).duplicate_of


async def test_items_that_other_pipelines_replace_take_no_memory(
    crawler: Crawler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.pipelines.duplicates._PENDING_MAX", 3)
    duplicates = await opened(crawler)
    for number in range(10):
        await duplicates.process_item(page(number, f"{TEXT} {number}"))
        await crawler.signals.send_catch_log_async(signals.item_scraped, item={"mine": number})
    assert len(duplicates._pending) <= 3


async def test_a_huge_text_is_hashed_without_stopping_the_world(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    huge = " ".join(f"w{number}" for number in range(200_000))
    await store(crawler, await duplicates.process_item(page(1, huge)))
    assert (await duplicates.process_item(page(2, huge))).duplicate_distance is None
    assert (await duplicates.process_item(page(3, huge + " end", body=b"x"))).duplicate_of


async def test_pages_that_come_together_have_the_hashes_they_would_have_alone(
    crawler: Crawler,
) -> None:
    duplicates = await opened(crawler)
    texts = [" ".join(WORDS[number : number + 200]) for number in range(40)]
    together = [page(number, text) for number, text in enumerate(texts)]
    await asyncio.gather(*map(duplicates.process_item, together))
    for number in (0, 7, 39):
        alone = await duplicates.process_item(page(100 + number, texts[number]))
        assert alone.content_hash == hashlib.sha256(texts[number].encode()).hexdigest()
        assert (together[number].content_hash, together[number].simhash) == (
            alone.content_hash,
            alone.simhash,
        )


async def test_a_page_that_cannot_be_hashed_fails_alone(crawler: Crawler) -> None:
    duplicates = await opened(crawler)
    bad, good = page(1), page(2)
    bad.blocks = [None]  # type: ignore[list-item]
    results = await asyncio.gather(
        *map(duplicates.process_item, (bad, good)), return_exceptions=True
    )
    assert isinstance(results[0], TypeError)
    assert results[1] is good
    assert good.content_hash


def test_an_index_for_no_pages_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="NEAR_PAGES is 0; give a whole number, 1 or more"):
        Duplicates.from_crawler(project_crawler(NEAR_PAGES=0))


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("NEAR_BY", "md5", "use one of minhash, simhash"),
        ("NEAR_SIMILARITY", 0.5, "give a number from 0.8 to 1"),
        ("NEAR_SIMILARITY", 90, "give a number from 0.8 to 1"),
    ],
)
def test_a_method_or_similarity_that_there_is_not_is_refused(
    name: str, value: object, rule: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is '?{value}'?; {rule}"):
        Duplicates.from_crawler(project_crawler(**{name: value}))


@pytest.mark.parametrize("distance", [-1, 4, 64])
def test_a_distance_that_cannot_be_found_is_refused(distance: int) -> None:
    with pytest.raises(
        ConfigurationError, match=f"NEAR_DISTANCE is {distance}; give a whole number"
    ):
        Duplicates.from_crawler(project_crawler(NEAR_DISTANCE=distance))
