"""`scrapy jobs`: list and show the recorded runs of crawls.

Exit 0: found; 1: not found; 2: wrong arguments or settings; 3: MongoDB or PostgreSQL is away.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand

from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    fields,
    print_json,
    print_table,
    shown_raw,
    whole_number,
)
from crawler.commands.pages import since
from crawler.errors import NotFound
from crawler.servers.connections import Servers
from crawler.storage.readers import STORES, open_runs
from crawler.storage.runs import STATES, Run, RunReader, WantedRuns
from crawler.storage.sinks import shown_sinks, targets
from crawler.util.format import duration

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_LIMIT_MAX = 10_000


def on_runs(
    work: Callable[[RunReader, argparse.Namespace], Awaitable[None]],
) -> Callable[[BaseSettings, argparse.Namespace], None]:
    """Make the function of a verb that works on the recorded runs."""

    async def connect(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        servers = Servers.from_settings(settings)
        try:
            await work(await open_runs(settings, servers), arguments)
        except NotFound as error:
            if any(targets(settings, store) for store in STORES):
                raise
            raise NotFound(
                f"{error} Runs are recorded in MongoDB or PostgreSQL, and SINKS is "
                f"{shown_sinks(settings)}: this is the MongoDB of an earlier crawl."
            ) from error
        finally:
            await servers.close()

    return lambda settings, arguments: asyncio.run(connect(settings, arguments))


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--crawl", metavar="NAME", help="only runs of this crawl (all crawls)")
    parser.add_argument("--state", choices=STATES, help="only runs in this state")
    parser.add_argument(
        "--since",
        type=since,
        metavar="WHEN",
        help="started within 45m, 2h, 3d or 1w, or since a date",
    )
    parser.add_argument(
        "--limit", type=_limit, default=50, metavar="N", help="how many, the newest first (50)"
    )
    add_json_option(parser)


def _limit(text: str) -> int:
    number = whole_number(text)
    if not 1 <= number <= _LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and {_LIMIT_MAX:,}")
    return number


async def _list(runs: RunReader, arguments: argparse.Namespace) -> None:
    now = datetime.now(UTC)
    wanted = WantedRuns(
        now=now,
        crawl=arguments.crawl,
        state=arguments.state,
        since=arguments.since,
        limit=arguments.limit,
    )
    found = await runs.find(wanted)
    if arguments.json:
        print_json([run.to_json() for run in found])
    elif found:
        titles = ("id", "crawl", "state", "started (UTC)", "took", "pages", "errors", "exit", "who")
        print_table(titles, [_row(run, now) for run in found])
    if not found:
        is_any = wanted == WantedRuns(now=now, limit=arguments.limit)
        raise NotFound("No run is recorded yet." if is_any else "No such run is recorded.")


def _row(run: Run, now: datetime) -> tuple[object, ...]:
    why = run.reason if run.reason not in ("", run.state) else ""
    return (
        *(run.id, run.crawl, f"{run.state} ({why})" if why else run.state, run.started),
        duration(((run.ended or now) - run.started).total_seconds()),
        *(run.pages, run.errors, run.exit_code, f"{run.user} on {run.machine}, pid {run.pid}"),
    )


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="as `scrapy jobs list` prints it")
    add_json_option(parser)


async def _show(runs: RunReader, arguments: argparse.Namespace) -> None:
    run = await runs.get(arguments.id, datetime.now(UTC))
    if run is None:
        raise NotFound(f"There is no record of the run {arguments.id!r}; see `scrapy jobs list`.")
    found = run.to_json()
    if arguments.json:
        print_json(found)
        return
    options = found.pop("options")
    print(fields({name: value for name, value in found.items() if value != ""}, shown_raw))
    if options:
        print(f"\noptions\n{fields(dict(sorted(options.items())), shown_raw)}")


VERBS = {
    "list": Verb("list runs, the newest first", _list_arguments, on_runs(_list)),
    "show": Verb("show all that is recorded of a run", _show_arguments, on_runs(_show)),
}


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each question about runs."""

    name = "jobs"
    summary = "List the recorded runs of crawls, or show one"
    verbs = VERBS

    @classmethod
    def parse(cls, args: list[str], *, wants_help: bool = False) -> tuple[Verb, argparse.Namespace]:
        """Return the verb and its arguments; without a verb, it is `list`."""
        if not wants_help and (not args or args[0].startswith("-")):
            args = ["list", *args]
        return super().parse(args, wants_help=wants_help)
