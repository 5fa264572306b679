"""The command line that every benchmark has, and the running of its parts."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

from benchmarks.figures import Figure, Skipped, table
from benchmarks.machine import footer
from crawler.errors import CrawlerError

# Measures with `quick` or at full size, and yields each figure as soon as it is known.
Measure = Callable[[bool], Iterator[Figure | Skipped]]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser(name: str, about: str | None, parts: Sequence[str] = ()) -> Parser:
    """The parser of one benchmark; `parts` may be picked by name."""
    made = Parser(prog=name, description=about)
    made.add_argument("--quick", action="store_true", help="smaller sizes, for a first impression")
    made.add_argument("--json", action="store_true", help="one line a figure, for programs")
    if parts:
        made.add_argument(
            "parts", nargs="*", metavar="PART", help=f"only these: {', '.join(parts)}"
        )
    return made


def end_servers_on_sigterm() -> None:
    """Have SIGTERM do what Ctrl-C does, so that no server outlives the measurement."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def run(
    name: str, about: str | None, parts: Mapping[str, Measure], argv: Sequence[str] | None = None
) -> int:
    """Measure the parts asked for, all by default, and print what was found."""
    reader = parser(name, about, list(parts) if len(parts) > 1 else ())
    return measured(reader, reader.parse_args(argv), parts)


def measured(reader: Parser, arguments: argparse.Namespace, parts: Mapping[str, Measure]) -> int:
    """The same for a parser that has more arguments, and what it read."""
    chosen = getattr(arguments, "parts", None) or list(parts)
    for part in chosen:
        if part not in parts:
            reader.error(f"there is no part {part!r}; choose from {', '.join(parts)}")
    figures: list[Figure] = []
    failed = False
    end_servers_on_sigterm()
    try:
        for part in chosen:
            for found in parts[part](arguments.quick):
                if isinstance(found, Skipped):
                    print(f"{found.name} skipped: {found.reason}", file=sys.stderr)
                    continue
                figures.append(found)
                if arguments.json:
                    print(found.to_json(), flush=True)
    except CrawlerError as error:
        # What was measured before is shown all the same.
        print(f"{reader.prog}: {error}", file=sys.stderr)
        failed = True
    except KeyboardInterrupt:
        return 130
    if not arguments.json:
        print(table(figures, footer()))
    return 1 if failed else 0


def figures_of(name: str, *parts: str, quick: bool) -> tuple[list[Figure], bool]:
    """Run a benchmark in a process of its own; its figures, and whether it succeeded.

    Its messages for people go to stderr as they come.
    """
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *(["--quick"] * quick), *parts]
    print(f"{' '.join((name, *parts))} …", file=sys.stderr, flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        figures = [Figure.from_json(line) for line in process.stdout]
    return figures, process.returncode == 0
