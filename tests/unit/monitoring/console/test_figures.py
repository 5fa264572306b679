"""Figures from Scrapy's stats."""

import pytest

from crawler.monitoring.console.figures import process_figures

STATS = {
    "pages/crawled": 15,
    "pages/not_modified": 2,
    "failed/dns": 1,
    "failed/status_404": 2,
    "store/pages": 10,
    "store/not_kept": 2,
    "store/bytes": 1_000,
    "item_scraped_count": 20,
    "duplicates/exact": 2,
    "duplicates/near": 1,
    "robots/denied": 4,
    "retry/timeout": 1,
    "retry/status_503": 5,
    "dead/dns": 1,
    "log_count/ERROR": 3,
    "downloader/response_bytes": 9_999,
}


def test_figures_come_from_the_stats() -> None:
    process = process_figures(STATS, elapsed_s=5.0)
    assert (process.pages, process.stored, process.not_kept) == (15, 10, 2)
    assert (process.robots_denied, process.errors, process.size_bytes) == (4, 3, 1_000)
    assert process.average_s == 3.0


def test_the_success_rate_is_the_share_of_visits_that_found_their_page() -> None:
    process = process_figures(STATS, elapsed_s=5.0)
    assert (process.not_modified, process.visits) == (2, 20)
    assert process.success == pytest.approx(17 / 20)
    assert process_figures({"failed/status_404": 5}, elapsed_s=1.0).success == 0.0


def test_reasons_are_in_order_of_their_number() -> None:
    process = process_figures(STATS, elapsed_s=5.0)
    assert list(process.retries.items()) == [("status_503", 5), ("timeout", 1)]
    assert list(process.failed.items()) == [("status_404", 2), ("dns", 1)]
    assert process.dead == {"dns": 1}


def test_items_of_other_spiders_are_no_pages() -> None:
    # They may give several items a page, or none.
    stats = {"pages/crawled": 4, "item_scraped_count": 8}
    process = process_figures(stats, elapsed_s=2.0, items=8)
    assert (process.pages, process.items, process.average_s) == (4, 8, 2.0)


def test_before_the_first_page_all_is_zero() -> None:
    process = process_figures({}, elapsed_s=0.0)
    assert (process.pages, process.average_s, process.success) == (0, 0.0, None)
