"""Verbs about dead letters: dead, requeue."""

from __future__ import annotations

import argparse
import sys

from crawler.frontier_verbs.asking import Asked, asks, common, number
from crawler.frontier_verbs.output import moment, print_json
from crawler.verbs import Verb


def _arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("--reason", default="", help="only those with this reason")
    parser.add_argument("--host", default="", help="only those of this host")


def _dead_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments(parser)
    parser.add_argument("--limit", type=number, default=1000, help="how many to list (1000)")


async def _dead(asked: Asked) -> None:
    given = asked.arguments
    letters = await asked.steering.dead(reason=given.reason, host=given.host, limit=given.limit)
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
    count = await asked.steering.requeue(reason=given.reason, host=given.host)
    if given.json:
        print_json({"requeued": count})
    else:
        print(f"{count} of the dead wait again")


VERBS = {
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
