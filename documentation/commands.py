"""Command reference, read from the parsers that print `--help`."""

import argparse
import contextlib
import io
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scrapy.cmdline import execute
from scrapy.utils.project import get_project_settings

from crawler.commands import crawl
from crawler.spiders.web import WebSpider
from documentation.markdown import GENERATED, code, plain, table
from documentation.settings import with_links

COMMANDS = Path(crawl.__file__).parent
# Commands of Scrapy's that we only adapt: its documentation has them.
SCRAPYS = frozenset({"check", "fetch", "parse", "shell", "view"})
_GLOBAL = "Global Options"
_USAGE = re.compile(r"^usage:?( =+)? | \[-h\]", re.IGNORECASE)

_HEAD = f"""{GENERATED}

# Commands

What `--help` says of each command. Run them in the folder of the project, or of your own project
with [`COMMANDS_MODULE`](settings.md#commands_module). [Exit codes](../operations.md#exit-codes)
mean the same for all of them.

Scrapy's own commands work as always. `check`, `fetch`, `parse`, `shell` and `view` do without the
frontier: what they fetch is no crawl.
"""


def names() -> list[str]:
    """Return the names of our commands."""
    found = {path.stem for path in COMMANDS.glob("*.py") if not path.stem.startswith("_")}
    return sorted(found - SCRAPYS)


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    shared: argparse.ArgumentParser | None = None
    for name in names():
        parser = _parser(name)
        verbs: Mapping[str, object] = getattr(_command(name), "verbs", {})
        parts.append(f"## scrapy {name}\n")
        if verbs:
            parts.append(f"{plain(_command(name).summary)}.\n")
            parts += [_section(_parser(name, verb), "###") for verb in verbs]
        else:
            shared = parser
            parts.append(_body(parser))
            if name == "crawl" and (arguments := _spider_arguments()):
                parts.append(arguments)
    assert shared is not None
    parts += ["## Options of all commands\n", _options(shared, is_global=True)]
    return "\n".join(parts)


def _command(name: str) -> Any:
    """Return a command's class."""
    module = import_module(f"crawler.commands.{name}")
    return module.Command


def _parser(*words: str) -> argparse.ArgumentParser:
    """Return the parser whose help a command prints."""
    found: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser) -> None:
        found.append(parser)

    with (
        patch.object(argparse.ArgumentParser, "print_help", keep),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        execute(["scrapy", *words, "--help"], get_project_settings())
    # Overviews of verbs are printed without a parser.
    return found[0] if found else argparse.ArgumentParser(prog=f"scrapy {words[0]}")


def _section(parser: argparse.ArgumentParser, level: str) -> str:
    return f"{level} {parser.prog}\n\n{_body(parser)}"


def _body(parser: argparse.ArgumentParser) -> str:
    usage = _USAGE.sub("", " ".join(parser.format_usage().split()))
    about = plain(parser.description or "").strip().rstrip(".")
    return f"{about[:1].upper()}{about[1:]}.\n\n    {usage}\n\n{_options(parser)}"


def _options(parser: argparse.ArgumentParser, *, is_global: bool = False) -> str:
    rows = [
        (_spelling(action, parser), _help(action, parser))
        for group in parser._action_groups
        if (group.title == _GLOBAL) is is_global
        for action in group._group_actions
        if not isinstance(action, argparse._HelpAction) and action.dest != "help"
    ]
    return table(("argument", "meaning"), rows) if rows else ""


def _spelling(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    formatter = parser._get_formatter()
    default = formatter._get_default_metavar_for_optional
    if not action.option_strings:
        return code(formatter._format_args(action, action.dest))
    value = "" if action.nargs == 0 else " " + formatter._format_args(action, default(action))
    return ", ".join(code(f"{name}{value}") for name in action.option_strings)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return with_links(plain(text), "settings.md") or "–"


def _spider_arguments() -> str:
    """Return the arguments of the spider `web`, if it names them."""
    found: Mapping[str, str] = getattr(WebSpider, "argument_help", {})
    if not found:
        return ""
    rows = [(code(name), with_links(plain(text), "settings.md")) for name, text in found.items()]
    title = "### Arguments of the spider web\n\nEach is given as `-a NAME=VALUE`.\n\n"
    return title + table(("argument", "meaning (default)"), rows)
