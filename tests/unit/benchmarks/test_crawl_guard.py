"""What every build prints and keeps about the cost of a page. Nothing is measured here."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.crawl import guard
from benchmarks.crawl.guard import line
from benchmarks.crawl.records import clean_commit, keep, record, without_peers
from benchmarks.crawl.rig import Disturbed
from benchmarks.figures import Figure
from crawler.errors import CrawlerError

VALUES = {"cpu_ms_per_page": 1.204567, "scrapy.cpu_ms_per_page": 12.4, "ratio_to_scrapy": 10.29}
FIGURES = {
    f"crawl.usual.{name}": Figure(f"crawl.usual.{name}", value, "")
    for name, value in VALUES.items()
}
NOW = datetime(2026, 11, 18, tzinfo=UTC)


def test_the_line_tells_the_cost_and_the_ratio() -> None:
    assert line(FIGURES) == (
        "usual: 1.20 ms of CPU a page, plain Scrapy 12.4 ms: "
        "10.3 times as many pages per CPU-second"
    )


def test_a_commit_has_one_line_with_date_machine_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    for commit in ("aaa", "bbb", "aaa"):
        keep(record(FIGURES.values(), commit, NOW, quick=False), path)
    kept = [json.loads(each) for each in path.read_text().splitlines()]
    assert [each["commit"] for each in kept] == ["bbb", "aaa"]
    assert kept[0]["date"] == "2026-11-18"
    assert "cores" in kept[0]["machine"]
    assert kept[0]["figures"]["crawl.usual.cpu_ms_per_page"] == 1.205


def test_figures_of_a_commit_are_merged_and_quick_ones_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "crawl.jsonl"
    for name, value, quick in (("a", 1, False), ("b", 2, False), ("a", 3, True), ("b", 4, False)):
        keep(record([Figure(name, value, "")], "aaa", NOW, quick=quick), path)
    found = json.loads(path.read_text())
    assert (found["figures"], found["quick"]) == ({"a": 1, "b": 4}, {"a": 3})


def test_figures_of_peers_are_not_kept() -> None:
    names = ("crawl.web.ratio_to_scrapy", "crawl.web.ours.peak_mb", "crawl.web.scrapy.peak_mb")
    assert [figure.name for figure in without_peers(Figure(name, 1, "") for name in names)] == [
        *names[:2]
    ]


def test_only_results_may_differ_from_the_commit_that_is_recorded(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", *identity, "-c", "commit.gpgsign=false", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    code = tmp_path / "crawler.py"
    for file in (code, results / "crawl.jsonl"):
        file.write_text("before")
    git("init")
    git("add", ".")
    git("commit", "-m", "First")
    (results / "crawl.jsonl").write_text("after")
    (results / "new.jsonl").write_text("new")
    commit = clean_commit(tmp_path)
    assert int(commit, 16)
    code.write_text("after")
    with pytest.raises(CrawlerError, match="differ"):
        clean_commit(tmp_path)


@pytest.mark.parametrize(
    ("error", "arguments", "status"),
    [
        (Disturbed("too slow"), [], 0),
        (Disturbed("too slow"), ["--record"], 1),
        (CrawlerError("broken"), [], 1),
    ],
)
def test_a_busy_machine_does_not_fail_a_build_but_a_broken_crawl_does(
    error: CrawlerError,
    arguments: list[str],
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(guard, "measure", fail)
    monkeypatch.setattr(guard, "clean_commit", lambda: "aaa")
    # It would change how this process ends.
    monkeypatch.setattr(guard, "end_servers_on_sigterm", lambda: None)
    assert guard.main(arguments) == status
    said = capsys.readouterr()
    assert str(error) in said.out + said.err
