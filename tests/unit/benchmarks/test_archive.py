"""What the benchmark of archives makes of its measurements."""

from pathlib import Path

import pytest

from benchmarks.archive import Run, contender, figures, measure_records, sample, sizes
from benchmarks.crawl.contenders import OURS
from benchmarks.crawl.pages import Size
from crawler.errors import CrawlerError
from crawler.storage.warc.files import WarcFiles
from crawler.storage.warc.records import RecordMaker


def test_costs_are_medians_of_differences_within_a_round() -> None:
    rounds = [
        [Run("", 1.0), Run("gzip", 1.3, 50, 100), Run("zstd", 1.2, 60, 100)],
        # In another order, on a machine that was slower.
        [Run("gzip", 9.3, 50, 100), Run("zstd", 9.2, 60, 100), Run("", 9.0)],
        [Run("zstd", 8.0, 60, 100), Run("", 2.0), Run("gzip", 2.9, 70, 100)],
    ]
    found = {figure.name: figure for figure in figures(rounds)}
    assert found["archive.cpu_ms_per_page"].value == pytest.approx(0.3)
    assert found["archive.zstd.cpu_ms_per_page"].value == pytest.approx(0.2)
    assert found["archive.without.cpu_ms_per_page"].value == pytest.approx(2)
    assert found["archive.bytes_ratio"].value == pytest.approx(0.5)
    assert found["archive.zstd.bytes_ratio"].value == pytest.approx(0.6)
    assert found["archive.cpu_ms_per_page"].met


def test_an_archive_that_costs_nothing_was_measured_on_a_busy_machine() -> None:
    runs = [Run("", 1.0), Run("gzip", 0.9, 50, 100), Run("zstd", 1.2, 60, 100)]
    with pytest.raises(CrawlerError, match="idle machine"):
        list(figures([runs]))


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_sizes_are_those_of_the_files_and_of_the_responses(codec: str, tmp_path: Path) -> None:
    maker = RecordMaker(codec, 1, what="")
    files = WarcFiles(
        *(tmp_path, "web", maker), codec=codec, info={}, max_bytes=1 << 30, max_age_s=3600
    )
    captures = [sample(number, Size(seeds=3, hosts=2)) for number in range(3)]
    files.append([maker.records(capture, {}) for capture in captures], 1_794_198_300.0)
    complete = files.rotate(0.0, at_end=True)
    assert complete is not None
    complete()
    archive_bytes, wire_bytes = sizes(tmp_path)
    assert wire_bytes == sum(len(capture.head) + len(capture.body) for capture in captures)
    assert archive_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 0 < archive_bytes < wire_bytes


def test_the_crawl_without_an_archive_is_that_of_the_crawl_benchmark() -> None:
    assert contender("", "/folder") is OURS
    assert "SINKS=mongo warc:/folder" in contender("zstd", "/folder").command


# warcio leaves temporary files to the garbage collection.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_records_are_made_by_warcio_too() -> None:
    found = {figure.name: figure for figure in measure_records(quick=True)}
    assert set(found) == {
        "archive.records.gzip.us_per_page",
        "archive.records.zstd.us_per_page",
    }
    assert {figure.peer for figure in found.values()} == {"warcio"}
