"""The tables of docs/measurements.md."""

import re

import pytest

from benchmarks.measurements.__main__ import DOCS, PARTS, RESULTS
from benchmarks.measurements.page import render
from benchmarks.measurements.results import read
from tests.unit.benchmarks.measurements.samples import part, sample_results

PAGE = (DOCS / "measurements.md").read_text(encoding="utf-8")
TABLES = re.findall(r"<!-- measured: (\w+) -->", PAGE)


def block(name: str) -> str:
    return f"<!-- measured: {name} -->\n<!-- end -->"


def rendered(name: str) -> str:
    return render(block(name), sample_results())


def test_only_what_is_between_marks_is_replaced() -> None:
    text = f"Before.\n\n{block('seen')}\n\nBetween.\n\n{block('latency')}\n\nAfter.\n"
    page = render(text, sample_results())
    assert (
        re.sub(r"(<!-- measured: \w+ -->\n).*?(<!-- end)", r"\1\2", page, flags=re.DOTALL) == text
    )
    assert page.count("| --- |") == 2


def test_a_rendered_page_is_rendered_again() -> None:
    results = sample_results()
    once = render(PAGE, results)
    assert render(once, results) == once


def test_a_table_without_results_stays_as_it_is() -> None:
    text = "<!-- measured: seen -->\nOlder.\n<!-- end -->"
    assert render(text, {}) == text


def test_an_unknown_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table 'sene'"):
        rendered("sene")


@pytest.mark.parametrize("name", TABLES)
def test_all_rows_of_a_table_have_as_many_cells(name: str) -> None:
    rows = [line for line in rendered(name).splitlines() if line.startswith("|")]
    assert len(rows) >= 3
    assert len({row.count("|") for row in rows}) == 1


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("summary", "| pages per second with 7 workers | 0.6 | 350 |"),
        ("summary", "| … with `URL_SEEN=bloom` | 97% | 98.0% |"),
        ("summary", "| MongoDB: insert of a page | 84 ms | 1.5 ms |"),
        ("machine", "| `seen` | 2026-11-18 | `0000000` | 0.5 | 60 s |"),
        ("scaling", "| 7 | 350 | 7.0 | 1.50 | 0.25 | 4.8 |"),
        ("seen", "| 10,000,000 | 900 | 45 | 4.5 | 95.0% |"),
        ("sustained", "| 30–60 | 1000 | 200% | 2.00 | 0.40 | 0.20 | 480 | 600 |"),
        ("resources", "| crawler | 3.25 | 3 | 3.25 | | 3.25 |"),
        ("resources", "| mongod | 3.25 | 3 | 3.25 | 3.25 | 3.25 |"),
        ("memory", "| 100,000 | 202 | 300 | 250 | 1.75 |"),
        ("latency", "| insert of one page, `j: true` | 1.5 | 2.5 | 84 |"),
        ("latency", "| find by the index | 1.5 | | 0.91 |"),
        ("compression", "| zstd, level 3 | 0.87 | 200 | 0.1 | 5.12 |"),
        ("compression", "| zstd, as stored | 0.87 | 200 | 0.1 | 5.12 |"),
        ("delayed", "| 300,000 | 3 | 6 | 3 | 6 |"),
    ],
)
def test_a_row_shows_its_figures(table: str, row: str) -> None:
    assert row in rendered(table).splitlines()


def test_a_quick_part_is_called_so() -> None:
    results = sample_results()
    object.__setattr__(results["seen"], "quick", True)
    assert "| `seen` (quick) |" in render(block("machine"), results)


def test_a_part_that_was_measured_with_changed_files_is_marked() -> None:
    results = sample_results()
    object.__setattr__(results["seen"], "commit", "1234567-dirty")
    rows = render(block("machine"), results).splitlines()
    assert "| `seen` | 2026-11-18 | `1234567`, **with changes** | 0.5 | 60 s |" in rows


def test_the_conditions_of_the_workers_are_those_that_were_measured() -> None:
    text = rendered("scaling")
    assert "2,000 hosts; an answer takes 1 s on average, a host wants 0.5 s between" in text
    assert "a worker has 8 fetches at a time: at most 8 pages/s." in text


def test_older_results_of_workers_have_a_table_too() -> None:
    newer = sample_results()["scaling"]
    older = part(
        "scaling",
        {
            name: figure.value
            for name, figure in newer.figures.items()
            if name.startswith("scaling.workers_") and "calls" not in name
        },
    )
    assert "| 7 | 350 | 7.0 | 1.50 | 0.25 | |" in render(block("scaling"), {"scaling": older})


def test_the_summary_leaves_out_what_a_quick_run_does_not_measure() -> None:
    quick = part("scaling", {"scaling.workers_8.pages_per_s": 100.0})
    assert "workers" not in render(block("summary"), sample_results() | {"scaling": quick})
    seen = {"url_seen.mb_at_1m": 5.0, "url_seen.bloom_mb_up_to_10m": 18}
    summary = render(block("summary"), {"seen": part("seen", seen, dict.fromkeys(seen, 0.05))})
    assert "1,000,000 URLs" in summary
    assert "bloom" not in summary


def test_a_crawl_that_is_too_short_has_no_growth() -> None:
    memory = sample_results()["memory"]
    assert "Growth from 20,000 to 100,000 pages: 1 MB." in rendered("memory")
    del memory.figures["memory.growth_mb"]  # type: ignore[attr-defined]
    assert "Growth" not in render(block("memory"), {"memory": memory})


def test_the_page_shows_every_part_and_the_summary() -> None:
    assert set(TABLES) == {"summary", "machine", "resources", *PARTS}


def test_links_of_the_page_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert {"measurements/results.jsonl", "performance.md"} <= set(targets)
    assert [target for target in targets if not (DOCS / target).exists()] == []


def test_the_page_is_that_of_its_results() -> None:
    assert render(PAGE, read(RESULTS)) == PAGE
