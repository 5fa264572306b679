"""What every build prints and keeps about the cost of a page. Nothing is measured here."""

import json
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.crawl.guard import keep, line, record
from benchmarks.figures import Figure

VALUES = {"cpu_ms_per_page": 1.204567, "scrapy.cpu_ms_per_page": 12.4, "ratio_to_scrapy": 10.29}
FIGURES = {
    f"crawl.usual.{name}": Figure(f"crawl.usual.{name}", value, "")
    for name, value in VALUES.items()
}
NOW = datetime(2026, 11, 18, tzinfo=UTC)


def test_the_line_tells_the_cost_and_the_ratio() -> None:
    assert line(FIGURES) == (
        "usual: 1.20 ms of CPU a page, plain Scrapy 12.4 ms: "
        "10.3 times as many pages per CPU-second"
    )


def test_a_commit_has_one_line_with_date_machine_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    for commit in ("aaa", "bbb", "aaa"):
        keep(record(FIGURES, commit, NOW), path)
    kept = [json.loads(each) for each in path.read_text().splitlines()]
    assert [each["commit"] for each in kept] == ["bbb", "aaa"]
    assert kept[0]["date"] == "2026-11-18"
    assert "cores" in kept[0]["machine"]
    assert kept[0]["figures"]["crawl.usual.cpu_ms_per_page"] == 1.205
