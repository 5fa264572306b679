"""Verbs about URLs: url, add, forget."""

from __future__ import annotations

import argparse

from crawler.admin.seeding import add_seeds
from crawler.errors import ConfigurationError, NotFound
from crawler.frontier_verbs.asking import Asked, asks, common
from crawler.frontier_verbs.output import moment, print_fields, print_json
from crawler.verbs import Verb


def _url_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("url", metavar="URL")


async def _url(asked: Asked) -> None:
    url = asked.url()
    found = await asked.steering.status(url)
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
    found = await add_seeds(asked.steering, asked.arguments.url)
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
    if not await asked.steering.forget(url):
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
