"""The summary: its words, its JSON, its file."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from crawler.extensions.progress import write_summary
from crawler.monitoring.console.summary import summary_text
from crawler.monitoring.console.view import RunFigures
from crawler.scheduling.lease_pool import BAD_SEEDS, NO_SEEDS
from crawler.storage.storage import SPOOL_LEFT
from tests.unit.monitoring.console.snapshots import EMPTY, SIZES, summary


def test_a_finished_crawl_needs_no_resuming() -> None:
    text = summary_text(summary()).plain
    assert "finished: nothing is left to crawl" in text
    assert "scrapy pages get http://a.test/" in text
    assert "resume" not in text


def test_this_run_and_the_whole_crawl_are_apart() -> None:
    run, crawl = summary_text(summary()).plain.split("The whole crawl, all runs and processes")
    assert "pages crawled     2,066 (66.8 MB read)" in run
    assert "failed            34 (status_404 32, dns 2)" in run
    assert "success           98.4%" in run
    assert "pages stored      1,966\n" in run
    assert "duplicates        30 exact, 4 near" in run
    assert "not kept          66 " in run
    assert "retries           12 (timeout 9, status_503 3)" in run
    assert "pages crawled     7,000" in crawl


def test_without_a_store_nothing_is_said_to_be_stored() -> None:
    text = summary_text(summary(has_store=False)).plain
    assert "pages crawled     2,066 (66.8 MB read)" in text
    assert "pages stored" not in text


def test_pages_that_are_still_spooled_are_told() -> None:
    run = RunFigures.from_stats({"pages/crawled": 9, SPOOL_LEFT: 3}, elapsed_s=1.0)
    found = summary(run=run, spool_at="spool/web", reason="shutdown", sizes=SIZES)
    text = summary_text(found).plain
    assert "still spooled     3 pages in spool/web; the next run on this machine" in text
    assert found.to_json()["this_run"]["spooled"] == 3
    assert found.to_json()["spool_at"] == "spool/web"
    assert "spooled" not in summary_text(summary(spool_at="spool/web")).plain


def test_what_was_visited_again_is_told() -> None:
    stats = {
        "pages/crawled": 4,
        "pages/not_modified": 6,
        "recrawl/unchanged": 7,
        "recrawl/changed": 1,
        "recrawl/unwanted": 5,
    }
    found = RunFigures.from_stats(stats, elapsed_s=1.0)
    text = summary_text(summary(run=found, sizes=replace(EMPTY, recrawls=4, done=14))).plain
    assert "not modified      6\n" in text
    assert "recrawled         8 (unchanged 7, changed 1)" in text
    assert "0 found, 14 visits, 0 given up" in text
    assert "to recrawl        4" in text
    assert "nothing is left to crawl; 4 pages will be visited again by later runs" in text


def test_a_stopped_run_says_how_to_go_on() -> None:
    text = summary_text(summary(reason="shutdown", sizes=SIZES)).plain
    assert "stopped by Ctrl-C or a signal; 1,570 URLs wait" in text
    assert "resume            scrapy crawl web" in text
    assert "1,560 waiting, 3 to retry, 7 in other processes" in text


def test_a_run_that_waits_says_until_when() -> None:
    sizes = replace(EMPTY, retries=1)
    text = summary(reason="waiting", waits_s=3600.0, sizes=sizes).why()
    assert text.startswith("1 URL waits, the earliest until 2024-05-06 08:08:09 (in 1:00:00;")


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (RunFigures(retries={"dns_nxdomain": 2}), "dns_nxdomain: DNS has no address for the host"),
        (RunFigures(failed={"private_address": 1}), "ALLOW_NETWORKS lets"),
        (RunFigures(retries={"malformed": 2}), "malformed: the answer of the host is not HTTP"),
        (RunFigures(retries={"status_503": 1}), "status_503\n"),
        (RunFigures(failed={"status_404": 3}, retries={"timeout": 2}), "status_404\n"),
        (RunFigures(robots_denied=1), "robots.txt denies it"),
    ],
)
def test_a_run_without_a_page_says_why(run: RunFigures, text: str) -> None:
    plain = summary_text(summary(reason="waiting", waits_s=66.0, run=run)).plain
    assert text in plain.partition("no page, because  ")[2]


@pytest.mark.parametrize(
    "run", [RunFigures(), RunFigures(not_modified=1), RunFigures(pages=1, retries={"timeout": 1})]
)
def test_a_run_that_read_something_needs_no_such_reason(run: RunFigures) -> None:
    assert "no page" not in summary_text(summary(run=run)).plain


def test_items_of_other_spiders_have_a_line_of_their_own() -> None:
    run = RunFigures(items=2_759, robots_denied=62)
    text = summary_text(summary(run=run)).plain
    assert "items scraped     2,759" in text
    assert "no page" not in text
    assert "items" not in summary_text(summary()).plain
    assert not summary(run=RunFigures(items=1)).nothing_to_do


def test_seeds_that_others_pushed_are_told() -> None:
    found = summary(run=RunFigures(seeds_added=3, seeds_pushed=2))
    assert "seeds pushed      2\n" in summary_text(found).plain
    assert not found.nothing_to_do
    assert found.to_json()["this_run"]["seeds_pushed"] == 2
    assert "pushed" not in summary_text(summary()).plain


def test_a_run_that_read_a_sitemap_had_something_to_do() -> None:
    assert not summary(run=RunFigures(sitemaps_added=1)).nothing_to_do


@pytest.mark.parametrize("reason", [NO_SEEDS, BAD_SEEDS])
def test_who_has_no_seeds_is_told_so_and_not_to_do_the_same_again(reason: str) -> None:
    found = summary(reason=reason, sizes=EMPTY)
    assert "seeds" in found.why()
    assert "resume" not in summary_text(found).plain


def test_max_pages_says_what_is_left() -> None:
    why = summary(reason="max_pages", sizes=SIZES).why()
    assert "max_pages allows; 1,570 URLs wait" in why
    assert "-a max_pages=N raises the limit" in why


def test_a_run_with_nothing_to_do_says_so() -> None:
    found = summary(run=RunFigures(elapsed_s=1.0, seeds_known=1))
    assert found.nothing_to_do
    assert found.why() == (
        "nothing left to crawl: 1 seed is known, 7,000 pages crawled; "
        "`scrapy frontier delete` forgets"
    )
    assert "This run" not in summary_text(found).plain


def test_a_first_run_that_only_met_a_denial_had_something_to_do() -> None:
    run = RunFigures(robots_denied=1)
    assert not summary(run=run).nothing_to_do


def test_a_summary_without_redis_still_says_what_this_run_did() -> None:
    found = summary(sizes=None)
    assert not found.finished
    assert "pages stored" in summary_text(found).plain
    assert found.to_json()["whole_crawl"] is None


def test_markup_in_a_url_is_left_alone() -> None:
    commands = replace(summary().commands, look="scrapy pages get 'http://a.test/?[b]=1'")
    assert "'http://a.test/?[b]=1'" in summary_text(summary(commands=commands)).plain


def test_the_file_is_json_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "summary.json"
    write_summary(path, summary(reason="shutdown", sizes=SIZES))
    write_summary(path, summary())
    read = json.loads(path.read_text(encoding="utf-8"))
    assert read["finished"] is True
    assert (read["this_run"]["pages"], read["this_run"]["stored"]) == (2_066, 1_966)
    assert read["this_run"]["success_rate"] == pytest.approx(2_066 / 2_100)
    assert read["this_run"]["retries"] == {"timeout": 9, "status_503": 3}
    assert read["whole_crawl"]["pages"] == 7_000
    assert [file.name for file in path.parent.iterdir()] == ["summary.json"]


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.ERROR):
        write_summary(tmp_path / "file" / "summary.json", summary())
    assert "SUMMARY_FILE" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_focused_crawl_says_how_much_of_it_is_on_topic() -> None:
    stats = {"topic/on": 30, "topic/off": 60, "topic/unknown": 10, "pages/crawled": 100}
    text = summary_text(summary(run=RunFigures.from_stats(stats))).plain
    assert "30 of 100 pages (30.0%)" in text
    assert "on topic" not in summary_text(summary()).plain


def test_a_crawl_with_browsers_says_what_they_rendered() -> None:
    stats = {"render/pages": 1200, "render/put_off": 7}
    more = {"pages": 1300, "elapsed_s": 9.0}
    for run in (
        RunFigures.from_stats(stats | {"pages/crawled": 1300}, elapsed_s=9.0),
        RunFigures.from_figures(stats, **more),
    ):
        assert "rendered          1,200 (7 put off)\n" in summary_text(summary(run=run)).plain
    assert "rendered" not in summary_text(summary()).plain
