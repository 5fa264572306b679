"""The vital figures of a minute in one line."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from crawler.extensions import monitoring as extension
from crawler.frontier import Sizes
from crawler.monitoring.figures import grown
from crawler.monitoring.histogram import FETCH_S, Histogram
from crawler.monitoring.logs import FIGURES
from crawler.monitoring.process_stats import ProcessStats
from crawler.monitoring.report import minute_figures, minute_line
from crawler.monitoring.sinks import SinksState, sinks_state
from tests.support.schedulers import WritingScheduler, crawler_with


def sizes() -> Sizes:
    numbers = {name: number for number, name in enumerate(Sizes.__dataclass_fields__) if number}
    return Sizes((1, 2, 3, 4, 5), **numbers)


def test_a_minute_is_what_was_counted_in_it() -> None:
    assert grown({"pages": 5, "bytes": 9}, {"pages": 8, "bytes": 9, "failed/dns": 1}) == {
        "pages": 3,
        "failed/dns": 1,
    }


def test_the_line_has_the_vital_figures() -> None:
    histogram = Histogram(FETCH_S)
    for _ in range(10):
        histogram.observe(0.1)
    counted = {
        "pages": 120,
        "not_modified": 10,
        "failed/status_404": 70,
        "items": 200,
        "bytes": 3_400_000,
        "links/new": 1,
        "retries/timeout": 4,
        "robots/denied": 2,
        **histogram.figures("fetch"),
    }
    figures = minute_figures(counted, 60.0, held=7, store="away", sinks=SinksState(), sizes=sizes())
    line = minute_line(figures)
    assert line.startswith(
        "last 60 s: 120 pages (2.0/s), success 65.0%, failed 70 (status_404 70), "
    )
    assert "200 items, 3.4 MB, 1 new link, 0 duplicates, 2 denied by robots.txt" in line
    assert "retries 4 (timeout 4)" in line
    assert "fetches p50 " in line
    assert "store away" in line
    assert "; whole crawl: " in line
    assert figures["fetch_ms"]["p95"] <= 100


def test_without_redis_and_without_fetches_there_is_a_line_too() -> None:
    figures = minute_figures({}, 60.0, held=0, store="off", sinks=SinksState(), sizes=None)
    line = minute_line(figures)
    assert line.startswith("last 60 s: 0 pages (0.0/s), success –, failed 0, 0 items, 0 B")
    assert "crawl" not in line
    assert "store" not in line


def test_what_is_away_or_spooled_is_told_only_then() -> None:
    sinks = sinks_state([{"sinks": [{"name": "mongo", "state": "away"}], "spooled_pages": 2}], {})
    figures = minute_figures({}, 60.0, held=0, store="spooling", sinks=sinks, sizes=None)
    assert "store spooling (mongo away, 2 pages spooled, 0 B)" in minute_line(figures)
    assert figures["outage"] == "mongo away, 2 pages spooled, 0 B"
    sinks = sinks_state([{"sinks": [{"name": "mongo", "state": "ok"}]}], {})
    figures = minute_figures({}, 60.0, held=0, store="ok", sinks=sinks, sizes=None)
    assert "store" not in minute_line(figures)
    assert "outage" not in figures


async def test_the_log_gets_one_line_an_interval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(extension, "_LINE_S", 0.01)
    scheduler: Any = WritingScheduler()
    scheduler.leases = SimpleNamespace(held=3)

    async def read() -> Sizes:
        return sizes()

    scheduler.frontier = SimpleNamespace(sizes=read)
    crawler = crawler_with(scheduler)
    assert crawler.stats is not None
    task = asyncio.create_task(extension.Monitoring(crawler)._log_forever())
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(60):
            while len(caplog.records) < 2:
                crawler.stats.inc_value("pages/crawled")
                await asyncio.sleep(0.002)
    task.cancel()
    assert ProcessStats.of(crawler).figures()["pages"] > 0
    figures = getattr(caplog.records[0], FIGURES)
    assert figures["held"] == 3
    assert figures["pages"] > 0
    assert caplog.records[0].getMessage().startswith("last 0 s: ")
