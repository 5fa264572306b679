"""`scrapy pages`: look at what is stored.

Exit 0: found; 1: not there; 2: a mistake; 3: MongoDB is away.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from pymongo.errors import PyMongoError
from scrapy.commands import ScrapyCommand

from crawler.commands import _pages, _validate
from crawler.commands._settings import completed
from crawler.commands._subcommands import Verb, Verbs
from crawler.config.values import url_rules
from crawler.errors import ConfigurationError, CrawlerError, ExitCode
from crawler.servers.connections import Servers
from crawler.servers.mongo import explain, start_error
from crawler.storage import schema
from crawler.storage.reader import PageReader
from crawler.urls import Urls

Run = Callable[[PageReader, argparse.Namespace], Awaitable[None]]

_CHOICE = "[--domain NAME] [--since 2h] [--status 200] [--reason WORD]"
VERBS: Verbs[Run] = Verbs(
    "pages",
    {
        "get": Verb(
            "show one page",
            "URL [--meta | --text | --body] [--json]",
            _pages.add_get_arguments,
            _pages.get,
        ),
        "find": Verb(
            "list pages, the newest first",
            f"{_CHOICE} [--limit N] [--json]",
            _pages.add_find_arguments,
            _pages.find,
        ),
        "export": Verb(
            "write pages to a file, one JSON object a line",
            f"-o PATH [--format jsonl] {_CHOICE} [--all] [--no-body]",
            _pages.add_export_arguments,
            _pages.export,
        ),
        "stats": Verb("count what is stored", "[--json]", _pages.add_stats_arguments, _pages.stats),
        "repair": Verb(
            "mend metadata without content, and content without metadata",
            "[--dry-run] [--older 1h] [--json]",
            _pages.add_repair_arguments,
            _pages.repair,
        ),
    },
)


class Command(ScrapyCommand):
    """Needs no reactor: a plain event loop reads MongoDB."""

    requires_project = True
    requires_crawler_process = False

    def syntax(self) -> str:
        return VERBS.syntax

    def short_desc(self) -> str:
        return "Look at stored pages, export and repair them"

    def long_desc(self) -> str:
        said = f"Look at stored pages. {VERBS.summary}."
        return (
            f"{said} Servers are found as `scrapy crawl` finds them. `scrapy pages VERB --help` "
            "tells the rest."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        VERBS.take_help(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        run, arguments = VERBS.parse(args, wants_help=getattr(opts, "help", False))
        try:
            self.settings = completed(self.settings)
            _validate.check(self.settings)
            self._check_folder()
            asyncio.run(self._run(run, arguments))
        except CrawlerError as error:
            self._say(error)
        except PyMongoError as error:
            self._say(start_error(error, f"MongoDB: {explain(error)}"))
        except KeyboardInterrupt:
            print("scrapy pages: stopped", file=sys.stderr)
            self.exitcode = ExitCode.INTERRUPTED
        except BrokenPipeError:
            # `… | head` has seen enough; Python would complain once more when it flushes.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _check_folder(self) -> None:
        assert self.settings is not None
        folder = Path(self.settings["CRAWL_DIR"])
        if not self.settings["MONGO_URI"] and not folder.is_dir():
            # Embedded servers would make an empty one.
            raise ConfigurationError(
                f"There is no folder {str(folder)!r}: crawl first, or name the crawl's folder by "
                "-s CRAWL_DIR=… or its database by -s MONGO_URI=…"
            )

    async def _run(self, run: Run, arguments: argparse.Namespace) -> None:
        settings = self.settings
        assert settings is not None
        urls = Urls(url_rules(settings))
        # Somebody waits for the answer, which may need a look at all pages.
        servers = Servers.from_settings(settings, mongo_timeout_s=schema.LONG_S)
        try:
            database = (await servers.mongo())[settings["MONGO_DATABASE"]]
            await schema.check(database)
            await run(PageReader(database, urls), arguments)
            sys.stdout.flush()
        finally:
            await servers.close()

    def _say(self, error: CrawlerError) -> None:
        print(f"scrapy pages: {error}", file=sys.stderr)
        self.exitcode = error.exit_code
