"""What is made of the samples of a crawl."""

import shutil

import pytest

from benchmarks.measurements.sustained import (
    Sample,
    Usage,
    figures,
    require_free_disk,
)
from crawler.errors import CrawlerError


def sample(at_s: float, pages: int, cpu_s: float) -> Sample:
    used = Usage(cpu_s, 200.0, 300, round(cpu_s * 1e6), round(cpu_s * 2e6))
    return Sample(at_s, pages, used, used, used)


def test_windows_and_the_whole_crawl_have_their_figures() -> None:
    samples = [sample(10, 100, 1), sample(20, 1_100, 6), sample(30, 3_100, 16)]
    found = {figure.name: figure.value for figure in figures(samples, window_s=10)}
    assert found["sustained.window_1.pages_per_s"] == 100
    assert found["sustained.window_2.pages_per_s"] == 200
    assert found["sustained.window_1.cpu"] == pytest.approx(0.5)
    assert found["sustained.window_2.mongo_cpu"] == pytest.approx(1.0)
    assert found["sustained.window_2.files"] == 300
    assert (found["sustained.pages"], found["sustained.seconds"]) == (3_000, 20)
    assert found["sustained.crawler.cpu_ms_per_page"] == pytest.approx(5)
    assert found["sustained.redis.received_kb_per_page"] == pytest.approx(10)
    assert found["sustained.redis.written_kb_per_page"] == pytest.approx(5)
    assert "sustained.crawler.sent_kb_per_page" not in found


def test_a_disk_without_room_for_the_pages_is_told_before(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil._ntuple_diskusage(10, 5, 3_000_000_000)  # type: ignore[attr-defined]
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)
    require_free_disk(2.5)
    with pytest.raises(CrawlerError, match=r"has 3 GB free, and the pages may take 20: set TMPDIR"):
        require_free_disk(20)


def crawled(cpu_s: list[float], memory_mb: list[float], files: list[int]) -> list[Sample]:
    """Samples of a crawl with 1,000 pages a window."""
    found = []
    for number, (cpu, memory, opened) in enumerate(zip(cpu_s, memory_mb, files, strict=True)):
        used = Usage(cpu, memory, opened, 0, 0)
        found.append(Sample(10 * number, 1_000 * number, used, used, used))
    return found


def test_a_steady_crawl_meets_its_targets() -> None:
    steady = crawled([*range(7)], [100, 150, 200, 203, 200, 204, 203], [50, *[300, 360] * 3])
    found = {figure.name: figure for figure in figures(steady, window_s=10)}
    assert found["sustained.cpu_growth"].value == 1
    assert found["sustained.memory_growth_mb"].value == 3
    assert found["sustained.files_growth"].value == 0
    for name in ("cpu_growth", "memory_growth_mb", "files_growth"):
        assert found[f"sustained.{name}"].met


def test_a_crawl_that_grows_misses_them() -> None:
    growing = crawled(
        [0, 1, 2, 3, 4.5, 6, 7.5], [100, 150, 200, 220, 240, 260, 280], [*range(0, 700, 100)]
    )
    found = {figure.name: figure for figure in figures(growing, window_s=10)}
    assert found["sustained.cpu_growth"].value == pytest.approx(1.5)
    assert found["sustained.memory_growth_mb"].value == 80
    assert found["sustained.files_growth"].value == 400
    for name in ("cpu_growth", "memory_growth_mb", "files_growth"):
        assert found[f"sustained.{name}"].met is False


def test_the_time_of_redis_is_judged_in_a_busy_crawl() -> None:
    found = {each.name: each for each in figures([sample(0, 0, 0), sample(1, 1000, 0.4)], 1)}
    assert found["sustained.redis.cpu_ms_per_page"].met is False
    assert found["sustained.crawler.cpu_ms_per_page"].met is None
    assert "sustained.cpu_growth" not in found
