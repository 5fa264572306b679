"""Verbs about single URLs and dead letters: url, add, forget, dead, requeue."""

from __future__ import annotations

import argparse
import sys

from crawler.commands._frontier.connect import Asked, asks, common, number
from crawler.commands._output import moment, print_fields, print_json
from crawler.commands._subcommands import Verb
from crawler.errors import ConfigurationError, NotFound
from crawler.scheduling.add_seeds import add_seeds


def _url_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("url", metavar="URL")


async def _url(asked: Asked) -> None:
    url = asked.url()
    found = await asked.control.status(url)
    entry = found.entry
    facts = {
        "url": url,
        # As it is fetched, where that is another spelling.
        "written": entry.written_url if entry is not None and entry.written else None,
        "state": found.state,
        "owner": found.owner or None,
        "reason": found.reason or None,
        "at": moment(found.at_ms),
        "depth": None if entry is None else entry.depth,
        "queue": None if entry is None else entry.queue,
        "attempts": None if entry is None else entry.attempts,
        "history": [] if entry is None else entry.tail.get("history", []),
    }
    if asked.arguments.json:
        print_json(facts)
    else:
        print_fields({name: value for name, value in facts.items() if value not in (None, [])})
    if found.state == "unseen":
        raise NotFound(f"The crawl {asked.crawl!r} has not seen {url}.")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("url", metavar="URL", nargs="+")


async def _add(asked: Asked) -> None:
    found = await add_seeds(asked.control, asked.arguments.url)
    if asked.arguments.json:
        names = ("given", "url", "state", "reason", "detail")
        print_json([{name: getattr(seed, name) for name in names} for seed in found])
    else:
        for seed in found:
            why = f": {seed.detail}" if seed.detail else ""
            print(f"{seed.state:8}  {seed.url or seed.given}{why}")
    if any(seed.state == "rejected" for seed in found):
        raise ConfigurationError("Some of the URLs were rejected.")


async def _forget(asked: Asked) -> None:
    url = asked.url()
    if not await asked.control.forget(url):
        raise NotFound(f"The crawl {asked.crawl!r} does not know {url}.")
    if asked.arguments.json:
        print_json({"url": url, "forgotten": True})
    else:
        print(f"{url} is forgotten: it is crawled again when it is added or found again.")


VERBS = {
    "url": Verb("where a URL is, and what happened to it", "URL", _url_arguments, asks(_url)),
    "add": Verb("add seeds", "URL …", _add_arguments, asks(_add)),
    "forget": Verb("let a URL be crawled again", "URL", _url_arguments, asks(_forget)),
}


def _arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("--reason", default="", help="only those with this reason")
    parser.add_argument("--host", default="", help="only those of this host")


def _dead_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments(parser)
    parser.add_argument("--limit", type=number, default=1000, help="how many to list (1000)")


async def _dead(asked: Asked) -> None:
    given = asked.arguments
    letters = await asked.control.dead(reason=given.reason, host=given.host, limit=given.limit)
    if given.json:
        print_json(
            [
                {
                    "at": moment(letter.at_ms),
                    "reason": letter.reason,
                    "url": None if letter.entry is None else letter.entry.url,
                    "host": letter.host,
                }
                for letter in letters
            ]
        )
        return
    if not letters:
        print("There is no dead letter like that.", file=sys.stderr)
    for letter in letters:
        url = letter.entry.url if letter.entry is not None else repr(letter.data[:80])
        print(f"{moment(letter.at_ms):%Y-%m-%d %H:%M:%S}  {letter.reason:20}  {url}")


async def _requeue(asked: Asked) -> None:
    given = asked.arguments
    count = await asked.control.requeue(reason=given.reason, host=given.host)
    if given.json:
        print_json({"requeued": count})
    else:
        print(f"{count} of the dead wait again")


DEAD_LETTER_VERBS = {
    "dead": Verb(
        "list the newest dead letters",
        "[--reason REASON] [--host HOST] [--limit N]",
        _dead_arguments,
        asks(_dead),
    ),
    "requeue": Verb(
        "let dead letters be crawled once more",
        "[--reason REASON] [--host HOST]",
        _arguments,
        asks(_requeue),
    ),
}
