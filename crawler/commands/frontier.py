"""`scrapy frontier`: inspect and control a crawl that runs or has ended.

A verb is its arguments and a coroutine that gets a `VerbContext`, calls the query layer and prints
the answer. No verb creates a crawl.
Exit 0: done; 1: not found; 2: wrong arguments or settings; 3: Redis does not answer.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from ast import literal_eval
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymongo
from scrapy.commands import ScrapyCommand
from scrapy.spiderloader import get_spider_loader

from crawler.admin import queries
from crawler.admin.host_records import HostRecords, RobotsFile
from crawler.admin.refusals import Gates
from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    confirmed,
    fields,
    harmless,
    print_json,
    print_table,
    progress_bar,
    time,
    whole_number,
)
from crawler.commands.pages import delete_pages
from crawler.config.values import crawl_name, url_rules, value
from crawler.discovery.follow import page_ranks, scorer
from crawler.discovery.priority import Facts, HostFacts, clamp, front_queue, is_home_page
from crawler.discovery.scope import QUEUE_OF_ENDING, extension
from crawler.errors import ConfigurationError, CrawlerError, NotFound
from crawler.frontier import CrawlControl, Frontier, meta
from crawler.frontier.control import SORTS, STATES
from crawler.frontier.entry import DOCUMENTS, MEDIA, PAGE_QUEUES
from crawler.frontier.on_disk import OnDisk
from crawler.frontier.records import by_queue
from crawler.frontier.stores import KnownStores
from crawler.scheduler import frontier_tuning, shards_of, spill_of
from crawler.scheduling import options
from crawler.scheduling.options import CrawlOptions
from crawler.scheduling.rebuild import Rebuild, link_rules
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import Client
from crawler.servers.redis.settings import redis_url
from crawler.spiders.web import ARGUMENTS, WebSpider
from crawler.storage.disk_log import crawl_folder
from crawler.storage.mongo import schema
from crawler.storage.reader import PageReader, Wanted
from crawler.storage.readers import open_reader
from crawler.storage.runs import Run, WantedRuns
from crawler.urls import Rejected, Spelling, Urls, host_of, written_url
from crawler.util import format as formats

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Name of a crawl by our spider.
DEFAULT_CRAWL = "web"
# Looking for crawls reads all keys, which may be many.
_OTHERS_S = 1.0


@dataclass(frozen=True, slots=True)
class VerbContext:
    """Crawl that a verb works on, and the verb's arguments."""

    crawl: str
    control: CrawlControl
    arguments: argparse.Namespace
    servers: Servers
    settings: BaseSettings

    def show(self, value: Any, text: str) -> None:
        """Print the value with --json, else the text."""
        if self.arguments.json:
            print_json(value)
        else:
            print(text)


def on_crawl(
    work: Callable[[VerbContext], Awaitable[None]], *, may_guess: bool = True
) -> Callable[[BaseSettings, argparse.Namespace], None]:
    """Make the function of a verb that works on one crawl; `may_guess` if it need not be named."""

    def run(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        given = crawl_name(settings, "", arguments.crawl)
        urls = Urls(url_rules(settings))

        async def open_crawl(servers: Servers, redis: Client) -> None:
            crawl = given or (await _unnamed_crawl(redis) if may_guess else DEFAULT_CRAWL)
            try:
                control = await CrawlControl.open(redis, crawl, urls)
            except NotFound as error:
                there = ", ".join(await meta.crawls(redis)) or "none"
                raise NotFound(f"{error} There are: {there}.") from error
            await work(VerbContext(crawl, control, arguments, servers, settings))

        _with_redis(settings, open_crawl)

    return run


async def _unnamed_crawl(redis: Client) -> str:
    """Return the crawl that a user means who names none: web, or else the only one there is."""
    with suppress(NotFound):
        await meta.read(redis, DEFAULT_CRAWL)
        return DEFAULT_CRAWL
    found = await meta.crawls(redis)
    if not found:
        raise NotFound("There is no crawl in this Redis.")
    if len(found) > 1:
        raise ConfigurationError(f"Name one of the crawls by --crawl: {', '.join(found)}.")
    return next(iter(found))


def _with_redis(settings: BaseSettings, work: Callable[[Servers, Client], Awaitable[None]]) -> None:
    async def open_redis(servers: Servers) -> None:
        await work(servers, await servers.redis())

    check_folder(settings)
    _with_servers(settings, open_redis)


def _with_servers(settings: BaseSettings, work: Callable[[Servers], Awaitable[None]]) -> None:
    async def open_servers() -> None:
        servers = Servers.from_settings(settings)
        try:
            await work(servers)
        finally:
            await servers.close()

    asyncio.run(open_servers())


def check_folder(settings: BaseSettings) -> None:
    """Raise NotFound where no crawl ever was: an embedded server would create an empty one."""
    folder = Path(settings["CRAWL_DIR"])
    if not redis_url(settings) and not (folder / "redis").is_dir():
        raise NotFound(
            f"There is no crawl in {str(folder)!r}: crawl first, or name the crawl's folder by "
            "-s CRAWL_DIR=… or its server by -s REDIS_URL=…"
        )


def _common_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--crawl", default="", help="name of the crawl (CRAWL, web, or the only one)"
    )
    add_json_option(parser)


# --- crawls ---------------------------------------------------------------------------------------


def _crawls(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    async def show(_servers: Servers, redis: Client) -> None:
        found = [asdict(crawl) for crawl in await queries.crawls(redis)]
        if arguments.json:
            print_json(found)
            return
        if not found:
            raise NotFound("There is no crawl in this Redis.")
        print_table(list(found[0]), [list(crawl.values()) for crawl in found])

    _with_redis(settings, show)


async def _status(verb: VerbContext) -> None:
    status = await queries.status(verb.crawl, verb.control)
    vitals = await queries.vitals(verb.crawl, await verb.servers.redis(), verb.control, minutes=0)
    hosts, sinks, spool = vitals["hosts"], vitals["sinks"], vitals["spool"]
    if verb.arguments.json:
        sizes = asdict(await verb.control.frontier.sizes())
        sizes |= {"waiting": status.waiting, "unfinished": status.unfinished}
        about = {"crawl": verb.crawl, **sizes, "paused": status.paused, "hosts_by_state": hosts}
        live = {worker.id: worker.about for worker in status.workers}
        about |= {"workers": live, "sinks": sinks, "spool": spool}
        print_json(about | {"options": status.options})
        return
    queues = by_queue(status.waiting_by_queue)
    front = " ".join(f"{name} {count:,}" for name, count in queues.items())
    shown = {
        "crawl": verb.crawl + (", paused" if status.paused else ""),
        "pages crawled": status.pages,
        "URLs found": status.found,
        "done": status.done,
        "waiting": f"{status.waiting:,} ({front}, back {status.waiting_by_host:,})",
        "leased": status.leased,
        "to retry": status.retries,
        "to recrawl": status.recrawls,
        "given up": status.dead,
        "dropped": sum(asdict(status.dropped).values()),
        "hosts": ", ".join(f"{n:,} {state.replace('_', ' ')}" for state, n in hosts.items()),
        "options": status.options or "none",
    }
    print(f"{fields(shown)}\n")
    rows = [
        # A process id is no quantity.
        (
            one.id,
            one.machine,
            str(one.pid),
            one.pages,
            one.held,
            ", ".join(map(str, one.shards[:8])),
        )
        for one in status.workers
    ]
    if rows:
        print_table(("process", "machine", "pid", "pages", "leases", "shards"), rows)
    else:
        print("No process works on it.")
    _print_sinks(sinks, spool)
    for trouble in status.troubles:
        print(trouble)
    if not crawl_name(verb.settings, "", verb.arguments.crawl):
        await _print_others(verb)


async def _print_others(verb: VerbContext) -> None:
    """Name the other crawls to somebody who named none, unless finding them takes long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_OTHERS_S):
            others = set(await meta.crawls(await verb.servers.redis())) - {verb.crawl}
            if others:
                print(f"\nOther crawls here, by --crawl NAME: {', '.join(sorted(others))}")


def _print_sinks(sinks: list[dict[str, Any]], spool: dict[str, Any]) -> None:
    rows = [
        (
            *(sink["name"], sink["state"], sink["pages"], formats.rate(sink["pages_per_s"])),
            *(formats.size(sink["bytes"]), sink["waiting"], formats.duration(sink["lag_s"])),
            sink["failed_writes"],
        )
        for sink in sinks
    ]
    if rows:
        print()
        titles = ("sink", "state", "pages", "pages/s", "size", "waiting", "lag", "failed writes")
        print_table(titles, rows)
    if spool["pages"]:
        print(f"spooled: {formats.plural(spool['pages'], 'page')}, {formats.size(spool['bytes'])}")
    for place in spool["places"]:
        print(f"spooled in {place}")


async def _pause(verb: VerbContext) -> None:
    await verb.control.pause()
    text = f"The crawl {verb.crawl!r} is paused; what is in flight finishes."
    verb.show({"crawl": verb.crawl, "paused": True}, text)


async def _resume(verb: VerbContext) -> None:
    await verb.control.resume()
    verb.show({"crawl": verb.crawl, "paused": False}, f"The crawl {verb.crawl!r} goes on.")


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument(
        "--pages", action="store_true", help="delete its stored pages too; else they stay"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


async def _delete(verb: VerbContext) -> None:
    crawl, urls = verb.crawl, (await verb.control.frontier.sizes()).added
    if not verb.arguments.pages:
        confirm_deletion(crawl, urls, yes=verb.arguments.yes)
        deleted = await delete_crawl(crawl, verb.servers, verb.settings)
        text = (
            f"The crawl {crawl!r} is deleted: {deleted:,} keys. Its pages stay; to delete them: "
            f"scrapy pages delete --crawl {crawl}"
        )
        verb.show({"crawl": crawl, "keys_deleted": deleted}, text)
        return
    wanted = Wanted(crawl=crawl)
    # First, as the store may be away, or of another version.
    reader = await open_reader(verb.settings, verb.servers)
    with pymongo.timeout(schema.LONG_S):
        count = await reader.count(wanted)
    pages = f"its {formats.plural(count, 'page')} from {reader.name}"
    confirm_deletion(crawl, urls, also=pages, yes=verb.arguments.yes)
    deleted = await delete_crawl(crawl, verb.servers, verb.settings)
    gone = await delete_pages(reader, wanted, count)
    if verb.settings["SPOOL_DIR"]:
        spool = crawl_folder(verb.settings["SPOOL_DIR"], crawl)
        await asyncio.to_thread(shutil.rmtree, spool, ignore_errors=True)
    text = f"The crawl {crawl!r} is deleted: {deleted:,} keys and {formats.plural(gone, 'page')}."
    verb.show({"crawl": crawl, "keys_deleted": deleted, "pages_deleted": gone}, text)


# --- deletion, also for starts with --fresh -------------------------------------------------------

PROGRESS_KEYS = 10_000


def add_fresh_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that can start a crawl anew."""
    parser.add_argument(
        "--fresh", action="store_true", help="delete what the crawl has in Redis, and start anew"
    )
    parser.add_argument("--yes", action="store_true", help="with --fresh: do not ask")


async def count_urls(redis: Client, crawl: str, spider: str) -> int | None:
    """Count the URLs of a crawl; None if it does not exist, an error if another spider has it."""
    try:
        found = await meta.read(redis, crawl)
    except NotFound:
        return None
    found.check_spider(crawl, spider)
    return (await (await CrawlControl.open(redis, crawl)).frontier.sizes()).added


def confirm_deletion(crawl: str, urls: int, *, also: str = "", yes: bool) -> None:
    """Ask the user, unless `yes`; raise ConfigurationError if the answer is no.

    `also` says which pages are deleted too; empty if they stay.
    """
    question = f"Delete the crawl {crawl!r} with {urls:,} URLs from Redis"
    question += f", and {also}?" if also else "? Pages stay."
    if not yes and not confirmed(question):
        raise ConfigurationError(f"The crawl {crawl!r} was not deleted; say yes, or give --yes.")


async def delete_crawl(crawl: str, servers: Servers, settings: BaseSettings) -> int:
    """Delete a crawl that no process works on; return the number of deleted keys.

    If it does not exist, a crawl of its name may begin beside the pages of an earlier one.
    """
    redis = await servers.redis()
    try:
        control = await CrawlControl.open(redis, crawl)
    except NotFound:
        await KnownStores(redis, crawl).begin_anew()
        return 0
    # URLs are spilled only after some were refused. Connect before anything is deleted: the server
    # that has them may be away.
    places = await OnDisk(redis, crawl).places()
    refused = (await control.frontier.sizes()).refused
    spill = spill_of(crawl, servers, settings, redis) if refused else None
    if spill is not None:
        await spill.some(1)
    deleted = shown = 0
    async for deleted in control.delete():
        if deleted - shown >= PROGRESS_KEYS:
            shown = deleted
            print(f"{deleted:,} keys deleted …", file=sys.stderr)
    if spill is not None:
        # A new crawl of the same name would begin with them.
        await spill.clear()
        await spill.close()
    if places:
        print(
            "Processes of the crawl left pages or URLs on disks; a new crawl of its name begins "
            f"with those that are still there: {', '.join(sorted(set(places.values())))}",
            file=sys.stderr,
        )
    return deleted


# --- rebuild --------------------------------------------------------------------------------------


def _rebuild_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument(
        "-a",
        dest="arguments",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the crawl, as for scrapy crawl (those of its last run)",
    )
    parser.add_argument(
        "--merge", action="store_true", help="add to a frontier that is not empty, too"
    )


def _rebuild(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    async def rebuild(servers: Servers) -> None:
        crawl = crawl_name(settings, "", arguments.crawl) or DEFAULT_CRAWL
        reader = await open_reader(settings, servers)
        run = await _last_run(reader, crawl)
        _check_generic(run.spider, settings)
        # After the store: an embedded server would create a folder where no crawl ever was.
        redis = await servers.redis()
        given = _options_of(run, arguments.arguments)
        frontier, control = await _open_for_rebuild(redis, crawl, run, settings)
        known, sizes = KnownStores(redis, crawl), await frontier.sizes()
        # What processes repeated before they ended is all that a lost one has.
        is_lost = not sizes.done and not await known.all()
        if sizes.added and not (is_lost or arguments.merge or await known.is_rebuilt()):
            raise ConfigurationError(
                f"The frontier of the crawl {crawl!r} is not empty: it has {sizes.added:,} URLs. "
                "--merge adds what it lacks of the stored pages and their links; to make it anew, "
                f"delete it first: scrapy frontier delete --crawl {crawl}"
            )
        await known.begin_rebuild()
        await control.set_options(given)
        rebuild = Rebuild(
            *(frontier, control, reader, await options.of_crawl(control)),
            lambda now: link_rules(settings, control.urls, now),
        )
        with progress_bar("records", 2 * await rebuild.count()) as advance:
            found = await rebuild.run(advance)
        await known.end_rebuild()
        if arguments.json:
            print_json({"crawl": crawl, **asdict(found)})
            return
        plural = formats.plural
        print(
            f"The frontier of the crawl {crawl!r} has {plural(found.crawled, 'crawled URL')}, from "
            f"{plural(found.records, 'record')} in {reader.name}; {found.recrawls:,} of them are "
            f"visited again. {plural(found.waiting, 'link')} and {found.to_fetch_again:,} pages "
            "with more links than their records wait. Start the crawl with its seeds now."
        )
        if found.unreadable:
            print(f"{plural(found.unreadable, 'record')} could not be read.", file=sys.stderr)

    _with_servers(settings, rebuild)


async def _last_run(reader: PageReader, crawl: str) -> Run:
    """Return the newest record of a run, which has the options of the crawl."""
    runs = await reader.runs.find(WantedRuns(datetime.now(UTC), crawl, limit=1))
    if not runs:
        raise NotFound(f"{reader.name} has no run of a crawl {crawl!r}; name it by --crawl.")
    return runs[0]


def _check_generic(spider: str, settings: BaseSettings) -> None:
    """Raise ConfigurationError unless the links of a spider's pages are followed by themselves."""
    try:
        found = get_spider_loader(settings).load(spider)
    except KeyError:
        found = None
    if found is None or not issubclass(found, WebSpider):
        raise ConfigurationError(
            f"The crawl is of the spider {spider!r}, which is not the generic one nor made of it: "
            "a store does not have the requests that its callbacks yield. Crawl again with --fresh."
        )


def _options_of(run: Run, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options of a crawl: those of a run, and those that are given now."""
    found = {name: _recorded(name, run) for name in options.ARGUMENTS if name in run.options}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals:
            raise ConfigurationError(f"-a {argument!r} is no NAME=VALUE.")
        if name not in ARGUMENTS:
            raise ConfigurationError(f"There is no argument {name!r} of the spider web.")
        if name in options.ARGUMENTS:
            found[name] = text
    return options.checked(found)


def _recorded(name: str, run: Run) -> Any:
    """Return an option as a run recorded it: lists as text, cut at some length."""
    recorded = run.options[name]
    if not isinstance(recorded, str) or not recorded.startswith(("[", "(")):
        return recorded
    try:
        return list(literal_eval(recorded))
    except (ValueError, SyntaxError) as error:
        raise ConfigurationError(
            f"The option {name} of the last run is too long for its record; give it by -a {name}=…"
        ) from error


async def _open_for_rebuild(
    redis: Client, crawl: str, run: Run, settings: BaseSettings
) -> tuple[Frontier, CrawlControl]:
    """Create the frontier, or open what is there of it; refused while processes work on it."""
    urls = Urls(url_rules(settings))
    tuning = replace(frontier_tuning(settings, beat_s=2.0), full_at=0)
    shards = await shards_of(redis, crawl, settings)
    frontier = Frontier(redis, crawl, shards=shards, tuning=tuning, spider=run.spider)
    await frontier.create()
    control = await CrawlControl.open(redis, crawl, urls)
    if await control.instances():
        raise CrawlerError(
            f"The crawl {crawl!r} is being worked on; stop its processes first. One that was "
            "killed counts for 30 s."
        )
    return frontier, control


# --- hosts ----------------------------------------------------------------------------------------

# Practically for ever, and still a date that every program can represent.
_FOR_EVER_S = 100 * 365 * 86_400


def _hosts_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("search", metavar="TEXT", nargs="?", default="", help="part of the name")
    parser.add_argument("--state", choices=STATES, default="", help="only hosts in this state")
    parser.add_argument("--sort", choices=tuple(SORTS), default="next", help="order (next)")
    parser.add_argument("--offset", type=whole_number, default=0, help="how many to skip (0)")
    parser.add_argument("--limit", type=whole_number, default=50, help="how many to list (50)")


async def _hosts(verb: VerbContext) -> None:
    given = verb.arguments
    page = await queries.hosts(
        verb.control,
        search=given.search,
        state=given.state,
        sort=given.sort,
        offset=given.offset,
        limit=given.limit,
    )
    hosts = [_host_fields(host) for host in page.hosts]
    if given.json:
        print_json({"hosts": hosts, "total": page.total, "complete": page.complete})
        return
    names = ("state", "waiting", "pages", "delay_ms", "next_contact", "host")
    print_table(
        [name.replace("_", " ") for name in names],
        [[host[name] for name in names] for host in hosts],
    )
    more = "" if page.complete else " or more: not all hosts were read"
    print(f"\n{len(hosts):,} of {page.total:,} hosts{more}")


def _host_fields(host: queries.Host) -> dict[str, Any]:
    found = asdict(host)
    found["delay_ms"] = round(found.pop("usual_delay_s") * 1000)
    return found


def _host_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("host", metavar="HOST")


async def _host(verb: VerbContext) -> None:
    found = _host_fields(await queries.host(verb.control, verb.arguments.host))
    verb.show(found, fields(found))


def _block_arguments(parser: argparse.ArgumentParser) -> None:
    _host_arguments(parser)
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=_seconds,
        default=_FOR_EVER_S,
        help="90s, 30m, 2h or 1d (for ever)",
    )


def _seconds(text: str) -> int:
    found = formats.seconds(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 30m, 2h or 1d")
    return min(found, _FOR_EVER_S)


async def _block(verb: VerbContext) -> None:
    seconds = verb.arguments.seconds
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    host = await queries.order(verb.control, verb.arguments.host, {"blocked_until": until})
    end = "it is unblocked" if seconds == _FOR_EVER_S else f"{until:%Y-%m-%d %H:%M:%S} UTC"
    verb.show(_host_fields(host), f"{host.host} is not contacted until {end}; its URLs wait.")


async def _unblock(verb: VerbContext) -> None:
    host = await queries.host(verb.control, verb.arguments.host)
    if not (host.blocked_until or host.excluded):
        raise NotFound(f"{host.host} is neither blocked nor excluded.")
    orders = {"blocked_until": None, "excluded": False}
    host = await queries.order(verb.control, host.host, orders)
    verb.show(_host_fields(host), f"{host.host} is contacted again.")


def _record_arguments(parser: argparse.ArgumentParser) -> None:
    _host_arguments(parser)
    parser.add_argument(
        "--forget", action="store_true", help="forget it in the whole fleet, within 2 s"
    )


async def _robots(verb: VerbContext) -> None:
    records, redis = HostRecords.from_settings(verb.settings), await verb.servers.redis()
    name = verb.arguments.host
    if verb.arguments.forget:
        forgotten = await records.forget_robots(verb.control, redis, name)
        known = ", ".join(forgotten.forgotten) or "nothing was cached"
        text = f"robots.txt of {forgotten.host} is fetched anew by its next URL ({known})."
        verb.show(asdict(forgotten), text)
        return
    found = await records.robots(verb.control, redis, name)
    parts = [_shown_file(file, found.user_agent) for file in found.files]
    nothing = f"No robots.txt of {found.host} is cached; its next URL fetches it."
    verb.show(asdict(found), "\n\n".join(parts) or nothing)


def _shown_file(file: RobotsFile, user_agent: str) -> str:
    delay_s = file.crawl_delay_s
    shown = {
        "file": file.url,
        "state": file.state.replace("_", " "),
        "status": file.status,
        "reason": file.reason or None,
        "failures in a row": file.failures or None,
        "fetched": time(file.fetched_at),
        "used until": time(file.expires),
        "judged for": user_agent,
        "may fetch /": file.allows_root,
        "Crawl-delay": None if delay_s is None else f"{delay_s:g} s",
        "sitemaps": ", ".join(file.sitemaps) or None,
        "size": formats.size(file.size_bytes),
    }
    known = {name: value for name, value in shown.items() if value is not None}
    return f"{fields(known)}\n\n{harmless(file.text)}".rstrip()


async def _dns(verb: VerbContext) -> None:
    records, redis = HostRecords.from_settings(verb.settings), await verb.servers.redis()
    name = verb.arguments.host
    if verb.arguments.forget:
        forgotten = await records.forget_dns(verb.control, redis, name)
        known = ", ".join(forgotten.forgotten) or "no address was cached"
        verb.show(
            asdict(forgotten), f"{forgotten.host} is looked up anew by its next fetch ({known})."
        )
        return
    found = asdict(await records.dns(verb.control, redis, name))
    shown = found | {"addresses": ", ".join(found["addresses"])}
    verb.show(
        found, fields({name: value for name, value in shown.items() if value not in ("", None)})
    )


# --- URLs -----------------------------------------------------------------------------------------


def _url_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("url", metavar="URL")


async def _url(verb: VerbContext) -> None:
    found = await queries.url(verb.control, verb.arguments.url)
    shown = asdict(found) | {
        "owner": found.owner or None,
        "reason": found.reason or None,
        "history": [(failure.reason, int(failure.at.timestamp())) for failure in found.history],
    }
    del shown["page"], shown["page_note"]
    present = {name: value for name, value in shown.items() if value not in (None, [])}
    verb.show(shown, fields(present))
    if found.state == "unseen":
        raise NotFound(f"The crawl {verb.crawl!r} has not seen {found.url}.")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("url", metavar="URL", nargs="+")


async def _add(verb: VerbContext) -> None:
    found = await queries.add_seeds(verb.control, verb.arguments.url)
    lines = [
        f"{seed.state:8}  {seed.url or seed.given}" + (f": {seed.detail}" if seed.detail else "")
        for seed in found.urls
    ]
    verb.show([asdict(seed) for seed in found.urls], "\n".join(lines))
    if found.rejected:
        raise ConfigurationError("Some of the URLs were rejected.")


async def _forget(verb: VerbContext) -> None:
    url = await queries.forget(verb.control, verb.arguments.url)
    text = f"{url} is forgotten: it is crawled again when it is added or found again."
    verb.show({"url": url, "forgotten": True}, text)


# --- dead letters ---------------------------------------------------------------------------------


def _requeue_arguments(parser: argparse.ArgumentParser) -> None:
    _common_arguments(parser)
    parser.add_argument("--reason", default="", help="only those with this reason")
    parser.add_argument("--host", default="", help="only those of this host")


def _dead_arguments(parser: argparse.ArgumentParser) -> None:
    _requeue_arguments(parser)
    parser.add_argument("--limit", type=whole_number, default=1000, help="how many to list (1000)")


async def _dead(verb: VerbContext) -> None:
    given = verb.arguments
    page = await queries.dead_letters(
        verb.control, reason=given.reason, host=given.host, limit=given.limit
    )
    if given.json:
        print_json(
            [
                {"at": one.at, "reason": one.reason, "url": one.url or None, "host": one.host}
                for one in page.letters
            ]
        )
        return
    if not page.letters:
        print("There is no dead letter like that.", file=sys.stderr)
    for one in page.letters:
        print(f"{one.at:%Y-%m-%d %H:%M:%S}  {one.reason:20}  {one.url or repr(one.data[:200])}")


async def _requeue(verb: VerbContext) -> None:
    given = verb.arguments
    count = await verb.control.requeue(reason=given.reason, host=given.host)
    verb.show({"requeued": count}, f"{count} of the dead wait again")


# --- explain --------------------------------------------------------------------------------------


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    _url_arguments(parser)
    parser.add_argument("--page", default="", help="the page that links to it (one of its host)")
    parser.add_argument("--depth", type=whole_number, default=1, help="links from a seed (1)")
    parser.add_argument(
        "--host-urls",
        type=whole_number,
        help=f"URLs of its host found so far ({HostFacts().urls}, or those of --crawl)",
    )
    parser.add_argument(
        "--inbound",
        type=whole_number,
        help="links to its host from other domains (0, or those of --crawl)",
    )
    parser.add_argument(
        "--links",
        type=whole_number,
        help="links to it from other domains (0, or those of --crawl)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="its sitemap says: changed within a day"
    )
    parser.set_defaults(crawl=None)


def _explain(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    """Explain a score by the settings alone, or with --crawl by what that crawl knows, too."""
    if arguments.crawl is None:
        _show_score(settings, arguments, None, (HostFacts().urls, 0, 0))
        return

    async def with_options(verb: VerbContext) -> None:
        url = _spelling(settings, arguments.url)[0]
        counts = await verb.control.counts_of(url)
        _show_score(settings, arguments, await options.of_crawl(verb.control), counts)

    on_crawl(with_options)(settings, arguments)


def _show_score(
    settings: BaseSettings,
    arguments: argparse.Namespace,
    crawl: CrawlOptions | None,
    counts: tuple[int, int, int],
) -> None:
    """Show a score; `counts` are those of CrawlControl.counts_of, unless others are given."""
    spelling = _spelling(settings, arguments.url)
    url, written = spelling[0], written_url(*spelling)
    page = _spelling(settings, arguments.page)[0] if arguments.page else url
    depth = arguments.depth
    given = (arguments.host_urls, arguments.inbound, arguments.links)
    host_urls, inbound, links = (
        known if number is None else number for number, known in zip(given, counts, strict=True)
    )
    ranks = page_ranks(settings)
    ids = Urls(url_rules(settings)).fingerprints([url])
    rank = 0.0 if ranks is None else ranks.of(ids)[0]
    on_home_page = is_home_page(page) and page != url and host_of(page) == host_of(url)
    facts = Facts(fresh=arguments.fresh, page_rank=rank, links=links, on_home_page=on_home_page)
    reasons = scorer(settings).explain(url, depth, HostFacts(host_urls, inbound), facts)
    points = clamp(sum(part for _, part in reasons))
    queue = QUEUE_OF_ENDING.get(extension(url)) or front_queue(
        points, value(settings, "FRONTIER_THRESHOLDS")
    )
    share = None if crawl is None else _share_of_turns(crawl, queue)
    refusal = Gates.from_settings(settings).refuses_link(
        crawl or CrawlOptions(), url, page=page, depth=depth, today=datetime.now(UTC).date()
    )
    refused = "" if refusal is None else refusal.detail
    if arguments.json:
        parts = [{"reason": reason, "points": part} for reason, part in reasons]
        found = {"url": url, "written": written, "score": points, "queue": queue}
        print_json({**found, "share_of_turns": share, "parts": parts, "refused": refused})
        return
    print(url)
    if written != url:
        print(f"Judged by robots.txt and fetched as {written}")
    for reason, part in reasons:
        print(f"{part:+6}  {reason}")
    turns = "" if share is None else f", which has {share:.0%} of the turns"
    kind = "" if queue <= PAGE_QUEUES else f", that of {_TYPES[queue]} whatever their scores"
    print(f"{points:6}  score, from 0 to 100: front queue {queue}{kind}{turns}")
    if refused:
        print(f"It would not be followed: {refused}")


# What waits in the queues that are not of pages.
_TYPES = {DOCUMENTS: "documents", MEDIA: "media"}


def _share_of_turns(crawl: CrawlOptions, queue: int) -> float:
    """Return the share of a queue while URLs wait in all queues of pages."""
    if queue > PAGE_QUEUES:
        return options.budgets_of(crawl.type_budgets)[queue - PAGE_QUEUES - 1].share
    return crawl.weights[queue - 1] / sum(crawl.weights)


def _spelling(settings: BaseSettings, text: str) -> Spelling:
    found = Urls(url_rules(settings)).spelling(text)
    if isinstance(found, Rejected):
        raise ConfigurationError(
            f"{text!r} is not crawled ({found.reason}); write a URL as https://example.com/page."
        )
    return found


VERBS = {
    "crawls": Verb("list the crawls in this Redis", add_json_option, _crawls),
    "status": Verb("show how the crawl stands", _common_arguments, on_crawl(_status)),
    "hosts": Verb("list hosts", _hosts_arguments, on_crawl(_hosts)),
    "host": Verb("show one host", _host_arguments, on_crawl(_host)),
    "url": Verb("show where a URL is, and its history", _url_arguments, on_crawl(_url)),
    "explain": Verb(
        "show what a URL's score is made of, and what would keep it out",
        _explain_arguments,
        _explain,
    ),
    "add": Verb("add seeds", _add_arguments, on_crawl(_add)),
    "block": Verb("leave a host alone", _block_arguments, on_crawl(_block)),
    "unblock": Verb("contact a host again", _host_arguments, on_crawl(_unblock)),
    "robots": Verb("show or forget the robots.txt of a host", _record_arguments, on_crawl(_robots)),
    "dns": Verb("show or forget the addresses of a host", _record_arguments, on_crawl(_dns)),
    "forget": Verb("let a URL be crawled again", _url_arguments, on_crawl(_forget)),
    "pause": Verb("fetch nothing new until resumed", _common_arguments, on_crawl(_pause)),
    "resume": Verb("continue a paused crawl", _common_arguments, on_crawl(_resume)),
    "dead": Verb("list the newest dead letters", _dead_arguments, on_crawl(_dead)),
    "requeue": Verb(
        "let dead letters be crawled once more", _requeue_arguments, on_crawl(_requeue)
    ),
    "rebuild": Verb(
        "make a lost frontier anew from the stored pages and their links",
        _rebuild_arguments,
        _rebuild,
    ),
    "delete": Verb(
        "delete the crawl from Redis", _delete_arguments, on_crawl(_delete, may_guess=False)
    ),
}


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each question to a crawl, and for each order."""

    name = "frontier"
    summary = "Inspect a crawl's frontier, and control it"
    verbs = VERBS
