"""The command that measures and renders. Nothing is measured here."""

import shutil
from pathlib import Path

import pytest

from benchmarks.figures import Figure
from benchmarks.measurements import __main__ as measurements
from benchmarks.measurements.results import keep
from tests.unit.benchmarks.measurements.samples import sample_results


def test_render_makes_the_page_and_its_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    for part in sample_results().values():
        keep(results, part)
    shutil.copy(measurements.DOCS / "measurements.md", tmp_path)
    assert measurements.main(["render", str(results), "--docs", str(tmp_path)]) == 0
    page = tmp_path / "measurements.md"
    assert "| MongoDB: insert of a page | 84 ms | 1.5 ms |" in page.read_text(encoding="utf-8")
    plots = sorted(tmp_path.glob("measurements/*.svg"))
    assert len(plots) == len(sample_results())
    printed = capsys.readouterr().out.splitlines()
    assert sorted(printed) == sorted(map(str, [page, *plots]))


@pytest.mark.parametrize("arguments", [[], ["draw"], ["run", "--only", "speed"]])
def test_a_bad_argument_is_told_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        measurements.main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_part_is_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS", str(tmp_path))
    out = tmp_path / "results.jsonl"
    arguments = ["run", "--quick", "--only", "compression", "--out", str(out)]
    assert measurements.main(arguments) == 0
    part = measurements.results.read(out)["compression"]
    assert part.quick
    assert part.figures["compression.pages"].unit == "generated pages"


@pytest.mark.parametrize(
    ("part", "pages", "passed"),
    [
        ("memory", "500000", ["memory", "--pages=500000"]),
        ("latency", "500000", ["measurements.latency"]),
    ],
)
def test_the_number_of_pages_is_for_the_part_memory(
    part: str, pages: str, passed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def figures_of(*arguments: str, quick: bool) -> tuple[list[Figure], bool]:
        started.append([*arguments])
        return [], True

    monkeypatch.setattr(measurements, "figures_of", figures_of)
    arguments = ["run", "--only", part, "--pages", pages, "--out", str(tmp_path / "results.jsonl")]
    assert measurements.main(arguments) == 0
    assert started == [passed]


def test_each_part_is_measured_by_a_benchmark_that_exists() -> None:
    folder = Path(measurements.__file__).parent.parent
    for module, *_ in measurements.PARTS.values():
        path = folder.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists()
