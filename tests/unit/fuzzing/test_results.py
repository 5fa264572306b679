"""The table of what the fuzzer did."""

from pathlib import Path

import pytest

from fuzzing.results import Result, keep, read, render, table


def result(target: str, executions: int, **more: int) -> Result:
    counts = {"failures": 0, "hangs": 0} | more
    return Result(target, "2026-11-19", "abc", executions, executions // 2, 60.0, **counts)


def test_runs_are_kept_and_added_up(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    assert read(path) == []
    for each in (result("url", 1000), result("url", 500, failures=1), result("page", 7, hangs=2)):
        keep(each, path)
    lines = table(read(path), ["url", "page"]).splitlines()
    assert lines[2].startswith("| `url` | 1,500 | 750 | 2 | 1 | 0 | ")
    assert lines[3].startswith("| `page` | 7 | 3 | 1 | 0 | 2 | ")
    assert lines[4].startswith("| **all** | 1,507 | 753 | 3 | 1 | 2 | ")
    assert lines[-1] == "Measured 2026-11-19, commits abc."


def test_a_table_takes_the_place_of_the_one_before() -> None:
    page = "# T\n<!-- fuzzing: begin -->\nold\n<!-- fuzzing: end -->\nrest\n"
    made = render(page, "new")
    assert made == "# T\n<!-- fuzzing: begin -->\nnew\n<!-- fuzzing: end -->\nrest\n"
    assert render(made, "new") == made


def test_a_page_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(ValueError, match="put it and"):
        render("# T\n", "new")
