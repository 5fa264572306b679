"""Commands whose first argument is a verb, as in `scrapy pages get URL`.

Each verb has arguments of its own, and prints fields, tables and progress bars for people or JSON
for programs. The module's name begins with an underscore, as Scrapy takes any other module with a
command class for a command.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pymongo.errors import PyMongoError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scrapy.exceptions import UsageError

from crawler.commands import _validate
from crawler.commands._settings import completed
from crawler.errors import ConfigurationError, CrawlerError, ExitCode, ServerAway
from crawler.monitoring import logs
from crawler.servers.mongo import explain, start_error
from crawler.servers.redis.errors import RedisAway
from crawler.storage.documents import as_json

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of a command: its help, its arguments, and the function that runs it."""

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[BaseSettings, argparse.Namespace], None]


class VerbCommand:
    """Mixin for a Scrapy command with verbs; `name`, `verbs` and `summary` describe the command.

    No ScrapyCommand itself: Scrapy would list it as a command.
    """

    requires_project = True
    requires_crawler_process = False
    name: ClassVar[str]
    verbs: ClassVar[Mapping[str, Verb]]
    summary: ClassVar[str]
    settings: Settings | None
    exitcode: int

    def syntax(self) -> str:
        return f"{'|'.join(self.verbs)} [options]"

    def short_desc(self) -> str:
        return self.summary

    def long_desc(self) -> str:
        verbs = "; ".join(f"{name}: {verb.summary}" for name, verb in self.verbs.items())
        return f"{self.summary}. {verbs}. See `scrapy {self.name} VERB --help` for one of them."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        # Scrapy's own --help would ignore the verb before it.
        parser.add_argument(
            "-h", "--help", action="store_true", help="show this help, or that of a verb"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        verb, arguments = self.parse(args, wants_help=getattr(opts, "help", False))
        with errors_in_one_line(self, self.name):
            settings = completed(self.settings)
            _validate.check(settings)
            verb.run(settings, arguments)
            sys.stdout.flush()

    @classmethod
    def parse(cls, args: list[str], *, wants_help: bool = False) -> tuple[Verb, argparse.Namespace]:
        """Return the verb and its arguments; wrong ones raise UsageError or SystemExit."""
        if wants_help and not args:
            print(cls._overview())
            raise SystemExit(0)
        known = ", ".join(cls.verbs)
        if not args:
            raise UsageError(f"say what to do: {known}", print_help=False)
        name, *others = args
        if name not in cls.verbs:
            raise UsageError(f"there is no {name!r}; use one of {known}", print_help=False)
        verb = cls.verbs[name]
        parser = argparse.ArgumentParser(
            prog=f"scrapy {cls.name} {name}", description=verb.summary, allow_abbrev=False
        )
        verb.add_arguments(parser)
        return verb, parser.parse_args(["--help"] if wants_help else others)

    @classmethod
    def _overview(cls) -> str:
        width = max(map(len, cls.verbs))
        lines = [f"  {name:<{width}}  {verb.summary}" for name, verb in cls.verbs.items()]
        more = f"See `scrapy {cls.name} VERB --help` for one of them."
        return "\n".join([f"Usage: scrapy {cls.name} VERB …", "", *lines, "", more])


@contextmanager
def errors_in_one_line(command: Any, name: str) -> Iterator[None]:
    """Print errors that are meant for the user in a line, and set the command's exit code."""
    try:
        yield
    except CrawlerError as error:
        report_error(command, name, error)
    except BrokenPipeError:
        # `… | head` has closed the pipe: without this, Python's flush at exit would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # The Redis client raises errors of its own.
        report_error(command, name, _named(error))
    except RedisAway as error:
        report_error(command, name, ServerAway(f"Redis does not answer: {error}"))
    except PyMongoError as error:
        report_error(command, name, start_error(error, f"MongoDB: {explain(error)}"))
    except KeyboardInterrupt:
        print(logs.line(f"scrapy {name}: stopped"), file=sys.stderr)
        command.exitcode = ExitCode.INTERRUPTED


def _named(error: OSError) -> CrawlerError:
    """Describe an error of the system: of a file, or of a connection."""
    if error.filename is not None:
        return ConfigurationError(f"{error.filename}: {error.strerror}")
    if isinstance(error, ConnectionError | TimeoutError):
        return ServerAway(f"A connection failed ({type(error).__name__}): {error}".rstrip(": "))
    return CrawlerError(f"{type(error).__name__}: {error}")


def report_error(command: Any, name: str, error: CrawlerError) -> None:
    """Print an error in a line, and let the command exit with its code."""
    print(logs.line(f"scrapy {name}: {error}", level=logging.ERROR), file=sys.stderr)
    command.exitcode = error.exit_code


def whole_number(text: str) -> int:
    """Read an argument that is a whole number of 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def output_file(given: str) -> Path:
    """Return the file that a command will write, of its option -o; fails before the work begins."""
    output = Path(given)
    if not output.parent.is_dir():
        raise ConfigurationError(f"-o {output}: there is no folder {output.parent}.")
    if output.is_dir():
        raise ConfigurationError(f"-o {output}: this is a folder; name a file in it.")
    return output


def add_json_option(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    """Let a verb take --json."""
    parser.add_argument("--json", action="store_true", help=text)


# Control characters, except line ends and tabs: a terminal would obey them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_json(value: Any) -> None:
    """Print one JSON document."""
    print(as_json(value, indent=2))


def shown(value: Any) -> str:
    """Format a value of a crawl for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "–" if value is None else shown_raw(value)


def shown_raw(value: Any) -> str:
    """Format a stored value for people: dates with their zone, numbers as they are."""
    if isinstance(value, datetime):
        return time(value)
    return harmless(as_json(value) if isinstance(value, list | dict) else str(value))


def fields(values: Mapping[str, Any], show: Callable[[Any], str] = shown) -> str:
    """Format a line for each field, with names aligned."""
    width = max(map(len, values), default=0)
    return "\n".join(f"{name:<{width}}  {show(value)}" for name, value in values.items())


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a line for each row under titles; the last column may have any width."""
    lines = [list(titles), *([shown(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles) - 1)]
    for line in lines:
        cells = [f"{text:<{width}}" for text, width in zip(line, widths, strict=False)]
        print("  ".join([*cells, line[-1]]).rstrip())


def harmless(text: str) -> str:
    """Replace control characters in a text from the web, so that it cannot steer a terminal."""
    return _CONTROLS.sub("\ufffd", text)


def time(at: datetime) -> str:
    """Format a time with its zone."""
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def confirmed(question: str) -> bool:
    """Ask the user for a yes; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    # Not by input(): standard output is for results.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def progress_bar(what: str, total: int, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block, which gets the function that advances it."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(what, total=total, completed=done)
        yield lambda steps: progress.advance(task, steps)
