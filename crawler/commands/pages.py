"""`scrapy pages`: inspect, export, search, repair, tier, delete and migrate stored pages.

A verb is its arguments and a coroutine that gets a reader of the stored pages. Several verbs filter
pages by --crawl, --domain, --since, --status and --reason.
Exit 0: found; 1: not found; 2: wrong arguments or settings; 3: the database or an object store is
away.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import nlargest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy.commands import ScrapyCommand

from crawler.admin.queries import canonical_url
from crawler.commands._main_text import MainTextMaker
from crawler.commands._verbs import (
    Verb,
    VerbCommand,
    add_json_option,
    confirmed,
    fields,
    harmless,
    output_file,
    print_json,
    progress_bar,
    shown_raw,
    time,
    whole_number,
)
from crawler.config.values import crawl_name
from crawler.discovery.page_ranks import write_page_ranks
from crawler.errors import ConfigurationError, NotFound
from crawler.parsing.document import Unreadable
from crawler.servers.connections import Servers
from crawler.servers.redis.connection import masked
from crawler.storage.documents import MADE, as_json
from crawler.storage.export.formats import FORMATS, STDOUT, Format, format_name, format_of
from crawler.storage.export.run import Export, output_of
from crawler.storage.link_graph import ROUNDS, LinkGraph, Ranking
from crawler.storage.mongo import schema
from crawler.storage.mongo.reader import MISSING, MongoReader, Repair
from crawler.storage.mongo.tiers import Moved, Tiering, TierLock
from crawler.storage.reader import Batch, Overview, PageReader, StoredContent, Wanted
from crawler.storage.readers import STORES, has_mongo, open_mongo, open_reader, store_of
from crawler.storage.retention import COLD, EXPIRED, WARM, Keep, Retention
from crawler.storage.search.index import IndexWriter, SearchSettings
from crawler.storage.search.query import LIMIT_MAX, Filters, Result, indexed_crawls, search
from crawler.storage.search.update import Counts, Update
from crawler.storage.sinks import (
    POSTGRESQL,
    named_sinks,
    shown_sinks,
    targets,
    uses_mongo,
)
from crawler.util.format import about, plural, size
from crawler.util.secrets import without_secrets
from crawler.util.tasks import in_daemon_thread, in_thread

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

_TEXT_SHOWN = 600
# Fields that `get` shows, if they have a value.
_BRIEF = """
url crawl status reason flags title author published_at content_type language text_language
relevance rendered crawled_at depth links_count
""".split()


Reader = TypeVar("Reader")
Open = Callable[["BaseSettings", Servers, argparse.Namespace], Awaitable[Reader]]


def on_pages(
    work: Callable[[Reader, argparse.Namespace], Awaitable[None]], opened: Open[Reader]
) -> Callable[[BaseSettings, argparse.Namespace], None]:
    """Make the function of a verb that works on the stored pages; `opened` gives their reader."""

    async def connect(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        # The user waits for the answer, which may have to read all pages.
        servers = Servers.from_settings(settings, mongo_timeout_s=schema.LONG_S)
        try:
            await work(await opened(settings, servers, arguments), arguments)
        finally:
            await servers.close()

    def run(settings: BaseSettings, arguments: argparse.Namespace) -> None:
        asyncio.run(connect(settings, arguments))

    return run


def _stored(
    settings: BaseSettings, servers: Servers, arguments: argparse.Namespace
) -> Awaitable[PageReader]:
    """Open the store that SINKS or --store names."""
    return open_reader(settings, servers, store=arguments.store)


def _in_mongo(
    settings: BaseSettings,
    servers: Servers,
    _arguments: argparse.Namespace,
    *,
    any_version: bool = False,
) -> Awaitable[MongoReader]:
    """Open the store of a verb that is for MongoDB alone."""
    _check_mongo(settings)
    return open_mongo(settings, servers, any_version=any_version)


def _check_mongo(settings: BaseSettings) -> None:
    """Raise ConfigurationError without a MongoDB."""
    if not has_mongo(settings):
        raise ConfigurationError(
            f"This is for pages in MongoDB, and SINKS is {shown_sinks(settings)}. There is nothing "
            "to do; for a MongoDB of an earlier crawl, give -s MONGO_URI=…"
        )


# --- get ------------------------------------------------------------------------------------------


def _get_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL")
    _crawl_option(parser)
    _store_option(parser)
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--meta", action="store_true", help="all its metadata")
    part.add_argument("--text", action="store_true", help="its text")
    part.add_argument(
        "--main-text", action="store_true", help="its text without menus and the like"
    )
    part.add_argument("--markdown", action="store_true", help="the same as Markdown")
    part.add_argument("--body", action="store_true", help="its body, byte for byte")
    add_json_option(parser, "print JSON; a body as text")


# Options that ask for a text, with the name of its field.
_TEXTS = ("text", *MADE)


def _get(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    on_pages(partial(_print_page, settings), _stored)(settings, arguments)


async def _print_page(
    settings: BaseSettings, pages: PageReader, arguments: argparse.Namespace
) -> None:
    url = canonical_url(pages.urls, arguments.url)
    page = await pages.metadata(url, arguments.crawl)
    crawls = await pages.crawls(url)
    if page is None:
        if arguments.crawl is None:
            raise NotFound(f"{url} is not stored.")
        await _check_crawl(pages, arguments.crawl)
        raise NotFound(f"{url} is not stored by the crawl {arguments.crawl!r}{_others(crawls)}.")
    fault: NotFound | None = None
    asked = next((name for name in _TEXTS if getattr(arguments, name)), "")
    if asked or arguments.body:
        content = await pages.content(page)
        if content is None:
            raise NotFound(_why_not_kept(page))
        if asked in MADE:
            content = await _with_main_text(settings, page, content, asked)
        _print_content(page, content, asked, is_json=arguments.json)
    elif arguments.json:
        print_json(page)
    elif arguments.meta:
        print(fields(page, shown_raw))
    else:
        try:
            content, why = await pages.content(page), _why_not_kept(page)
        except NotFound as error:
            content, why = None, str(error)
            # It should be there.
            if page.get("places"):
                fault = error
        _print_brief(page, content, "" if fault else why)
    others = [crawl for crawl in crawls if crawl != page.get("crawl")]
    if others and arguments.crawl is None:
        print(f"This is the newest{_others(others)}; --crawl chooses.", file=sys.stderr)
    if fault is not None:
        raise fault


def _others(crawls: list[str]) -> str:
    return f"; other crawls have it: {', '.join(crawls)}" if crawls else ""


# Reasons of a page without content, for people.
_WHY = {
    "noindex": "the page asks not to be kept (noindex)",
    "language": "it is in another language than the crawl keeps (OTHER_LANGUAGES)",
    "topic": "it is off the topic of the crawl (OFF_TOPIC)",
    "robots": "robots.txt forbids it",
    "host_rules": "HOST_RULES forbid it",
    "type_not_accepted": "its type is none of ACCEPT_TYPES",
    "too_big_to_store": "it is larger than a document of MongoDB may be",
    "content_missing": "it was lost (scrapy pages repair found that)",
    EXPIRED: "it was deleted at the age that PAGES_KEEP has",
}


def _why_not_kept(page: dict[str, Any]) -> str:
    reason = page.get("reason", "")
    if page.get("duplicate_of"):
        why = "it has the content of another page, which is gone"
    elif reason in _WHY:
        why = _WHY[reason]
    elif not page["status"]:
        why = f"there was no answer ({reason})"
    elif not 200 <= page["status"] < 300:
        why = f"the answer was {page['status']}"
    else:
        why = "it is missing; scrapy pages repair looks for more of them"
    return f"The content of {page['url']} is not stored: {why}. --meta shows what is known."


async def _with_main_text(
    settings: BaseSettings, page: dict[str, Any], content: StoredContent, name: str
) -> StoredContent:
    """Return content with its main text or Markdown, stored or made of its body."""
    try:
        async with MainTextMaker.from_settings(settings) as maker:
            content = await maker.completed(page, content, [name])
    except Unreadable as unreadable:
        raise NotFound(
            f"The document {page['url']} cannot be read: {unreadable.reason}. docs/documents.md "
            "says what that means; --body has its bytes."
        ) from unreadable
    if not getattr(content, name):
        raise NotFound(f"No main text is found in {page['url']}; --text has all of its text.")
    return content


def _print_content(
    page: dict[str, Any], content: StoredContent, asked: str, *, is_json: bool
) -> None:
    """Print the text that is asked for, or the body."""
    text = getattr(content, asked) if asked else content.decoded(page.get("charset"))
    if is_json:
        print_json({"url": page["url"], "content_url": content.url, asked or "body": text})
    elif asked:
        # A file or a program gets the text as it is.
        print(harmless(text) if sys.stdout.isatty() else text)
    else:
        sys.stdout.buffer.write(content.body)


def _print_brief(page: dict[str, Any], content: StoredContent | None, why_not: str) -> None:
    brief = {name: page[name] for name in _BRIEF if page.get(name) not in ("", None, [])}
    brief["size"] = size(page.get("size_bytes", 0))
    if content is not None and content.url != page["url"]:
        brief["content of"] = content.url
    print(fields(brief, shown_raw))
    if content is not None:
        more = " …" if len(content.text) > _TEXT_SHOWN else ""
        print(f"\n{harmless(content.text[:_TEXT_SHOWN])}{more}")
    elif why_not:
        print(f"\n{why_not}")


# --- options that filter pages --------------------------------------------------------------------

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_STATUS = re.compile(r"[1-5]xx|[1-5]\d\d|0")
_DOMAIN = re.compile(r"[^\s/@?#]+\.[^\s/@?#]+|localhost|\[[0-9a-f:]+\](:\d+)?", re.IGNORECASE)


def _crawl_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--crawl", metavar="NAME", help="only pages of this crawl (all crawls)")


def _domain_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--domain", type=domain, metavar="NAME", help="a domain, or one of its hosts"
    )


def _store_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", choices=STORES, help="which of SINKS has the pages (mongo, if there are both)"
    )


def _since_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since",
        type=_when,
        metavar="WHEN",
        help="crawled within 45m, 2h, 3d or 1w, or since a date",
    )


def _filter_options(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    _store_option(parser)
    _domain_option(parser)
    _since_option(parser)
    parser.add_argument(
        "--status", type=statuses, metavar="CODE", help="200, 4xx …; 0: there was no answer"
    )
    parser.add_argument(
        "--reason", help="why there is no content: robots, timeout, noindex, status_404 …"
    )
    parser.add_argument(
        "--rendered", action="store_true", help="only pages that a browser rendered"
    )


def _wanted(
    arguments: argparse.Namespace, *, kept: bool = False, now: datetime | None = None
) -> Wanted:
    """Return the filter that the options describe; `kept`: only pages with content.

    A time span ends at `now`.
    """
    return Wanted(
        crawl=arguments.crawl,
        domain=arguments.domain,
        since=None if arguments.since is None else since(arguments.since, now),
        statuses=arguments.status,
        reason=arguments.reason,
        kept=kept,
        rendered=arguments.rendered,
    )


async def _check_crawl(pages: PageReader, crawl: str | None) -> None:
    """Raise NotFound for a crawl without pages."""
    if crawl is None or await pages.count(Wanted(crawl=crawl)):
        return
    crawls = await pages.crawls()
    those = f"; those that have some: {', '.join(crawls)}" if crawls else ""
    raise NotFound(f"The crawl {crawl!r} has no stored pages{those}.")


def domain(text: str) -> str:
    """Read a domain or a host."""
    if not _DOMAIN.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no domain; write it as example.com")
    return text.lower()


def age(text: str) -> timedelta:
    """Read a time span: 45m, 2h, 3d …"""
    match = _AGO.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 45m, 2h, 3d or 1w")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than anything here lasts") from None


def _when(text: str) -> str:
    """Check a time or a time span, which may have to count from another moment than now."""
    since(text)
    return text


def since(text: str, now: datetime | None = None) -> datetime:
    """Read a time span before now, or a time; without a zone it is UTC."""
    if _AGO.fullmatch(text.strip()):
        try:
            return (now or datetime.now(UTC)) - age(text)
        except OverflowError:
            raise argparse.ArgumentTypeError(f"{text!r} is before all times") from None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time; write 45m, 2h, 3d, 1w, 2026-05-31 or 2026-05-31T12:00"
        ) from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def statuses(text: str) -> tuple[int, int]:
    """Read a status, or a class of them: return its first and its last code."""
    if not _STATUS.fullmatch(text.lower()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no status; write 200, 4xx, or 0 for URLs without an answer"
        )
    if text.lower().endswith("xx"):
        return int(text[0]) * 100, int(text[0]) * 100 + 99
    return int(text), int(text)


# --- export ---------------------------------------------------------------------------------------


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="PATH",
        help="file or s3://bucket/name to write, replaced if it exists; - for stdout. Its ending "
        "says the format: .jsonl, .csv (.gz compresses them), .parquet or .warc.gz",
    )
    parser.add_argument("--format", choices=FORMATS, help="format, if the ending does not say it")
    _filter_options(parser)
    parser.add_argument(
        "--columns", metavar="NAMES", help="only these, separated by commas: url,title,text"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also duplicates, and URLs without content; --reason and --status 4xx imply it",
    )
    parser.add_argument("--no-body", action="store_true", help="leave the bodies out")


def _export(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    # All that can be wrong is found before a server is asked.
    bare = _bare_option(arguments)
    form = format_of(
        *(arguments.output, arguments.format),
        columns=arguments.columns,
        with_body=not arguments.no_body,
        bare=bare,
    )
    arguments.all = bare is not None
    if arguments.output == STDOUT:
        on_pages(partial(_print_export, settings, form), _stored)(settings, arguments)
        return
    names = ("crawl", "domain", "since", "status", "reason", "rendered", "all", "no_body")
    identity = {
        **{name: getattr(arguments, name) for name in names},
        "format": format_name(arguments.output, arguments.format),
        "columns": form.columns,
        **_identity_of_store(settings, arguments.store),
    }
    output = output_of(arguments.output, Path(settings["CRAWL_DIR"]))
    export = Export(output, form, identity)
    on_pages(partial(_run_export, settings, form, export), _stored)(settings, arguments)


def _identity_of_store(settings: BaseSettings, store: str | None) -> dict[str, str]:
    """Return what tells the store of an export from others."""
    if store_of(settings, store) == POSTGRESQL:
        return {"server": " ".join(map(without_secrets, targets(settings, POSTGRESQL)[:1]))}
    where = settings["MONGO_URI"]
    return {
        "database": settings["MONGO_DATABASE"],
        "server": masked(where) if where else str(Path(settings["CRAWL_DIR"]).absolute()),
    }


def _bare_option(arguments: argparse.Namespace) -> str | None:
    """Return the option that asks for pages without content, if any."""
    if arguments.all:
        return "--all"
    if arguments.reason:
        return f"--reason {arguments.reason}"
    first, last = arguments.status or (200, 200)
    return "--status" if last < 200 or first >= 300 else None


async def _batches(
    settings: BaseSettings, form: Format, pages: PageReader, wanted: Wanted
) -> AsyncIterator[Batch]:
    """Read pages with all that a format needs."""
    batches = pages.with_content(wanted, fields=form.fields, contents=form.reads_content)
    async with MainTextMaker.from_settings(settings) as maker:
        async for batch in maker.batches(batches, form.made):
            yield batch


async def _run_export(
    settings: BaseSettings,
    form: Format,
    export: Export,
    pages: PageReader,
    arguments: argparse.Namespace,
) -> None:
    await _check_crawl(pages, arguments.crawl)
    async with export:
        state = export.state
        if export.is_other:
            told = f"{export.work} was of an export with other options, which is given up"
            print(told, file=sys.stderr)
        elif state.pages:
            ago = about((datetime.now(UTC) - export.began).total_seconds())
            told = f"Going on after {plural(state.pages, 'page')} of an export that began {ago} ago"
            print(f"{told}; to start anew, delete {export.work}", file=sys.stderr)
        wanted = _wanted(arguments, kept=not arguments.all, now=export.began)
        wanted = replace(wanted, after=state.last)
        try:
            total = state.pages + await pages.count(wanted)
            with progress_bar("pages", total, state.pages) as advance:
                async for count in export.run(_batches(settings, form, pages, wanted)):
                    advance(count)
            await export.finish()
        except BaseException:
            if state.pages:
                told = f"{export.work} has what was read so far ({plural(state.pages, 'page')})"
                print(f"{told}; the same command goes on", file=sys.stderr)
            raise
    _print_exported(state.rows, state.pages, state.unread, arguments)


async def _print_export(
    settings: BaseSettings, form: Format, pages: PageReader, arguments: argparse.Namespace
) -> None:
    wanted = _wanted(arguments, kept=not arguments.all)
    await _check_crawl(pages, arguments.crawl)
    total = await pages.count(wanted)
    read = written = unread = 0
    with progress_bar("pages", total) as advance:
        await _print_bytes(form.begin())
        async for batch in _batches(settings, form, pages, wanted):
            data, rows = await in_thread(form.rows, batch.pages)
            await _print_bytes(data)
            read, written = read + len(batch.pages), written + rows
            unread += batch.unread
            advance(len(batch.pages))
    _print_exported(written, read, unread, arguments)


async def _print_bytes(data: bytes) -> None:
    """Write to standard output, which may be a pipe that nobody reads."""

    def write() -> None:
        left = memoryview(data)
        while left:
            # Without Python's buffer: at exit, its lock must be free.
            left = left[os.write(sys.stdout.fileno(), left) :]

    await in_daemon_thread(write)


def _print_exported(written: int, read: int, unread: int, arguments: argparse.Namespace) -> None:
    left = f"; without content and left out: {read - written:,}" if read > written else ""
    left += f"; content that cannot be read: {unread:,}" if unread else ""
    print(f"{plural(written, 'page')} written to {arguments.output}{left}", file=sys.stderr)


# --- repair ---------------------------------------------------------------------------------------


def _repair_arguments(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; exit 1 if there is damage"
    )
    parser.add_argument(
        "--older",
        type=age,
        default=timedelta(hours=1),
        metavar="TIME",
        help="leave content alone that is younger (1h): a crawl may be about to store its metadata",
    )
    add_json_option(parser)


def _repair(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    found: dict[str, int] = {}

    async def repair_mongo(pages: MongoReader, arguments: argparse.Namespace) -> None:
        found.update(await _repair_mongo(pages, arguments))

    if uses_mongo(settings) or settings["MONGO_URI"]:
        on_pages(repair_mongo, _in_mongo)(settings, arguments)
    found |= asyncio.run(_repair_sinks(settings, dry_run=arguments.dry_run))
    if arguments.json:
        print_json({**found, "mended": not arguments.dry_run})
    else:
        done = {} if arguments.dry_run else _REPAIRED
        texts = {name.replace("_", " "): name for name in found}
        width = max(map(len, texts), default=0)
        for text, name in texts.items():
            print(f"{text:<{width}}  {found[name]:,}{done.get(name, '')}")
        if found.get(WITHOUT_CONTENT) and not arguments.dry_run:
            print(f"scrapy pages find --reason {MISSING} lists the latter", file=sys.stderr)
    if arguments.dry_run and any(found.values()):
        raise NotFound("There is something to mend; without --dry-run it is.")


WITHOUT_CONTENT = "metadata_without_content"
_REPAIRED = {"content_without_metadata": ": deleted", WITHOUT_CONTENT: f": marked as {MISSING}"}


async def _repair_mongo(pages: MongoReader, arguments: argparse.Namespace) -> dict[str, int]:
    crawl, before = arguments.crawl, datetime.now(UTC) - arguments.older
    await _check_crawl(pages, crawl)
    repair = Repair(pages, before=before, dry_run=arguments.dry_run, crawl=crawl)
    with progress_bar("documents", await repair.count()) as advance:
        async for looked_at in repair.run():
            advance(looked_at)
    return {
        "content_without_metadata": repair.found.without_metadata,
        WITHOUT_CONTENT: repair.found.without_content,
    }


async def _repair_sinks(settings: BaseSettings, *, dry_run: bool) -> dict[str, int]:
    """Repair the sinks that are no databases, such as folders of WARC files."""
    found: dict[str, int] = {}
    servers = Servers.from_settings(settings)
    try:
        for named in named_sinks(settings):
            sink = named.make(crawl_name(settings, "web"), settings, servers)
            for name, count in (await sink.repair(dry_run=dry_run)).items():
                found[name] = found.get(name, 0) + count
    finally:
        await servers.close()
    return found


# --- tier -----------------------------------------------------------------------------------------

# What happens to content, for people.
_MOVES = {
    WARM: "moved to the object store",
    COLD: "moved to the cold class",
    EXPIRED: "deleted",
}
_LOCK_POLL_S = 1.0


def _tier_arguments(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; print what would move"
    )
    add_json_option(parser)


def _tier(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    _check_mongo(settings)
    retention = Retention.from_settings(settings)
    if retention is None and not settings["PAGES_TIER_URL"]:
        raise ConfigurationError(
            "PAGES_KEEP is not set, so content stays where it is; set it, as "
            "-s PAGES_KEEP=7d/180d/5y -s PAGES_TIER_URL=s3://bucket/prefix."
        )
    # Without ages, only objects that no page needs any more are deleted.
    retention = retention or Retention(Keep(), settings["PAGES_TIER_URL"])

    async def tier(pages: MongoReader, _arguments: argparse.Namespace) -> None:
        await _check_crawl(pages, arguments.crawl)
        crawls = await pages.crawls() if arguments.crawl is None else [arguments.crawl]
        done, left, loose = {to: Moved() for to in _MOVES}, 0, 0
        for crawl in crawls:
            tiering = Tiering(pages.database, retention, crawl)
            if arguments.dry_run:
                await tiering.plan()
            else:
                await _run_tiering(tiering, pages, crawl)
            left += tiering.left
            loose += tiering.loose
            for to, moved in tiering.done.items():
                done[to].pages += moved.pages
                done[to].bytes += moved.bytes
        _print_moved(done, left, loose, arguments)

    on_pages(tier, _in_mongo)(settings, arguments)


async def _run_tiering(tiering: Tiering, pages: MongoReader, crawl: str) -> None:
    lock, has_waited = TierLock(pages.database, crawl), False
    while True:
        async with lock.taken() as is_taken:
            if is_taken:
                with progress_bar("pages", await tiering.count()) as advance:
                    async for count in tiering.run():
                        advance(count)
                return
        if not has_waited:
            text = f"Another process moves content of {crawl!r}, or was killed: waiting for it"
            print(text, file=sys.stderr)
        has_waited = True
        await asyncio.sleep(_LOCK_POLL_S)


def _print_moved(
    done: dict[str, Moved], left: int, loose: int, arguments: argparse.Namespace
) -> None:
    if arguments.json:
        counts: dict[str, Any] = {to: asdict(moved) for to, moved in done.items()}
        more = {"left": left, "loose_objects": loose, "dry_run": arguments.dry_run}
        print_json({**counts, **more})
        return
    would = "would be " if arguments.dry_run else ""
    for to, moved in done.items():
        count = f"{plural(moved.pages, 'page')}, {size(moved.bytes)}"
        print(f"{to:<7}  {count} {would}{_MOVES[to]}")
    if loose:
        print(f"{plural(loose, 'object')} of earlier visits deleted")
    if left:
        why = "crawled meanwhile, or content damaged, lost, refused or without metadata"
        print(f"{plural(left, 'page')} left as before: {why}", file=sys.stderr)


# --- stats ----------------------------------------------------------------------------------------


def _stats_arguments(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    _store_option(parser)
    add_json_option(parser)


async def _stats(pages: PageReader, arguments: argparse.Namespace) -> None:
    await _check_crawl(pages, arguments.crawl)
    found = await pages.overview(arguments.crawl)
    if arguments.json:
        print_json(asdict(found))
    elif not found.urls:
        raise NotFound("No page is stored yet.")
    else:
        print(fields(_summary(found, arguments.crawl)))


def _summary(found: Overview, crawl: str | None) -> dict[str, str]:
    # The server does not tell the size of one crawl.
    disk = f"{size(found.disk_bytes)} on disk" + (" with all crawls" if crawl else "")
    summary = {
        "URLs": f"{found.urls:,}",
        "pages with content": f"{found.pages:,}",
        "duplicates": f"{found.duplicates:,}",
        "by crawl": _counts(found.crawls) if len(found.crawls) > 1 else "",
        "by status": _counts({status or "no answer": n for status, n in found.statuses.items()}),
        "without content": _counts(found.reasons),
        "largest domains": _counts(found.domains),
        "size": f"{size(found.fetched_bytes)} fetched, {disk}",
    }
    if found.first_crawled is not None and found.last_crawled is not None:
        summary["crawled"] = f"{time(found.first_crawled)} to {time(found.last_crawled)}"
    return {name: text for name, text in summary.items() if text}


def _counts(counts: dict[int | str, int] | dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())


# --- find -----------------------------------------------------------------------------------------


def _find_arguments(parser: argparse.ArgumentParser) -> None:
    _filter_options(parser)
    parser.add_argument(
        "--limit", type=whole_number, default=50, metavar="N", help="how many to list (50); 0: all"
    )
    add_json_option(parser, "print all metadata, one JSON object per line")


async def _find(pages: PageReader, arguments: argparse.Namespace) -> None:
    found = 0
    # The crawl's name is in each line only where it tells pages apart.
    names_crawl = arguments.crawl is None and not arguments.json and len(await pages.crawls()) > 1
    async for page in pages.find(_wanted(arguments), arguments.limit):
        found += 1
        line = as_json(page) if arguments.json else _line(page)
        print(f"{line}  [{page.get('crawl', '')}]" if names_crawl else line)
    if not found:
        await _check_crawl(pages, arguments.crawl)
        raise NotFound("No stored page is like that.")


def _line(page: dict[str, Any]) -> str:
    status = page.get("status") or "–"
    why = page.get("reason") or ("duplicate" if page.get("duplicate_of") else "")
    length = size(page.get("size_bytes", 0))
    line = f"{time(page['crawled_at'])}  {status:>3}  {length:>8}  {page['url']}"
    return f"{line}  ({why})" if why and why != f"status_{status}" else line


# --- index and search -----------------------------------------------------------------------------

# Without a terminal, progress is a line this often.
_PROGRESS_S = 10.0
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def _folder_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", metavar="PATH", help="folder of the index (SEARCH_DIR: search in CRAWL_DIR)"
    )


def _index_arguments(parser: argparse.ArgumentParser) -> None:
    _since_option(parser)
    _store_option(parser)
    parser.add_argument("--fresh", action="store_true", help="delete the index, and make it anew")
    _folder_option(parser)
    add_json_option(parser)


def _index(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    if arguments.fresh and arguments.since:
        raise ConfigurationError("--fresh makes the whole index anew; leave --since out.")
    chosen = SearchSettings.from_settings(settings, arguments.folder)

    async def update(pages: PageReader, _arguments: argparse.Namespace) -> None:
        with IndexWriter(chosen, fresh=arguments.fresh) as writer:
            start = None if arguments.since is None else since(arguments.since)
            counts = await _run_update(Update(writer, pages, since=start), pages)
        if arguments.json:
            print_json({**asdict(counts), "folder": str(chosen.folder)})
        else:
            _print_counts(counts, chosen.folder)

    on_pages(update, _stored)(settings, arguments)


async def _run_update(update: Update, pages: PageReader) -> Counts:
    total, shown, told_at = await pages.count(update.wanted), 0, monotonic()
    with progress_bar("pages", total) as advance:
        async for counts in update.run():
            advance(counts.compared - shown)
            shown = counts.compared
            if not sys.stderr.isatty() and monotonic() - told_at >= _PROGRESS_S:
                told_at = monotonic()
                told = f"{shown:,} of {plural(total, 'page')} compared, {counts.indexed:,} indexed"
                print(told, file=sys.stderr, flush=True)
    return update.counts


def _print_counts(counts: Counts, folder: Path) -> None:
    unread = f"; content that cannot be read: {counts.unread:,}" if counts.unread else ""
    print(
        f"{plural(counts.indexed, 'page')} indexed, {counts.removed:,} older versions and pages "
        f"removed, {counts.compared:,} compared; the index is in {folder}{unread}"
    )


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="WORD",
        help="words to find; quote all together if there is a phrase, or a word that pages must "
        "not have: '\"front queue\" -redis'",
    )
    _crawl_option(parser)
    _domain_option(parser)
    _since_option(parser)
    parser.add_argument("--language", metavar="TAG", help="declared by the page: en, de …")
    parser.add_argument(
        "--limit", type=_result_count, default=10, metavar="N", help="how many to list (10)"
    )
    _folder_option(parser)
    add_json_option(parser)


def _result_count(text: str) -> int:
    count = whole_number(text)
    if not 1 <= count <= LIMIT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 to {LIMIT_MAX}")
    return count


def _search(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    filters = Filters(
        crawl=arguments.crawl,
        domain=arguments.domain,
        since=None if arguments.since is None else since(arguments.since),
        language=arguments.language,
    )
    folder = SearchSettings.from_settings(settings, arguments.folder).folder
    found = search(folder, " ".join(arguments.words), filters, limit=arguments.limit)
    if arguments.json:
        print_json({"total": found.total, "results": [each.as_json() for each in found.results]})
    else:
        print("\n\n".join(map(_shown_result, found.results)), end="\n" * bool(found.results))
    if not found.total:
        crawls = indexed_crawls(folder) if arguments.crawl else []
        if arguments.crawl and arguments.crawl not in crawls:
            those = f"; those that it has: {', '.join(crawls)}" if crawls else ""
            raise NotFound(f"The index has no page of the crawl {arguments.crawl!r}{those}.")
        raise NotFound("No page in the index has all of that.")
    if found.total > len(found.results) and not arguments.json:
        print(f"\n{plural(found.total, 'page')} in all; --limit shows more", file=sys.stderr)


def _shown_result(found: Result) -> str:
    bold, dim, plain = (_BOLD, _DIM, _PLAIN) if sys.stdout.isatty() else ("", "", "")
    snippet = "".join(
        f"{bold}{harmless(part.text)}{plain}" if part.marked else harmless(part.text)
        for part in found.snippet
    )
    title = harmless(found.title) or "(without a title)"
    about_it = f"{time(found.crawled_at)}  [{found.crawl}]  {found.score:.2f}"
    return f"{bold}{title}{plain}\n{harmless(found.url)}\n{snippet}\n{dim}{about_it}{plain}"


# --- rank -----------------------------------------------------------------------------------------


def _rank_arguments(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    _store_option(parser)
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="write the ranks of all URLs that were found to a file too, for PAGE_RANKS",
    )
    parser.add_argument(
        "--top", type=whole_number, default=10, metavar="N", help="how many to show (10)"
    )
    add_json_option(parser)


def _rank(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    output = output_file(arguments.output) if arguments.output else None
    folder = Path(settings["CRAWL_DIR"])
    folder.mkdir(parents=True, exist_ok=True)

    async def rank(pages: PageReader, arguments: argparse.Namespace) -> None:
        crawl = await _only_crawl(pages, arguments.crawl)
        with TemporaryDirectory(prefix="rank-", dir=folder) as files:
            found = await _ranking(pages, crawl, Path(files))
        if output is not None:
            await asyncio.to_thread(write_page_ranks, output, found.ids, found.ranks)
        top = await _store_ranks(pages, crawl, found, arguments.top)
        if not found.is_settled:
            print(f"The ranks still changed after {found.rounds} rounds.", file=sys.stderr)
        if arguments.json:
            counts = {"urls": len(found.ids), "links": found.links, "rounds": found.rounds}
            print_json({"crawl": crawl, **counts, "top": top})
            return
        for page in top:
            print(f"{page['page_rank']:>12,.1f}  {harmless(page['url'])}")
        print(
            f"{plural(len(found.ids), 'URL')} ranked by {plural(found.links, 'link')}, in "
            f"{plural(found.rounds, 'round')}; the mean is 1"
        )

    on_pages(rank, _stored)(settings, arguments)


async def _only_crawl(pages: PageReader, crawl: str | None) -> str:
    """Return the crawl, or the only one that there is."""
    await _check_crawl(pages, crawl)
    crawls = [crawl] if crawl is not None else await pages.crawls()
    if not crawls:
        raise NotFound("No page is stored yet.")
    if len(crawls) > 1:
        raise ConfigurationError(
            f"Several crawls have pages: {', '.join(crawls)}. Say which one: --crawl NAME."
        )
    return crawls[0]


async def _ranking(pages: PageReader, crawl: str, folder: Path) -> Ranking:
    """Read the links of all pages, and rank the URLs in them."""
    graph, wanted = LinkGraph(folder), Wanted(crawl=crawl)
    fingerprints = pages.urls.fingerprints
    with progress_bar("links of pages", await pages.count(wanted)) as advance:
        names = ("url_hash", "links")
        async for batch in pages.with_content(wanted, fields=names, contents=False):
            for page, _ in batch.pages:
                graph.add(int(page["url_hash"], 16), fingerprints(page.get("links") or ()))
            advance(len(batch.pages))
    if not graph.links:
        raise NotFound(f"The pages of the crawl {crawl!r} have no links that are stored.")
    with progress_bar("rounds", ROUNDS) as advance:
        return await asyncio.to_thread(graph.rank, report=lambda _round: advance(1))


async def _store_ranks(
    pages: PageReader, crawl: str, found: Ranking, most: int
) -> list[dict[str, Any]]:
    """Write the rank of each page into its metadata; returns the first ones."""
    top: list[tuple[float, str]] = []
    wanted = Wanted(crawl=crawl)
    with progress_bar("pages", await pages.count(wanted)) as advance:
        names = ("url_hash", "url")
        async for batch in pages.with_content(wanted, fields=names, contents=False):
            hashes = [page["url_hash"] for page, _ in batch.pages]
            ranks = found.of([int(each, 16) for each in hashes])
            # Pages that were stored since the links were read have none.
            known = {each: rank for each, rank in zip(hashes, ranks, strict=True) if rank}
            await pages.set_page_ranks(crawl, known)
            urls = {page["url_hash"]: page["url"] for page, _ in batch.pages}
            top = nlargest(most, [*top, *((rank, urls[each]) for each, rank in known.items())])
            advance(len(batch.pages))
    return [{"url": url, "page_rank": rank} for rank, url in top]


# --- delete ---------------------------------------------------------------------------------------


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    _crawl_option(parser)
    _store_option(parser)
    _domain_option(parser)
    parser.add_argument(
        "--before",
        type=since,
        metavar="WHEN",
        help="last crawled more than 45m, 2h, 3d or 1w ago, or before a date",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json_option(parser)


async def _delete(pages: PageReader, arguments: argparse.Namespace) -> None:
    wanted = Wanted(crawl=arguments.crawl, domain=arguments.domain, before=arguments.before)
    if wanted == Wanted():
        raise ConfigurationError(
            "Say which pages to delete: --crawl NAME, --domain NAME or --before WHEN."
        )
    total = await pages.count(wanted)
    if not total:
        await _check_crawl(pages, arguments.crawl)
        raise NotFound("No stored page is like that.")
    if not arguments.yes and not confirmed(f"Delete {plural(total, 'page')} from {pages.name}?"):
        raise ConfigurationError("No page was deleted; say yes, or give --yes.")
    deleted = await delete_pages(pages, wanted, total)
    if arguments.json:
        print_json({"deleted": deleted})
    else:
        print(f"{plural(deleted, 'page')} deleted")


async def delete_pages(pages: PageReader, wanted: Wanted, total: int) -> int:
    """Delete pages with a progress bar; returns their number."""
    deleted = 0
    with progress_bar("pages", total) as advance:
        async for count in pages.delete(wanted):
            deleted += count
            advance(count)
    return deleted


# --- migrate --------------------------------------------------------------------------------------


def _migrate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--crawl", required=True, metavar="NAME", help="the crawl that all stored pages are of"
    )


def _migrate(settings: BaseSettings, arguments: argparse.Namespace) -> None:
    if not arguments.crawl:
        raise ConfigurationError("--crawl is empty; give the name of the crawl.")
    crawl = crawl_name(settings, "", arguments.crawl)

    async def migrate(pages: MongoReader, _arguments: argparse.Namespace) -> None:
        database = pages.database
        if not await schema.is_old(database):
            print(f"The database {database.name!r} has no pages of an earlier version.")
            return
        with progress_bar("documents", await schema.count_documents(database)) as advance:
            migration = schema.Migration(database, crawl, _ShownMigration(advance))
            await migration.run()
        print(f"All stored pages are of the crawl {migration.crawl!r} now.")

    on_pages(migrate, partial(_in_mongo, any_version=True))(settings, arguments)


class _ShownMigration:
    """Progress of a migration, by this process or another one, in a progress bar."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._shown = 0
        self._has_waited = False

    def named(self, _crawl: str, done: int, _total: int) -> None:
        self._advance(done - self._shown)
        self._shown = done

    def waits(self, crawl: str, done: int) -> None:
        if not self._has_waited:
            text = f"Another process gives them the name {crawl!r}, or was killed: waiting for it"
            print(text, file=sys.stderr)
        self._has_waited = True
        self.named(crawl, done, done)


VERBS = {
    "get": Verb("show one page", _get_arguments, _get),
    "find": Verb("list pages, the newest first", _find_arguments, on_pages(_find, _stored)),
    "export": Verb(
        "write pages to a file: JSON lines, CSV, Parquet or WARC", _export_arguments, _export
    ),
    "index": Verb("bring the search index up to date", _index_arguments, _index),
    "search": Verb("search the index for words", _search_arguments, _search),
    "stats": Verb("count the stored pages", _stats_arguments, on_pages(_stats, _stored)),
    "repair": Verb(
        "mend what crashes left: documents that are not whole, WARC files that are open",
        _repair_arguments,
        _repair,
    ),
    "tier": Verb(
        "move content to the object store by its age, and delete what is too old (PAGES_KEEP)",
        _tier_arguments,
        _tier,
    ),
    "rank": Verb("rank pages by the links between them (PageRank)", _rank_arguments, _rank),
    "delete": Verb("delete pages", _delete_arguments, on_pages(_delete, _stored)),
    "migrate": Verb(
        "give pages of an earlier version the name of their crawl", _migrate_arguments, _migrate
    ),
}


class Command(VerbCommand, ScrapyCommand):
    """Command with a verb for each use of the stored pages."""

    name = "pages"
    summary = "Inspect stored pages, export, search, rank, repair, move and delete them"
    verbs = VERBS
