"""Arguments of spiders, as `scrapy crawl SPIDER -h` and `scrapy fleet SPIDER -h` list them."""

from __future__ import annotations

import argparse
import inspect
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from scrapy.exceptions import UsageError
from scrapy.spiderloader import get_spider_loader

from crawler.commands._settings import check_spider
from crawler.errors import CrawlerError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import Settings

# Columns of names, as in the help of options, and of whole lines.
_NAMES = 24
_WIDTH_MAX = 100


class WithSpiderHelp:
    """Mixin for Scrapy commands that run one spider: their help has the spider's arguments."""

    settings: Settings | None
    _parser: argparse.ArgumentParser

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)  # type: ignore[misc]
        self._parser = parser
        # Scrapy's own -h ends the program before the spider's name is read.
        parser.add_argument(
            "-h", "--help", action="store_true", help="show this help, and a spider's arguments"
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)  # type: ignore[misc]
        if not opts.help:
            return
        assert self.settings is not None
        try:
            text = spider_help(self.settings, args)
        except CrawlerError as error:
            raise UsageError(str(error), print_help=False) from error
        self._parser.print_help()
        print(f"\n{text}")
        raise SystemExit(0)


def spider_help(settings: Settings, names: Sequence[str]) -> str:
    """Describe the arguments of the first spider that is named; without a name, list the spiders.

    Raises ConfigurationError if there is no such spider.
    """
    loader = get_spider_loader(settings)
    if not names:
        there = ", ".join(sorted(loader.list())) or "none"
        return f"Spiders: {there}. For the arguments of one, give its name before -h."
    check_spider(settings, names[0])
    found = arguments_of(loader.load(names[0]))
    if not found:
        return f"The spider {names[0]} names no arguments of its own."
    return "\n".join(_lines(f"Arguments of the spider {names[0]}, as -a NAME=VALUE", found))


def arguments_of(spider: type[Spider]) -> dict[str, str]:
    """Return a spider's arguments and their texts; those of its `__init__` have only defaults."""
    found = dict(getattr(spider, "argument_help", {}))
    for name, parameter in inspect.signature(spider.__init__).parameters.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and name not in ("self", "name"):
            default = parameter.default
            found.setdefault(name, "" if default is parameter.empty else f"({default})")
    return found


def _lines(title: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Format titles and texts as argparse does."""
    yield title
    yield "-" * len(title)
    width = min(shutil.get_terminal_size().columns - 2, _WIDTH_MAX)
    for name, text in texts.items():
        first, *others = textwrap.wrap(text, max(width - _NAMES, 20)) or [""]
        yield f"  {name:<{_NAMES - 3}} {first}".rstrip()
        yield from (" " * _NAMES + other for other in others)


def check_words(command: str, args: Sequence[str]) -> None:
    """Raise UsageError unless there is one word, the spider; explain arguments without -a."""
    for word in args[1:] if args and "=" not in args[0] else args:
        name, has_value, value = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if has_value and name.isidentifier():
            raise UsageError(
                f"{word} is no option; if it is an argument of the spider, write -a {name}={value}",
                print_help=False,
            )
    if len(args) != 1:
        raise UsageError(f"give the name of one spider: scrapy {command} web -a seeds=…")
