"""What is made of crawls that render pages, and of the crawls of ordinary pages beside them."""

from pathlib import Path

import pytest

from benchmarks.beside import Run as BesideRun
from benchmarks.beside import _Log, rates
from benchmarks.figures import Figure
from benchmarks.render.__main__ import beside_figures, needs_no_browser, page_figures
from benchmarks.render.crawls import ALL, OURS, PEERS, PLAIN, Run
from demo.access_log import Entry, format_entry
from demo.robots_kinds import ALLOW_ALL
from demo.web import Web, WebOptions


def beside(pages: int, per_s: float, mb: float = 150.0) -> BesideRun:
    return BesideRun([number / per_s for number in range(pages + 1)], mb, 30.0)


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures}


def test_rates_are_of_the_pages_that_every_crawl_fetched() -> None:
    # One that slows down where others have ended already is not compared there.
    slow_end = BesideRun([*(n / 10 for n in range(81)), 100.0, 200.0], 150.0, 30.0)
    found = rates({"never": [beside(100, 10)], "auto": [slow_end]})
    assert found == pytest.approx({"never": 10.0, "auto": 10.0})


@pytest.mark.parametrize(("per_s", "is_met"), [(9.1, True), (8.9, False)])
def test_the_rate_that_is_kept_is_that_of_medians(per_s: float, is_met: bool) -> None:
    never = [beside(100, rate) for rate in (1, 10, 100)]
    auto = [beside(100, rate, mb) for rate, mb in ((2, 150), (per_s, 160), (50, 155))]
    found = by_name(list(beside_figures({"never": never, "auto": auto})))
    assert found["render.plain_kept"].value == pytest.approx(per_s / 10)
    assert found["render.plain_kept"].met is is_met
    assert found["render.beside.auto_mb"].value == 160


def run(cpu_s: float, mb: float = 100.0) -> Run:
    return Run(pages=10, took_s=5.0, cpu_s={"crawler": cpu_s}, crawler_mb=mb)


@pytest.mark.parametrize(("mb", "is_met"), [(115.0, True), (125.0, False)])
def test_pages_are_compared_by_their_cpu_time(mb: float, is_met: bool) -> None:
    runs = {each.key: [run(2.0), run(9.0), run(1.0)] for each in ALL}
    runs[OURS.key] = [run(0.5, mb), run(1.0, mb), run(7.0, mb)]
    runs[PLAIN.key] = [run(0.1, 100.0)]
    found = by_name(list(page_figures(runs)))
    assert found[f"render.{OURS.key}.cpu_ms_per_page"].value == 100
    assert found["render.pages_per_cpu_s"].value == 10
    for peer in PEERS:
        assert found[f"render.ratio_to_{peer.key}"].value == 2.0
    assert found["render.crawler_mb_more"].met is is_met


def test_only_pages_of_hosts_that_need_no_browser_are_counted(tmp_path: Path) -> None:
    web = Web(WebOptions(hosts=40, pages=4, zoo="browser"))
    counted = [number for number in range(40) if needs_no_browser(web.profile(number))]
    others = [number for number in range(40) if number not in counted]
    assert counted
    assert others
    assert all(web.profile(number).robots == ALLOW_ALL for number in counted)
    log = tmp_path / "access.log"
    lines = [
        (counted[0], "/p/1", 200),
        (others[0], "/p/1", 200),
        (counted[0], "/robots.txt", 200),
        (counted[0], "/static/app.js", 200),
        (counted[0], "/p/2", 503),
    ]
    entries = (Entry(1.0, 1.5, f"s{host}.test", path, status) for host, path, status in lines)
    log.write_text("".join(map(format_entry, entries)))
    assert list(_Log(log, web, needs_no_browser).ends()) == [1.5]
