"""`scrapy admin` refuses what is not safe, and makes no crawl where none is."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from crawler.commands.admin import Command
from crawler.errors import ExitCode
from crawler.monitoring import logs
from tests.support.crawlers import project_crawler


@pytest.fixture(autouse=True)
def _no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of this process is pytest's."""
    monkeypatch.setattr(logs, "install", lambda _settings: None)


def run(*arguments: str, **settings: Any) -> int:
    command = Command()
    command.settings = project_crawler(**settings).settings.copy()
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    command.run([], parser.parse_args(arguments))
    return command.exitcode


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        (("--host", "0.0.0.0"), {}, "would be open to the network (0.0.0.0)"),
        ((), {"ADMIN_TOKEN": "short"}, "ADMIN_TOKEN has 5 characters"),
        (("--host", "203.0.113.1"), {"ADMIN_TOKEN": "x" * 20}, "cannot listen on 203.0.113.1:"),
    ],
)
def test_what_is_not_safe_is_refused_in_a_line(
    *,
    tmp_path: Path,
    redis_url: str,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    settings: dict[str, Any],
    said: str,
) -> None:
    folder = str(tmp_path / "crawl")
    assert run("--port", "0", *options, REDIS_URL=redis_url, CRAWL_DIR=folder, **settings) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_no_crawl_is_made_where_none_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nothing"
    assert run(CRAWL_DIR=str(folder), REDIS_URL=None) == ExitCode.FAILED
    assert f"There is no crawl in '{folder}'" in capsys.readouterr().err
    assert not folder.exists()


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_is_a_number(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(f"--port={port}")
    assert "is no port" in capsys.readouterr().err
