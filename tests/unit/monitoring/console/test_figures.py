"""Figures of a run, from Scrapy's stats or from those of a fleet."""

import pytest

from crawler.monitoring.console.view import RunFigures

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
    run = RunFigures.from_stats(STATS, elapsed_s=5.0)
    assert (run.pages, run.stored, run.not_kept) == (15, 10, 2)
    assert (run.robots_denied, run.errors, run.size_bytes) == (4, 3, 1_000)
    assert run.average_s == 3.0


def test_the_success_rate_is_the_share_of_visits_that_found_their_page() -> None:
    run = RunFigures.from_stats(STATS, elapsed_s=5.0)
    assert (run.not_modified, run.visits) == (2, 20)
    assert run.success == pytest.approx(17 / 20)
    assert RunFigures.from_stats({"failed/status_404": 5}, elapsed_s=1.0).success == 0.0


def test_reasons_are_in_order_of_their_number() -> None:
    run = RunFigures.from_stats(STATS, elapsed_s=5.0)
    assert list(run.retries.items()) == [("status_503", 5), ("timeout", 1)]
    assert list(run.failed.items()) == [("status_404", 2), ("dns", 1)]
    assert run.dead == {"dns": 1}


def test_items_of_other_spiders_are_no_pages() -> None:
    # They may give several items a page, or none.
    stats = {"pages/crawled": 4, "item_scraped_count": 8}
    run = RunFigures.from_stats(stats, elapsed_s=2.0, items=8)
    assert (run.pages, run.items, run.average_s) == (4, 8, 2.0)


def test_before_the_first_page_all_is_zero() -> None:
    run = RunFigures.from_stats({}, elapsed_s=0.0)
    assert (run.pages, run.average_s, run.success) == (0, 0.0, None)


def test_a_fleet_has_the_figures_that_its_processes_added() -> None:
    figures = {"failed/dns": 2, "retries/timeout": 3, "robots/denied": 4, "bytes": 500}
    run = RunFigures.from_figures(figures, pages=6, elapsed_s=3.0)
    assert (run.pages, run.failed, run.retries) == (6, {"dns": 2}, {"timeout": 3})
    assert (run.robots_denied, run.size_bytes, run.success) == (4, 500, 0.75)
    assert (run.in_flight, run.not_kept) == (None, None)
