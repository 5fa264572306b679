"""Verbs about crawls as a whole: crawls, status, pause, resume, delete; and starting one anew."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from crawler.commands._frontier.connect import Asked, as_json, asks, asks_redis, common
from crawler.commands._output import confirmed, print_fields, print_json, print_table
from crawler.commands._subcommands import Verb
from crawler.errors import ConfigurationError, NotFound
from crawler.frontier import CrawlControl, meta
from crawler.scheduling import connect
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import Client
from crawler.storage.spill import Spill

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

PROGRESS_KEYS = 10_000


async def _crawls(redis: Client, arguments: argparse.Namespace) -> None:
    found = [await _about(redis, *crawl) for crawl in (await meta.crawls(redis)).items()]
    if arguments.json:
        print_json(found)
        return
    if not found:
        raise NotFound("There is no crawl in this Redis.")
    names = ("crawl", "pages", "waiting", "leased", "processes", "note")
    print_table(names, [[crawl[name] for name in names] for crawl in found])


async def _about(redis: Client, crawl: str, version: str) -> dict[str, Any]:
    """A line about a crawl; of one that this program cannot read, why."""
    about: dict[str, Any] = {"crawl": crawl, **dict.fromkeys(("pages", "waiting", "leased"))}
    about |= {"processes": None, "note": ""}
    if version not in meta.READABLE:
        return about | {"note": f"of another version of this program (data model {version})"}
    control = await CrawlControl.of(redis, crawl)
    sizes = await control.sizes()
    return about | {
        "pages": sizes.pages,
        "waiting": sizes.waiting,
        "leased": sizes.leased,
        "processes": len(await control.instances()),
        "note": "paused" if sizes.paused else "",
    }


async def _status(asked: Asked) -> None:
    sizes = await asked.control.sizes()
    hosts = await asked.control.host_counts()
    workers = await asked.control.instances()
    options = await asked.control.options()
    paused = sizes.paused > 0
    if asked.arguments.json:
        said = asdict(sizes) | {"waiting": sizes.waiting, "unfinished": sizes.unfinished}
        about = {"crawl": asked.crawl, **said, "paused": paused}
        print_json(about | {"hosts_by_state": hosts, "workers": workers, "options": options})
        return
    front = " ".join(f"F{n} {count:,}" for n, count in enumerate(sizes.front, 1))
    dropped = sizes.dropped_excluded + sizes.dropped_purged + sizes.dropped_budget + sizes.refused
    print_fields(
        {
            "crawl": asked.crawl + (", paused" if paused else ""),
            "pages crawled": sizes.pages,
            "URLs found": sizes.added,
            "done": sizes.done,
            "waiting": f"{sizes.waiting:,} ({front}, back {sizes.back:,})",
            "leased": sizes.leased,
            "to retry": sizes.retries,
            "to recrawl": sizes.recrawls,
            "given up": sizes.dead,
            "dropped": dropped,
            "hosts": ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in hosts.items()),
            "options": options or "none",
        }
    )
    rows = [_worker(name, about) for name, about in workers.items()]
    print()
    if rows:
        print_table(("process", "machine", "pid", "pages", "leases", "shards"), rows)
    else:
        print("No process works on it.")
    for about in workers.values():
        for trouble in about.get("troubles", []):
            print(f"{about.get('machine')} {about.get('pid')}: {trouble}")


def _worker(name: str, about: dict[str, Any]) -> list[Any]:
    names = ("machine", "pid", "pages", "held")
    shards = ", ".join(map(str, about.get("shards", [])[:8]))
    machine, pid, *rest = (about.get(field) for field in names)
    # A process id is no quantity.
    return [name, machine, str(pid), *rest, shards]


async def _pause(asked: Asked) -> None:
    await asked.control.pause()
    _say(asked, paused=True)


async def _resume(asked: Asked) -> None:
    await asked.control.resume()
    _say(asked, paused=False)


def _say(asked: Asked, *, paused: bool) -> None:
    if asked.arguments.json:
        print_json({"crawl": asked.crawl, "paused": paused})
    elif paused:
        print(f"The crawl {asked.crawl!r} is paused; what is in flight finishes.")
    else:
        print(f"The crawl {asked.crawl!r} goes on.")


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    common(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


async def _delete(asked: Asked) -> None:
    name = asked.crawl
    urls = (await asked.control.sizes()).added
    confirm_deletion(name, urls, yes=asked.arguments.yes)
    gone = await delete(asked.control, asked.spill)
    if asked.arguments.json:
        print_json({"crawl": name, "keys_deleted": gone})
    else:
        print(f"The crawl {name!r} is deleted: {gone:,} keys.")


# --- what the commands that start a crawl do, too -------------------------------------------------


def fresh_arguments(parser: argparse.ArgumentParser) -> None:
    """Options by which a crawl starts anew."""
    parser.add_argument(
        "--fresh", action="store_true", help="delete what the crawl has in Redis, and start anew"
    )
    parser.add_argument("--yes", action="store_true", help="with --fresh: do not ask")


async def urls_of(redis: Client, crawl: str, spider: str) -> int | None:
    """How many URLs a crawl has; None if there is none, an error if it is another spider's."""
    try:
        found = await meta.read(redis, crawl)
    except NotFound:
        return None
    found.check_spider(crawl, spider)
    return (await (await CrawlControl.of(redis, crawl)).sizes()).added


def confirm_deletion(crawl: str, urls: int, *, yes: bool) -> None:
    """Ask the user, who may have said yes before; ConfigurationError if it is none."""
    question = f"Delete the crawl {crawl!r} with {urls:,} URLs from Redis? Pages stay."
    if not yes and not confirmed(question):
        raise ConfigurationError(f"The crawl {crawl!r} was not deleted; say yes, or give --yes.")


async def forget(crawl: str, servers: Servers, settings: BaseSettings) -> None:
    """Delete a crawl, so that it starts anew."""
    control = await CrawlControl.of(await servers.redis(), crawl)
    await delete(control, partial(connect.spill_of, crawl, servers, settings))


async def delete(control: CrawlControl, spill: Callable[[], Awaitable[Spill | None]]) -> int:
    """Delete a crawl that nobody works on; says how many keys are gone."""
    # What was never refused cannot wait outside; where MongoDB is away, nothing is deleted.
    refused = (await control.sizes()).refused
    spilled = await spill() if refused else None
    gone = told = 0
    async for gone in control.delete():
        if gone - told >= PROGRESS_KEYS:
            told = gone
            print(f"{gone:,} keys deleted …", file=sys.stderr)
    if spilled is not None:
        # Else a crawl that gets its name would begin with them.
        await spilled.clear()
    return gone


VERBS = {
    "crawls": Verb("the crawls in this Redis", "", as_json, asks_redis(_crawls)),
    "status": Verb("how the crawl stands", "", common, asks(_status)),
    "pause": Verb("fetch nothing new until resumed", "", common, asks(_pause)),
    "resume": Verb("go on", "", common, asks(_resume)),
    "delete": Verb("delete the crawl from Redis", "[--yes]", _delete_arguments, asks(_delete)),
}
