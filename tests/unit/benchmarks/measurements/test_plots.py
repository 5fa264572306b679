"""The plots of docs/measurements.md. How they look is for people to judge."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.measurements.__main__ import PARTS
from benchmarks.measurements.plots import draw
from tests.unit.benchmarks.measurements.samples import sample_results


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    paths = draw(sample_results(), tmp_path_factory.mktemp("plots"))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def test_every_part_has_a_plot(drawn: dict[str, str]) -> None:
    assert set(drawn) == {f"{name}.svg" for name in PARTS}
    assert {ET.fromstring(text).tag for text in drawn.values()} == {
        "{http://www.w3.org/2000/svg}svg"
    }


def test_the_same_results_give_the_same_files(drawn: dict[str, str], tmp_path: Path) -> None:
    again = {
        path.name: path.read_text(encoding="utf-8") for path in draw(sample_results(), tmp_path)
    }
    assert again == drawn
    assert not any("<dc:date>" in text for text in drawn.values())


def test_axes_have_units(drawn: dict[str, str]) -> None:
    for name, units in (
        ("scaling.svg", ("pages/s", "workers")),
        ("seen.svg", ("MB of Redis", "known URLs")),
        ("sustained.svg", ("memory of the crawler, MB", "CPU ms a page", "seconds")),
        ("memory.svg", ("memory of the crawler, MB", "pages")),
        ("latency.svg", (">ms<",)),
        ("compression.svg", ("CPU ms a page", "ratio")),
        ("delayed.svg", ("µs of Redis a URL",)),
    ):
        for unit in units:
            assert unit in drawn[name]


def test_a_part_that_was_not_measured_has_none(tmp_path: Path) -> None:
    results = sample_results()
    assert draw({"seen": results["seen"]}, tmp_path) == [tmp_path / "seen.svg"]
