"""What is made of the memory of a crawl."""

import os

from benchmarks.measurements.sustained import Sample, Usage
from benchmarks.memory import figures, peak_mb


def sample(pages: int, memory_mb: float) -> Sample:
    used = Usage(0.0, memory_mb, 300, 0, 0, 0)
    return Sample(0.0, pages, used, used, used)


def test_growth_is_counted_from_the_first_window_beyond_the_start() -> None:
    samples = [sample(10_050, 150), sample(20_010, 200), sample(30_000, 203)]
    found = {figure.name: figure.value for figure in figures(samples, 210)}
    assert found["memory.window_2.mb"] == found["memory.at_20k_mb"] == 200
    assert (found["memory.growth_mb"], found["memory.peak_mb"]) == (3, 210)
    assert (found["memory.pages"], found["memory.files"]) == (30_000, 300)


def test_a_short_crawl_has_no_growth() -> None:
    assert "memory.growth_mb" not in {each.name for each in figures([sample(6_000, 150)], 160)}


def test_the_peak_is_no_less_than_what_was_seen_on_other_systems() -> None:
    samples = [sample(1000, 150), sample(2000, 140)]
    assert peak_mb(-1, samples) == 150
    assert peak_mb(os.getpid(), samples) > 10
