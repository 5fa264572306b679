"""`scrapy token` makes tokens, lists their names and removes them."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from crawler.admin.tokens import FILE, Tokens, token_file
from crawler.commands.token import Command
from crawler.errors import ExitCode
from tests.support.crawlers import project_crawler


def run(folder: Path, *arguments: str, **settings: Any) -> int:
    command = Command()
    command.settings = project_crawler(CRAWL_DIR=str(folder), **settings).settings.copy()
    opts = argparse.Namespace(help=False)
    command.run(list(arguments), opts)
    return command.exitcode


def test_tokens_are_added_listed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "add", "grafana") == 0
    assert run(tmp_path, "add", "anna", "--role", "operate") == 0
    made = capsys.readouterr().out.split()
    found = Tokens(file=token_file(None, tmp_path))
    assert [(one.text, one.role) for one in found.all] == list(
        zip(made, ("read", "operate"), strict=True)
    )
    assert run(tmp_path, "list", "--json") == 0
    listed = capsys.readouterr().out
    assert json.loads(listed) == [
        {"name": "grafana", "role": "read"},
        {"name": "anna", "role": "operate"},
    ]
    assert run(tmp_path, "remove", "grafana") == 0
    assert run(tmp_path, "list") == 0
    assert capsys.readouterr().out == "name  role\nanna  operate\n"


@pytest.mark.parametrize(
    ("arguments", "settings", "code", "said"),
    [
        (("remove", "nobody"), {}, ExitCode.FAILED, "no token of the name 'nobody'"),
        (("add", "two names"), {}, ExitCode.MISTAKE, "is no name of a token"),
        (("add", "anna"), {"ADMIN_TOKEN": "x" * 20}, ExitCode.MISTAKE, "ADMIN_TOKEN is set"),
        (("list",), {"ADMIN_TOKEN_FILE": "/nowhere/t"}, ExitCode.MISTAKE, "cannot be used"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    *,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    settings: dict[str, Any],
    code: int,
    said: str,
) -> None:
    (tmp_path / FILE).touch(mode=0o600)
    (tmp_path / FILE).write_text("a-token-of-this-test\n")
    assert run(tmp_path, *arguments, **settings) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "a-token-of-this-test" not in error
