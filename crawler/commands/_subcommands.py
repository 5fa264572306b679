"""The words after a command, as in `scrapy pages get URL`, each with arguments of its own.

Not among the commands: Scrapy would take it for one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from scrapy.exceptions import UsageError

Run = TypeVar("Run", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Verb(Generic[Run]):
    """One word: its arguments, and what it does."""

    summary: str
    syntax: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Run


class Verbs(Generic[Run]):
    """All words of one command."""

    def __init__(self, command: str, verbs: dict[str, Verb[Run]]) -> None:
        self._command = command
        self._verbs = verbs

    @property
    def syntax(self) -> str:
        return " | ".join(f"{name} {verb.syntax}" for name, verb in self._verbs.items())

    @property
    def summary(self) -> str:
        return "; ".join(f"{name}: {verb.summary}" for name, verb in self._verbs.items())

    def take_help(self, parser: argparse.ArgumentParser) -> None:
        """Let --help be about the word before it; Scrapy's own would be about the command."""
        parser.add_argument("-h", "--help", action="store_true", help="tell more, also of one verb")

    def parse(self, args: list[str], *, wants_help: bool = False) -> tuple[Run, argparse.Namespace]:
        """What to run, and its arguments; those that are wrong end the process with an error."""
        if wants_help and not args:
            print(self._overview())
            raise SystemExit(0)
        verbs = ", ".join(self._verbs)
        if not args:
            raise UsageError(f"say what to do: {verbs}", print_help=False)
        if args[0] not in self._verbs:
            raise UsageError(f"there is no {args[0]!r}; use one of {verbs}", print_help=False)
        name, *rest = args
        if wants_help:
            rest = ["--help"]
        verb = self._verbs[name]
        parser = argparse.ArgumentParser(
            prog=f"scrapy {self._command} {name}", description=verb.summary, allow_abbrev=False
        )
        verb.add_arguments(parser)
        return verb.run, parser.parse_args(rest)

    def _overview(self) -> str:
        width = max(map(len, self._verbs))
        lines = [f"  {name:<{width}}  {verb.summary}" for name, verb in self._verbs.items()]
        more = f"`scrapy {self._command} VERB --help` tells more of one."
        return "\n".join([f"Usage: scrapy {self._command} VERB …", "", *lines, "", more])
