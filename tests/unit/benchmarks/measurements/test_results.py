"""What was measured survives the file that it is kept in."""

from dataclasses import replace
from pathlib import Path

from benchmarks.measurements.results import keep, read
from tests.unit.benchmarks.measurements.samples import sample_results


def test_a_part_is_read_as_it_was_kept(tmp_path: Path) -> None:
    file, results = tmp_path / "new" / "results.jsonl", sample_results()
    for part in results.values():
        keep(file, part)
    assert read(file) == results


def test_a_part_replaces_its_older_one_only(tmp_path: Path) -> None:
    file, results = tmp_path / "results.jsonl", sample_results()
    keep(file, results["seen"])
    keep(file, results["latency"])
    keep(file, replace(results["seen"], load=7.0))
    assert read(file) == {
        "seen": replace(results["seen"], load=7.0),
        "latency": results["latency"],
    }


def test_nothing_was_measured_without_a_file(tmp_path: Path) -> None:
    assert read(tmp_path / "results.jsonl") == {}


def test_the_value_of_a_peer_is_known_by_its_ratio() -> None:
    assert sample_results()["seen"].peer("url_seen.mb_at_10m") == 900
