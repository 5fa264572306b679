"""Commands whose first argument is a verb, as in `scrapy pages get URL`.

Each verb has arguments of its own. The module's name begins with an underscore, as Scrapy takes
any other module with a command class for a command.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pymongo.errors import PyMongoError
from scrapy.exceptions import UsageError

from crawler.commands import _validate
from crawler.commands._settings import completed
from crawler.errors import CrawlerError, ExitCode, ServerAway
from crawler.monitoring import logs
from crawler.servers.mongo import explain, start_error
from crawler.servers.redis.errors import RedisAway

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
    except RedisAway as error:
        report_error(command, name, ServerAway(f"Redis does not answer: {error}"))
    except PyMongoError as error:
        report_error(command, name, start_error(error, f"MongoDB: {explain(error)}"))
    except KeyboardInterrupt:
        print(logs.line(f"scrapy {name}: stopped"), file=sys.stderr)
        command.exitcode = ExitCode.INTERRUPTED


def report_error(command: Any, name: str, error: CrawlerError) -> None:
    """Print an error in a line, and let the command exit with its code."""
    print(logs.line(f"scrapy {name}: {error}", level=logging.ERROR), file=sys.stderr)
    command.exitcode = error.exit_code


def whole_number(text: str) -> int:
    """Read an argument that is a whole number of 0 or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def add_json_option(parser: argparse.ArgumentParser, text: str = "print JSON") -> None:
    """Let a verb take --json."""
    parser.add_argument("--json", action="store_true", help=text)
