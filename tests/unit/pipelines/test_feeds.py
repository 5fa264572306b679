"""Scrapy's feeds take pages before their leases are settled, and say when they cannot."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions.feedexport import FeedExporter

from crawler.errors import ConfigurationError, NotStored
from crawler.items import Page
from crawler.pipelines.feeds import Feeds
from crawler.scheduler import keep_files
from tests.support.crawlers import project_crawler
from tests.support.full_disk import files_of_at_most

FEED_EXPORTER = "scrapy.extensions.feedexport.FeedExporter"


class Engine:
    _slot = None

    def __init__(self) -> None:
        self.closed: list[str] = []

    async def close_spider_async(self, *, reason: str) -> None:
        self.closed.append(reason)


def crawler_with_feed(path: Path | str, **settings: Any) -> Crawler:
    crawler = project_crawler(
        FEEDS={str(path): {"format": "jsonlines"}}, EXTENSIONS={FEED_EXPORTER: 0}, **settings
    )
    crawler.engine = Engine()  # type: ignore[assignment]
    crawler.spider = Spider(name="a")
    return crawler


def opened(crawler: Crawler) -> Feeds:
    """Feeds whose files the test has to close."""
    feeds = Feeds.from_crawler(crawler)
    feeds.open_spider()
    exporter = crawler.get_extension(FeedExporter)
    assert exporter is not None
    exporter.open_spider(crawler.spider)
    return feeds


def close(crawler: Crawler) -> None:
    exporter = crawler.get_extension(FeedExporter)
    assert exporter is not None
    for slot in exporter.slots:
        assert slot.file is not None
        with suppress(OSError):
            slot.file.close()


def page(number: int = 0) -> Page:
    url = f"http://h.test/{number}"
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return Page(url=url, final_url=url, status=200, crawled_at=at, body="Grüße".encode())


async def test_a_page_is_in_the_file_when_the_pipeline_has_returned(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "pages.jsonl"
    crawler = crawler_with_feed(path)
    feeds = opened(crawler)
    for number in range(3):
        await feeds.process_item(page(number))
        lines = path.read_text().splitlines()
        assert len(lines) == number + 1
    read = json.loads(lines[0])
    assert (read["url"], read["body"]) == ("http://h.test/0", "Grüße")
    assert read["crawled_at"].startswith("2026-01-02")
    # Scrapy's own signal does not write it once more.
    await crawler.signals.send_catch_log_async("item_scraped", item=page(), spider=crawler.spider)
    assert len(path.read_text().splitlines()) == 3
    close(crawler)


@pytest.mark.parametrize("name", ["file/pages.jsonl", "folder"])
def test_a_feed_that_cannot_be_written_is_told_at_the_start(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match=rf"The feed .*{name} cannot be written \("):
        opened(crawler_with_feed(tmp_path / name))


async def test_a_feed_that_fails_on_the_way_ends_the_crawl_and_loses_no_page() -> None:
    # Every write to it fails as on a full disk.
    crawler = crawler_with_feed("/dev/full")
    feeds = opened(crawler)
    for number in range(2):
        with pytest.raises(NotStored):
            await feeds.process_item(page(number))
    assert feeds._closing is not None
    await feeds._closing
    assert crawler.engine.closed == ["feed_failed"]  # type: ignore[union-attr]
    close(crawler)


@pytest.mark.parametrize("before", [0, 1])
async def test_half_a_page_does_not_spoil_what_the_next_run_writes(
    tmp_path: Path, before: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text('{"url": "of an earlier run"}\n')
    crawler = crawler_with_feed(path)
    feeds = opened(crawler)
    for number in range(before):
        await feeds.process_item(page(number))
    with files_of_at_most(path.stat().st_size + 10), pytest.raises(NotStored):
        await feeds.process_item(page(7))
    assert "goes on when it is started again; free some space before" in caplog.text
    # There is room again before the process has ended.
    close(crawler)
    later = crawler_with_feed(path)
    await opened(later).process_item(page(8))
    close(later)
    found = [json.loads(line)["url"] for line in path.read_text().splitlines()]
    earlier = [page(number).url for number in range(before)]
    assert found == ["of an earlier run", *earlier, page(8).url]


@pytest.mark.parametrize("uri", ["s3://bucket/pages.jsonl", "%(name)s-%(time)s.jsonl"])
def test_feeds_elsewhere_are_not_touched_before_they_are_written(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = Feeds(
        project_crawler(),
        SimpleNamespace(feeds={uri: {}}),  # type: ignore[arg-type]
    )
    monkeypatch.chdir(tmp_path)
    feeds.open_spider()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [{}, {"batch_item_count": 10}])
def test_a_feed_that_is_uploaded_later_is_refused_where_nothing_else_has_the_pages(
    options: dict[str, Any],
) -> None:
    uri = "ftp://me:secret@127.0.0.1:9/pages-%(batch_id)d.jsonl"
    crawler = project_crawler(
        FEEDS={uri: {"format": "jsonlines", **options}},
        EXTENSIONS={FEED_EXPORTER: 0},
        SINKS="none",
    )
    with pytest.raises(
        ConfigurationError,
        match=r"The feed ftp://me:\*\*\*@127\.0\.0\.1:9/pages-.* is whole only when .* lose .*"
        r"-o pages\.jsonl.*SINKS=mongo",
    ):
        Feeds.from_crawler(crawler)


def test_a_feed_that_is_uploaded_later_is_a_copy_of_what_mongodb_has(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Feeds.from_crawler(crawler_with_feed("ftp://127.0.0.1:9/pages.jsonl", SINKS="mongo"))
    assert "The feed ftp://127.0.0.1:9/pages.jsonl is whole only when" in caplog.text
    assert "Pages are in mongo" in caplog.text


def test_a_feed_of_a_kind_that_nobody_knows_is_no_feed_that_is_left_out() -> None:
    with pytest.raises(ConfigurationError, match=r"FEEDS cannot be written.* nope://"):
        Feeds.from_crawler(crawler_with_feed("nope://127.0.0.1/pages.jsonl"))


def test_without_feeds_there_is_nothing_to_do() -> None:
    with pytest.raises(NotConfigured):
        Feeds.from_crawler(project_crawler())


# --- a run that crawled nothing -----------------------------------------------------------------


async def written(crawler: Crawler, *, keep: bool, items: int = 0) -> None:
    """Write the feeds of a run as Scrapy does."""
    exporter = crawler.get_extension(FeedExporter)
    assert exporter is not None
    exporter.open_spider(crawler.spider)
    for number in range(items):
        exporter.item_scraped({"number": number}, crawler.spider)
    if keep:
        keep_files(crawler)
    await exporter.close_spider(crawler.spider)


def crawler_with_feeds(**feeds: dict[str, Any]) -> Crawler:
    crawler = project_crawler(FEEDS=feeds, EXTENSIONS={FEED_EXPORTER: 0})
    crawler.spider = Spider(name="a")
    crawler.spider.crawler = crawler
    return crawler


async def test_a_run_that_crawled_nothing_empties_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("[1]")
    feeds = {str(path): {"format": "json", "overwrite": True} for path in (old, new)}
    await written(crawler_with_feeds(**feeds), keep=True)
    assert old.read_text() == "[1]"
    # One that is not there is made, as ever.
    assert json.loads(new.read_text()) == []
    assert f"Nothing was crawled, so the feed {old} stays as it is" in caplog.text
    assert caplog.text.count("stays as it is") == 1
    # What a run with pages gave is what it gave, and if it is nothing.
    await written(crawler_with_feeds(**feeds), keep=False)
    assert json.loads(old.read_text()) == []


async def test_items_of_a_run_without_pages_are_written(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text("[1]")
    crawler = crawler_with_feeds(**{str(path): {"format": "json", "overwrite": True}})
    await written(crawler, keep=True, items=1)
    assert json.loads(path.read_text()) == [{"number": 0}]


async def test_a_feed_that_is_sent_away_is_not_replaced_by_an_empty_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = "ftp://me:secret99@127.0.0.1:1/old.json"
    await written(crawler_with_feeds(**{uri: {"format": "json"}}), keep=True)
    assert "the feed ftp://me:***@127.0.0.1:1/old.json stays as it is" in caplog.text
    assert "Error storing" not in caplog.text


def test_a_run_without_feeds_has_none_to_keep() -> None:
    keep_files(project_crawler())


def test_a_feed_that_is_compressed_is_refused_too(tmp_path: Path) -> None:
    # What the compressor has is lost with the process: it cannot be flushed.
    gzip = "scrapy.extensions.postprocessing.GzipPlugin"
    crawler = project_crawler(
        FEEDS={str(tmp_path / "a.gz"): {"format": "jsonlines", "postprocessing": [gzip]}},
        EXTENSIONS={FEED_EXPORTER: 0},
        SINKS="none",
    )
    with pytest.raises(ConfigurationError, match=r"a\.gz is whole only when .*postprocessing"):
        Feeds.from_crawler(crawler)
