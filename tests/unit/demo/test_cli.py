"""The command line: what it prints, and one clear line with exit code 2 for every mistake."""

import json
import shlex
from pathlib import Path

import pytest

from demo.access_log import Entry, format_entry
from demo.cli import crawl_command, main

SMALL = ["--hosts=1", "--pages=1", "--zoo=none"]
GOOD_LOG = format_entry(Entry(1.0, 1.1, "s0.test", "/robots.txt", 200)) + format_entry(
    Entry(2.0, 2.1, "s0.test", "/", 200)
)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["serve", "--hosts=0"], "'0' is not a number from 1 to 1e+07"),
        (["serve", "--pages=many"], "'many' is not a number"),
        (["serve", "--port=70000"], "'70000'"),
        (["truth", "--zoo=big"], "'big'"),
        (["truth", "--set=all"], "'all'"),
        (["truth", "--max-depth=-1"], "'-1'"),
        (["judge"], "LOG"),
        (["judge", "x", "--min-delay=nan"], "'nan'"),
        (["bench", "--count=0"], "'0'"),
        (["serve", "--surprise"], "--surprise"),
    ],
)
def test_a_bad_argument_is_one_line(
    argv: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    message = capsys.readouterr().err
    assert stop.value.code == 2
    assert text in message
    assert message.count("\n") == 1


def test_a_log_that_does_not_exist_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tmp_path / "none.log"), *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_log_in_a_folder_that_does_not_exist_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", f"--log={tmp_path}/no/folder.log", *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_truth_prints_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["truth", "--json", *SMALL]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts["must_fetch"] == counts["must_store"] == counts["hosts"] == 1


def test_truth_prints_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["truth", "--set=must_fetch", *SMALL]) == 0
    assert capsys.readouterr().out == "http://s0.test/\n"


def test_truth_knows_crawls_that_render(capsys: pytest.CaptureFixture[str]) -> None:
    web = ["--hosts=3", "--pages=2", "--zoo=browser"]
    assert main(["truth", "--set=needs_browser", *web]) == 0
    assert capsys.readouterr().out == "s1.test\ns2.test\n"
    assert main(["truth", "--json", *web]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == 0
    assert main(["truth", "--json", "--renders", *web]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] > 0


def test_judge_exits_0_without_violations(tmp_path: Path) -> None:
    log, summary = tmp_path / "good.log", tmp_path / "verdict.json"
    log.write_text(GOOD_LOG)
    assert main(["judge", str(log), "--min-delay=0.5", f"--summary={summary}", *SMALL]) == 0
    assert json.loads(summary.read_text())["ok"] is True


def test_judge_exits_1_with_violations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "good.log"
    log.write_text(GOOD_LOG)
    assert main(["judge", str(log), "--min-delay=5", *SMALL]) == 1
    assert "too_soon: 1" in capsys.readouterr().out


def test_the_command_for_a_served_web_can_be_pasted() -> None:
    ready = {"port": 1234, "overrides": {".test": "127.0.0.1:1234"}, "seeds": ["http://s0.test/"]}
    words = shlex.split(crawl_command(ready))
    assert words[:3] == ["scrapy", "crawl", "web"]
    assert "seeds=http://s0.test/" in words
    assert 'DNS_OVERRIDES={".test": "127.0.0.1:1234"}' in words
