"""What is made of the memory of a crawl."""

import pytest

from benchmarks import memory
from benchmarks.measurements.sustained import Sample, Usage
from benchmarks.memory import figures, window_ends


def sample(at_s: float, pages: int, memory_mb: float) -> Sample:
    used = Usage(2 * at_s, memory_mb, 300, 0, 0, 0)
    return Sample(at_s, pages, used, used, used)


@pytest.mark.parametrize("pages", [30_000, 60_000, 100_000, 500_000])
def test_a_window_ends_where_the_growth_begins(pages: int) -> None:
    ends = window_ends(pages)
    assert 20_000 in ends
    assert ends[-1] == pages
    assert 20 <= len(ends) <= 21
    assert len(set(ends)) == len(ends)


def test_the_windows_of_a_short_crawl_are_equal() -> None:
    assert window_ends(6_000) == list(range(300, 6_001, 300))


def test_growth_is_counted_from_the_first_window_beyond_the_start() -> None:
    samples = [
        sample(0, 50, 100),
        sample(10, 10_050, 150),
        sample(20, 20_010, 200),
        sample(30, 30_010, 203),
    ]
    found = {figure.name: figure.value for figure in figures(samples, 210)}
    assert found["memory.window_2.mb"] == found["memory.at_20k_mb"] == 200
    assert (found["memory.growth_mb"], found["memory.peak_mb"]) == (3, 210)
    assert (found["memory.pages"], found["memory.files"]) == (30_010, 300)


def test_a_window_has_its_own_rate_and_cost() -> None:
    samples = [sample(0, 50, 100), sample(10, 1_050, 150), sample(20, 5_050, 200)]
    found = {figure.name: figure.value for figure in figures(samples, 210)}
    assert found["memory.window_1.pages_per_s"] == 100
    assert found["memory.window_2.pages_per_s"] == 400
    assert found["memory.window_2.cpu_ms_per_page"] == 5
    assert found["memory.window_2.pages"] == 5_050


def test_a_short_crawl_has_no_growth() -> None:
    samples = [sample(0, 50, 100), sample(10, 6_000, 150)]
    assert "memory.growth_mb" not in {each.name for each in figures(samples, 160)}


@pytest.mark.parametrize("pages", ["0", "19", "-5", "many"])
def test_a_bad_number_of_pages_is_told_in_one_line(
    pages: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        memory.main([f"--pages={pages}"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
