"""The table of hostile servers in the docs has each of them, with what it must come to."""

from pathlib import Path

from benchmarks.hostile import report
from benchmarks.hostile.zoo import Row
from demo.hostile import crawl
from demo.hostile.behaviour import STORED
from demo.hostile.zoo import behaviours

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reliability.md"


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each behaviour's row, by its name."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): cells[1:] for cells in lines}


def test_the_docs_have_each_hostile_server_and_its_outcome() -> None:
    found = rows_of(PAGE.read_text(encoding="utf-8"))
    assert list(found) == [each.name for each in behaviours()]
    for each in behaviours():
        does, outcome, *_ = found[each.name]
        assert does == each.does
        assert crawl.is_meant(each, outcome.rstrip(" |")), each.name


def test_there_are_many_and_their_names_are_different() -> None:
    names = [each.name for each in behaviours()]
    assert len(set(names)) == len(names) >= 60


def test_the_figures_of_a_crawl_are_in_its_row() -> None:
    row = Row("gzip-bomb", "too_big", 1.25, 7.6, 140.2)
    found = rows_of(report.table([row]))
    assert found["gzip-bomb"][1:] == ["too_big", "1.2", "8", "140"]
    assert row.is_good
    assert not Row("gzip-bomb", "too_big", 1.0, 101.0, 140.0).is_good
    assert not Row("gzip-bomb", "stored", 1.0, 1.0, 1.0, wrong=["it is stored"]).is_good


def test_only_what_is_written_by_the_command_is_replaced() -> None:
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter"
    new = report.replaced(page, "table", "machine")
    assert new.startswith("before\n")
    assert new.endswith("\nafter")
    assert "old" not in new
    assert "table\n\nmachine" in new


def test_a_page_that_is_read_in_part_is_stored_as_meant() -> None:
    stored, broken = (
        next(each for each in behaviours() if each.outcome == how) for how in (STORED, "malformed")
    )
    assert crawl.is_meant(stored, "stored, cut:text")
    assert not crawl.is_meant(stored, "stored, truncated")
    assert not crawl.is_meant(broken, "malformed, cut:text")
    assert crawl.outcome_of(None) == "waits"
    assert crawl.outcome_of({"reason": "", "flags": ["b", "a"]}) == "stored, a, b"
