"""What a soak makes of its rows: lines, a verdict that can fail, a section of the docs."""

import csv
from collections.abc import Callable
from dataclasses import astuple, fields
from pathlib import Path

import pytest

from benchmarks.measurements import soak
from benchmarks.measurements.soak import Row, findings, main, read, rise
from crawler.errors import CrawlerError

# Minutes at which it was looked.
LOOKS = range(61)


def row(minute: int, **more: float) -> Row:
    """A row of a crawl whose frontier grows, and nothing else."""
    values: dict[str, float] = {
        "at_s": 60.0 * minute,
        "processes": 2,
        "pages": 1000 * minute,
        "known": 20_000 * minute,
        "waiting": 19_000 * minute,
        "recrawls": 900 * minute,
        "hosts": min(300 * minute, 5000),
        "process_mb": 300.0 + min(minute, 10) * 5 + minute % 3,
        "files": 200 + minute % 5 * 8,
        "tasks": 150 + minute % 4 * 20,
        "lag_ms": 10.0,
        "redis_mb": 5.0 + 1.5 * minute,
        "redis_rss_mb": 20.0,
        "mongo_mb": 8.0 * minute,
        "mongo_rss_mb": 400.0,
    }
    return Row(**{**values, **more})  # type: ignore[arg-type]


def rows(**grows: Callable[[int], float]) -> list[Row]:
    return [row(m, **{name: of(m) for name, of in grows.items()}) for m in LOOKS]


def bad(found: list[Row]) -> list[str]:
    return [each.name for each in findings(found) if not each.is_fine]


def test_a_crawl_whose_frontier_alone_grows_is_fine() -> None:
    assert bad(rows()) == []


def test_a_line_is_fitted() -> None:
    assert rise([0, 10, 20, 30], [1, 2, 3, 4]) == pytest.approx((1, 3))
    assert rise([5, 15, 25], [7, 7, 7]) == pytest.approx((7, 0))


@pytest.mark.parametrize(
    ("name", "of", "found"),
    [
        ("process_mb", lambda m: 300.0 + m, "memory of the processes"),
        ("files", lambda m: 200 + 4 * m, "open files of the processes"),
        ("tasks", lambda m: 100 + 6 * m, "tasks of the event loops"),
        ("redis_mb", lambda m: 5.0 + 5 * m, "memory of Redis beyond its URLs, pages and hosts"),
        ("mongo_mb", lambda m: 8.0 * m + 0.1 * m * m, "MongoDB a page"),
    ],
)
def test_what_grows_is_found(name: str, of: Callable[[int], float], found: str) -> None:
    assert bad(rows(**{name: of})) == [found]


def test_what_grows_in_the_first_quarter_only_is_fine() -> None:
    assert bad(rows(process_mb=lambda m: 300.0 + 20 * min(m, 15))) == []


def test_too_few_rows_and_a_crawl_that_stands_still_give_no_verdict() -> None:
    with pytest.raises(CrawlerError, match="4 rows are too few for a verdict, 8 are needed"):
        findings(rows()[:5])
    with pytest.raises(CrawlerError, match="No page was stored"):
        findings(rows(pages=lambda m: 7))


def test_the_docs_get_the_verdict_and_a_plot(tmp_path: Path) -> None:
    with (tmp_path / "soak.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(map(astuple, rows(tasks=lambda m: 100 + 6 * m)))
    assert read(tmp_path / "soak.csv") == rows(tasks=lambda m: 100 + 6 * m)
    page = tmp_path / "page.md"
    page.write_text("# T\n<!-- soak: begin -->\nold\n<!-- soak: end -->\nrest\n")
    assert main(["render", "--out", str(tmp_path), "--page", str(page)]) == 0
    text = page.read_text()
    assert "| tasks of the event loops | 190.0 | +270.0 | 200.0 | **grows** |" in text
    assert "60 minutes, 2 processes, 60,000 pages (16.7 a second), 1,200,000 URLs known" in text
    assert text.endswith("<!-- soak: end -->\nrest\n")
    assert "old" not in text
    assert (tmp_path / "soak.svg").read_text().startswith("<?xml")
    assert soak.table(findings(rows())).count("| flat |") == 5
