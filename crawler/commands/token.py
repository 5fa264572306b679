"""`scrapy token`: add, list and remove tokens of the admin API; running servers follow at once.

Exit 0: done; 1: there is no such token; 2: wrong arguments or settings, or a file that is no good.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler.admin.tokens import Role, TokenFile, token_file
from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    print_json,
    print_table,
)
from crawler.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


def _file(settings: BaseSettings) -> TokenFile:
    named = settings["ADMIN_TOKEN_FILE"]
    if settings["ADMIN_TOKEN"] and not named:
        raise ConfigurationError(
            "ADMIN_TOKEN is set, so no file with tokens is read: set ADMIN_TOKEN_FILE as well, or "
            "unset ADMIN_TOKEN."
        )
    return token_file(named, Path(settings["CRAWL_DIR"]))


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="by which the log knows who changed something")
    parser.add_argument(
        "--role",
        type=Role,
        choices=list(Role),
        default=Role.READ,
        help="read: look at everything; operate: change it as well (read)",
    )


def _add(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    file = _file(settings)
    token = file.add(arguments.name, arguments.role)
    print(token.text)
    print(
        f"The token {token.name!r} ({token.role}) is in {file.path}; it is valid in a second.",
        file=sys.stderr,
    )


def _list(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    found = [{"name": token.name, "role": str(token.role)} for token in _file(settings).read()]
    if arguments.json:
        print_json(found)
    else:
        print_table(("name", "role"), [list(each.values()) for each in found])


def _remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as `scrapy token list` shows it")


def _remove(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    file = _file(settings)
    file.remove(arguments.name)
    print(f"The token {arguments.name!r} is not in {file.path} any more.", file=sys.stderr)


VERBS = {
    "add": Verb("add a token, and print it", _add_arguments, _add),
    "list": Verb("list names and roles of the tokens", add_json_option, _list),
    "remove": Verb("remove a token", _remove_arguments, _remove),
}


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each change of the file with tokens; it connects to no server."""

    name = "token"
    summary = "Add, list and remove tokens of the admin API"
    verbs = VERBS
