"""What `python -m demo crawl` makes of its arguments, without crawling."""

from pathlib import Path

import pytest

from demo.cli import main
from demo.crawl import given, renders, resume_command


def test_scrapys_options_are_found_in_all_their_spellings() -> None:
    arguments = ["-s", "A=1", "-sB=2", "--set", "C=3", "--set=D=4=5", "-a", "E=6", "F=7", "-s"]
    assert dict(given(arguments, ("-s", "--set"))) == {"A": "1", "B": "2", "C": "3", "D": "4=5"}


def test_the_truth_of_a_crawl_depends_on_whether_it_renders() -> None:
    assert not renders(["-a", "max_pages=5", "-s", "render=auto"])
    assert not renders(["-a", "render=never"])
    assert renders(["-a", "render=auto"])
    assert renders(["-arender=always"])


def test_it_is_resumed_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAKELEVEL", raising=False)
    assert resume_command(".crawl", []) == "python -m demo crawl"
    assert resume_command("x", ["--hosts=5"]) == "CRAWL_DIR=x python -m demo crawl --hosts=5"
    monkeypatch.setenv("MAKELEVEL", "1")
    assert resume_command(".crawl", []) == "make crawl"
    assert resume_command("x y", ["-a", "max_pages=5"]) == (
        "make crawl CRAWL_DIR='x y' ARGS='-a max_pages=5'"
    )


def test_a_folder_with_another_web_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CRAWL_DIR", str(tmp_path))
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "web.json").write_text('{"hosts": 3, "pages": 4, "seed": 1, "zoo": "demo"}')
    assert main(["crawl", "--hosts=5"]) == 2
    message = capsys.readouterr().err
    assert "--hosts 3 --pages 4" in message
    assert message.count("\n") == 1


def test_only_crawl_passes_unknown_arguments_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["truth", "-a", "max_pages=5"])
    assert stop.value.code == 2
    assert "unrecognized arguments: -a max_pages=5" in capsys.readouterr().err
