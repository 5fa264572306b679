"""The command line that benchmarks share. Nothing is measured here."""

import json
from collections.abc import Iterator

import pytest

from benchmarks import __main__ as everything
from benchmarks.command import run
from benchmarks.figures import Figure, Skipped
from benchmarks.frontier.__main__ import PARTS
from crawler.errors import CrawlerError


def _sizes(quick: bool) -> Iterator[Figure | Skipped]:
    yield Figure("pretend.size", 1 if quick else 100, "B")
    yield Skipped("pretend.other", "there is none yet")


def _rates(quick: bool) -> Iterator[Figure | Skipped]:
    yield Figure("pretend.rate", 5, "1/s")


def _broken(quick: bool) -> Iterator[Figure | Skipped]:
    raise CrawlerError("There is no server; start one.")
    yield


PRETEND = {"sizes": _sizes, "rates": _rates}


def test_json_is_one_line_a_figure_and_skips_go_to_stderr(capsys: pytest.CaptureFixture[str]):
    assert run("pretend", None, PRETEND, ["--json", "--quick"]) == 0
    output = capsys.readouterr()
    assert [json.loads(line)["name"] for line in output.out.splitlines()] == [
        "pretend.size",
        "pretend.rate",
    ]
    assert output.err == "pretend.other skipped: there is none yet\n"


@pytest.mark.parametrize(("flags", "value"), [(["--quick"], 1), ([], 100)])
def test_quick_measures_smaller_sizes(
    flags: list[str], value: int, capsys: pytest.CaptureFixture[str]
):
    run("pretend", None, PRETEND, ["--json", *flags])
    assert json.loads(capsys.readouterr().out.splitlines()[0])["value"] == value


def test_a_part_may_be_picked(capsys: pytest.CaptureFixture[str]):
    run("pretend", None, PRETEND, ["--json", "rates"])
    assert "pretend.size" not in capsys.readouterr().out


def test_without_json_there_is_a_table_with_the_machine(capsys: pytest.CaptureFixture[str]):
    assert run("pretend", None, PRETEND, []) == 0
    output = capsys.readouterr().out
    assert "pretend.size" in output
    assert "cores" in output
    assert "Redis " in output or "Valkey " in output


@pytest.mark.parametrize("arguments", [["--fast"], ["speed"], ["--quick=yes"]])
def test_a_bad_argument_is_told_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stopped:
        run("pretend", None, PRETEND, arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("pretend: ")
    assert error.count("\n") == 1


def test_an_error_for_users_is_told_in_one_line(capsys: pytest.CaptureFixture[str]):
    assert run("pretend", None, {"broken": _broken}, []) == 1
    assert capsys.readouterr().err == "pretend: There is no server; start one.\n"


def test_every_package_and_script_with_a_command_line_is_in_the_list_of_all():
    folder = everything.RESULTS.parent
    packages = {path.parent.name for path in folder.glob("*/__main__.py")}
    scripts = {path.stem for path in folder.glob("[!_]*.py") if "__main__" in path.read_text()}
    # It runs others, for a page of the documentation.
    assert (packages | scripts) - {"measurements"} == set(everything.BENCHMARKS)


def test_the_frontier_has_its_parts():
    assert list(PARTS) == [
        "add",
        "cycle",
        "delayed",
        "growth",
        "memory",
        "seen",
        "idle",
        "politeness",
    ]
