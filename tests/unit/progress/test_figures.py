"""Figures from Scrapy's stats, and the recent rate."""

from crawler.progress.figures import RecentRate, process_figures

STATS = {
    "store/pages": 10,
    "store/records": 15,
    "store/bytes": 1_000,
    "item_scraped_count": 15,
    "duplicates/exact": 2,
    "duplicates/near": 1,
    "robots/denied": 4,
    "retry/timeout": 1,
    "retry/status_503": 5,
    "dead/dns": 2,
    "log_count/ERROR": 3,
    "downloader/response_bytes": 9_999,
}


def test_figures_come_from_the_stats() -> None:
    process = process_figures(STATS, elapsed_s=5.0)
    assert (process.pages, process.duplicates, process.not_kept) == (10, 3, 2)
    assert (process.robots_denied, process.errors, process.size_bytes) == (4, 3, 1_000)
    assert process.average_s == 2.0


def test_reasons_are_in_order_of_their_number() -> None:
    process = process_figures(STATS, elapsed_s=5.0)
    assert list(process.retries.items()) == [("status_503", 5), ("timeout", 1)]
    assert process.dead == {"dns": 2}


def test_without_a_store_of_ours_items_count() -> None:
    process = process_figures({"item_scraped_count": 8}, elapsed_s=1.0)
    assert process.pages == 8
    assert process.not_kept == 0


def test_items_of_other_spiders_are_no_pages() -> None:
    # A URL that robots.txt denies is recorded, whatever the spider makes of the others.
    stats = {"item_scraped_count": 8, "store/records": 1, "robots/denied": 1}
    process = process_figures(stats, elapsed_s=2.0, items=8)
    assert (process.pages, process.items, process.average_s) == (0, 8, 4.0)
    process = process_figures({"item_scraped_count": 8}, elapsed_s=2.0, items=8)
    assert (process.pages, process.items, process.not_kept) == (0, 8, 0)


def test_before_the_first_page_all_is_zero() -> None:
    process = process_figures({}, elapsed_s=0.0)
    assert (process.pages, process.average_s) == (0, 0.0)


def test_the_recent_rate_forgets_what_was_long_ago() -> None:
    rate = RecentRate()
    assert rate.add(0.0, 0) is None
    assert rate.add(1.0, 100) == 100.0
    for second in range(2, 30):
        last = rate.add(float(second), 100)
    assert last == 0.0


def test_the_recent_rate_survives_a_pause_between_readings() -> None:
    rate = RecentRate()
    rate.add(0.0, 0)
    assert rate.add(100.0, 500) == 5.0
