"""`scrapy doctor`: check servers, files, disk and settings; each finding says what to change.

The checks change nothing, but for what a sink does when it is opened: it creates the tables or
topics that it lacks. Exit 0: a crawl can start; 1: it cannot.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import perf_counter

from scrapy.commands import ScrapyCommand
from scrapy.settings import BaseSettings, default_settings

from crawler import config
from crawler import settings as ours
from crawler.commands import _validate
from crawler.commands._settings import completed
from crawler.commands._verbs import errors_in_one_line, harmless, report_error
from crawler.dns.lookup import DnsFailed, Lookup, NoSuchHost
from crawler.errors import CrawlerError, ExitCode
from crawler.robots.gate import has_contact, is_distinctive
from crawler.robots.rules import robots_name
from crawler.servers.connections import Servers
from crawler.servers.kafka_group import GroupMember
from crawler.servers.objects import ObjectStore
from crawler.servers.redis import checks
from crawler.servers.redis.checks import NEEDED, Needed, ServerFacts, compresses_well, damages_lists
from crawler.servers.redis.connection import masked
from crawler.servers.redis.errors import RedisAway
from crawler.servers.redis.settings import redis_url
from crawler.storage.sink import SinkReport
from crawler.storage.sinks import NamedSink, named_sinks, uses_mongo
from crawler.storage.spool import measure
from crawler.urls.canonical import suffix_list_date
from crawler.util.file_limit import Connections, advice, limits
from crawler.util.format import plural, size
from crawler.util.secrets import Mask, url_passwords

# In place of the address of a server that we run ourselves.
EMBEDDED = "embedded"
_DISK_FAILURE_BYTES = 1 << 30
_DISK_WARNING_BYTES = 10 << 30
_MEMORY_FULL = 0.8
_ROUND_TRIP_MS = 20.0
_CLOCK_S = 5.0
# Time limit for a sink to answer.
_SINK_S = 30.0
# Time limit for a browser to tell its version, and the bytes of that.
_BROWSER_S, _VERSION_BYTES = 10.0, 100
# Some ten suffixes are added a month.
_SUFFIXES_OLD = timedelta(days=270)

OK, WARNING, FAILURE = "ok", "warning", "failure"
_MARKS = {OK: "ok  ", WARNING: "warn", FAILURE: "FAIL"}


class Command(ScrapyCommand):
    """Command that runs the checks in a plain event loop; it needs no reactor."""

    requires_project = True
    requires_crawler_process = False

    def short_desc(self) -> str:
        return "Check that a crawl can start, and say what to change"

    def long_desc(self) -> str:
        return (
            "Check Redis (version, persistence, eviction, memory), sinks, topics of seeds, tiers, "
            "the spool, DNS, file limits, disk, browsers, user agent and settings. Nothing is "
            "changed; sinks are opened, which creates the tables and topics that they lack."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print a JSON object per check")
        parser.add_argument(
            "--name", default="example.com", help="the name to look up in DNS (example.com)"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        with errors_in_one_line(self, "doctor"):
            try:
                settings = completed(self.settings).copy()
            except CrawlerError as error:
                report_error(self, "doctor", error)
                self.exitcode = ExitCode.FAILED
                return
            # Here it is a finding, no reason to stop.
            settings.set("REQUIRE_PERSISTENCE", False, "cmdline")
            crawl_dir = Path(settings["CRAWL_DIR"])
            with tempfile.TemporaryDirectory(prefix="doctor-") as folder:
                if not crawl_dir.is_dir():
                    # Embedded servers are tried, and leave nothing behind.
                    settings.set("CRAWL_DIR", folder, "cmdline")
                found = asyncio.run(_print_findings(settings, crawl_dir, opts))
            if not opts.json:
                print(f"\n{verdict(found)}")
            if any(finding.level == FAILURE for finding in found):
                self.exitcode = ExitCode.FAILED


async def _print_findings(
    settings: BaseSettings, crawl_dir: Path, opts: argparse.Namespace
) -> list[Finding]:
    servers = Servers.from_settings(settings)
    found = []
    try:
        async for finding in findings(settings, servers, crawl_dir=crawl_dir, dns_name=opts.name):
            found.append(finding)
            lines = [json.dumps(asdict(finding))] if opts.json else finding.lines()
            print("\n".join(lines), flush=True)
    finally:
        await servers.close()
    return found


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    subject: str
    level: str
    text: str
    # What to change; empty if nothing.
    advice: str = ""

    def lines(self) -> list[str]:
        """Format the finding for people, with the advice below it."""
        head = f"{_MARKS[self.level]}  {self.subject:12}  {self.text}"
        return [head, f"{'':20}→ {self.advice}"] if self.advice else [head]


def ok(subject: str, text: str) -> Finding:
    """Report that nothing is to be changed."""
    return Finding(subject, OK, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """Report that a crawl works, but could do better or be in danger."""
    return Finding(subject, WARNING, text, advice)


def failure(subject: str, text: str, advice: str = "") -> Finding:
    """Report that no crawl starts, or that it would lose data."""
    return Finding(subject, FAILURE, text, advice)


def verdict(findings: Iterable[Finding]) -> str:
    """Sum up the findings in one line."""
    levels = [finding.level for finding in findings]
    failures, warnings = levels.count(FAILURE), levels.count(WARNING)
    if failures:
        return f"{failures} of {len(levels)} checks failed: a crawl would not start, or lose pages."
    if warnings:
        have = "has" if warnings == 1 else "have"
        return f"A crawl can start; {warnings} of {len(levels)} checks {have} a warning."
    return "All is well."


# --- checks ---------------------------------------------------------------------------------------


async def findings(
    settings: BaseSettings, servers: Servers, *, crawl_dir: Path, dns_name: str
) -> AsyncIterator[Finding]:
    """Run all checks, and yield the findings one by one.

    A check that fails does not end the others. Embedded servers keep their data in `crawl_dir`;
    `dns_name` is looked up in DNS.
    """
    try:
        _validate.check(settings)
        yield ok("settings", "every value is valid")
    except CrawlerError as error:
        yield failure("settings", str(error))
    yield user_agent(
        settings["USER_AGENT"] or "",
        robots_name(settings),
        (ours.USER_AGENT, default_settings.USER_AGENT),
        is_required=settings.getbool("REQUIRE_CONTACT"),
    )
    yield file_limit(*limits(), Connections.from_settings(settings))
    yield suffix_list(suffix_list_date(), today=datetime.now(UTC).date())
    if not redis_url(settings) or _embeds_mongo(settings):
        yield disk(crawl_dir)
    for found in await _redis(settings, servers):
        yield found
    for found in await _sinks(settings, servers):
        yield found
    if settings["RENDER"] != "never":
        yield await browser(settings)
    if settings["KAFKA_SEEDS"]:
        yield await _seeds(settings)
    if settings["PAGES_TIER_URL"]:
        yield await _tiers(settings["PAGES_TIER_URL"])
    if settings["SPOOL_DIR"]:
        yield spool(Path(settings["SPOOL_DIR"]), settings.getint("SPOOL_MAX_BYTES"))
    yield await _dns(settings.getlist("DNS_SERVERS"), dns_name)


def user_agent(
    value: str, robots_name: str, defaults: Collection[str], *, is_required: bool = False
) -> Finding:
    """Check that site owners can find out who crawls them.

    `defaults` are Scrapy's user agent and ours. `is_required`: without a contact, no crawl starts
    (REQUIRE_CONTACT).
    """
    unnamed = failure if is_required else warning
    if value in defaults:
        return unnamed(
            "user agent",
            f"{value!r} is the default",
            "Set USER_AGENT to your crawler's name and a URL or e-mail address, such as "
            "'name/1.0 (+https://your.site/crawler)'.",
        )
    if not has_contact(value):
        return unnamed(
            "user agent",
            f"{value!r} names no contact",
            "Add a URL or e-mail address to USER_AGENT.",
        )
    if not is_distinctive(robots_name):
        return warning(
            "user agent",
            f"robots.txt files cannot address {robots_name!r}, which is no crawler's name",
            "Set ROBOTSTXT_USER_AGENT to a name of its own.",
        )
    return ok("user agent", f"{value!r}, {robots_name!r} for robots.txt files")


def file_limit(limit: int, most: int, connections: Connections) -> Finding:
    """Check the limit on open files; `most` is what a crawl may raise its `limit` to."""
    needed = connections.files
    text = f"{limit} open files allowed, {needed} needed"
    if limit >= needed:
        return ok("file limit", text)
    if most >= needed:
        return ok("file limit", f"{text}: a crawl raises its limit")
    text = f"{most} open files allowed, {needed} needed"
    fitting = connections.within(most)
    if fitting.fetches == 1 < connections.fetches:
        return failure("file limit", text, advice(needed))
    left = f"{fitting.kept} connections are kept"
    if fitting.fetches < connections.fetches:
        left = f"{fitting.fetches} fetches run at a time"
    return warning("file limit", f"{text}: {left}", advice(needed))


def suffix_list(listed: date | None, *, today: date) -> Finding:
    """Check the age of the list of public suffixes."""
    text = "the list has no date" if listed is None else f"the list is of {listed}"
    if listed is not None and today - listed <= _SUFFIXES_OLD:
        return ok("suffixes", text)
    return warning(
        "suffixes",
        f"{text}: sites of newer platforms would count as one domain",
        "Run `pip install --upgrade publicsuffixlist`, on all machines of a fleet between crawls.",
    )


def _embeds_mongo(settings: BaseSettings) -> bool:
    try:
        return uses_mongo(settings) and not settings["MONGO_URI"]
    except CrawlerError:
        # SINKS is wrong, which is a finding of its own.
        return False


def _existing(folder: Path) -> Path:
    """Return a folder, or the one that it would be made in."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place


def disk(folder: Path) -> Finding:
    """Check the room for the data of embedded servers. Blocking."""
    free_bytes = shutil.disk_usage(_existing(folder)).free
    text = f"{size(free_bytes)} free for {folder}"
    if free_bytes >= _DISK_WARNING_BYTES:
        return ok("disk", text)
    advice = "Free some, or set CRAWL_DIR to a folder on a larger disk; 1 million pages take 13 GB."
    return (failure if free_bytes < _DISK_FAILURE_BYTES else warning)("disk", text, advice)


async def _redis(settings: BaseSettings, servers: Servers) -> list[Finding]:
    url = redis_url(settings)
    try:
        nodes = await checks.facts(await servers.redis())
    except CrawlerError as error:
        return [failure("Redis", str(error))]
    except RedisAway as error:
        return [failure("Redis", f"it does not answer: {error}", "Check its log.")]
    return list(redis_findings(nodes, masked(url) if url else EMBEDDED))


def redis_findings(nodes: list[ServerFacts], where: str) -> Iterator[Finding]:
    """Check the nodes of a Redis; one bad node is enough for a warning or a failure."""
    first = nodes[0]
    what = f"cluster of {len(nodes)}" if len(nodes) > 1 else first.mode
    yield ok("Redis", f"{first.product} ({what}) at {where}")
    for needed in NEEDED:
        yield _needed(nodes, needed)
    yield _memory(nodes, may_be_unlimited=where == EMBEDDED)
    if any(damages_lists(node) for node in nodes):
        yield failure(
            "Redis lists",
            "are compressed by a version that damages them",
            "Set list-compress-depth to 0 in redis.conf and restart it, or use Redis 7 or later.",
        )
    elif any(node.compress_depth == 0 and compresses_well(node.version) for node in nodes):
        yield warning(
            "Redis lists",
            "are not compressed",
            "`redis-cli config set list-compress-depth 1` halves the memory of waiting URLs.",
        )
    slowest = max(node.round_trip_ms for node in nodes)
    text = f"{slowest:.1f} ms per round trip"
    if slowest > _ROUND_TRIP_MS:
        yield warning("Redis speed", text, "Run the crawler nearer to Redis.")
    else:
        yield ok("Redis speed", text)
    ahead = max((node.ahead_s for node in nodes), key=abs)
    if abs(ahead) > _CLOCK_S:
        yield warning(
            "clocks",
            f"Redis' clock differs from this machine's by {abs(ahead):.0f} s",
            "Run an NTP client on both.",
        )


def _needed(nodes: list[ServerFacts], setting: Needed) -> Finding:
    name, fact, needed, risk = setting
    values = {getattr(node, fact) for node in nodes}
    wrong = sorted(value for value in values if value not in (None, needed))
    subject = "Redis keeps" if name == "appendonly" else "Redis evicts"
    if wrong:
        return failure(
            subject,
            f"{name} is {wrong[0]}: {risk}",
            f"`redis-cli config set {name} {needed}`, and put it into redis.conf.",
        )
    if None in values:
        return warning(
            subject, f"its {name} is unknown", f"Make sure that it is {needed}, or {risk}."
        )
    return ok(subject, f"{name} is {needed}")


def _memory(nodes: list[ServerFacts], *, may_be_unlimited: bool) -> Finding:
    unlimited = max((node.used_bytes for node in nodes if not node.max_bytes), default=None)
    if unlimited is not None and may_be_unlimited:
        return ok("Redis memory", f"{size(unlimited)} used")
    if unlimited is not None:
        return warning(
            "Redis memory",
            f"{size(unlimited)} used, no maxmemory",
            "Set maxmemory below the machine's memory, so that links of low priority are kept "
            "outside Redis, and the machine does not swap.",
        )
    fullest = max(nodes, key=lambda node: node.used_bytes / node.max_bytes)
    text = f"{size(fullest.used_bytes)} of {size(fullest.max_bytes)} used"
    if fullest.used_bytes >= _MEMORY_FULL * fullest.max_bytes:
        advice = (
            "Raise maxmemory, or add masters; meanwhile links of low priority wait outside Redis."
        )
        return warning("Redis memory", text, advice)
    return ok("Redis memory", text)


async def _sinks(settings: BaseSettings, servers: Servers) -> list[Finding]:
    try:
        sinks = named_sinks(settings)
    except CrawlerError as error:
        return [failure("sinks", str(error))]
    if not sinks:
        return [ok("sinks", "none: feeds and your own pipelines get the pages (SINKS)")]
    return [finding for sink in sinks for finding in await _sink(sink, settings, servers)]


async def _sink(named: NamedSink, settings: BaseSettings, servers: Servers) -> list[Finding]:
    # The texts of a sink may have its address.
    mask = Mask(url_passwords(named.target))
    try:
        async with asyncio.timeout(_SINK_S):
            sink = named.make(settings["CRAWL"] or "web", settings, servers)
            report = await sink.check()
            if not isinstance(report, SinkReport):
                raise TypeError("check() returns no SinkReport")
    except TimeoutError:
        return [failure(named.name, f"it did not answer within {_SINK_S:g} s")]
    except (CrawlerError, OSError) as error:
        return [failure(named.name, mask(str(error)))]
    except Exception as error:  # noqa: BLE001 - of a class that is not ours
        return [failure(named.name, mask(f"{type(error).__name__}: {error}"))]
    found = [ok(named.name, mask(report.text))]
    return found + [
        warning(named.name, mask(problem), mask(advice))
        for problem, advice in report.warnings.items()
    ]


async def browser(settings: BaseSettings) -> Finding:
    """Check that there is a browser for pages, and that it runs."""
    # Imported only where pages are rendered.
    from crawler.middlewares.rendering import advice_about_browsers  # noqa: PLC0415
    from crawler.rendering.browsers import find_browser  # noqa: PLC0415

    if problem := advice_about_browsers(settings):
        return failure("browser", problem)
    program = find_browser(config.value(settings, "RENDER_BROWSER"))
    assert program is not None
    try:
        version = await _version_of(str(program))
    except OSError as error:
        why = str(error) or f"no answer within {_BROWSER_S:g} s"
        return failure(
            "browser",
            f"{program} does not tell its version ({why})",
            "Set RENDER_BROWSER to the path of a Chromium that runs here.",
        )
    text = f"{version} at {program}"
    if os.geteuid() == 0:
        return warning(
            "browser",
            f"{text}, without its sandbox",
            "Run crawls as another user than root, above all on hosts that nobody knows.",
        )
    return ok("browser", text)


async def _version_of(program: str) -> str:
    """Ask a program for its version; OSError if it does not tell it."""
    nothing, output = asyncio.subprocess.DEVNULL, b""
    # Not a pipe of asyncio's: that is read to its end, which may never come.
    with ExitStack() as stack:
        ends = read_end, write_end = os.pipe()
        for end in ends:
            stack.callback(os.close, end)
        process = await asyncio.create_subprocess_exec(
            *(program, "--version"), stdin=nothing, stdout=write_end, stderr=nothing
        )
        try:
            async with asyncio.timeout(_BROWSER_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        os.set_blocking(read_end, False)
        with suppress(BlockingIOError):
            output = os.read(read_end, _VERSION_BYTES)
    version = harmless(" ".join(output.decode("utf-8", "replace").split()))
    if process.returncode or not version:
        raise OSError(f"it ended with status {process.returncode}")
    return version


async def _seeds(settings: BaseSettings) -> Finding:
    """Check that the topics of KAFKA_SEEDS can be read. The consumer group is not joined."""
    try:
        url = config.value(settings, "KAFKA_SEEDS")
        member = GroupMember.from_settings(settings, url, settings["CRAWL"] or "web")
        topics = await member.check()
    except CrawlerError as error:
        return failure("seeds", str(error))
    counts = ", ".join(f"{topic} {count}" for topic, count in topics.items())
    return ok(
        "seeds",
        f"Kafka at {member.servers} has {plural(len(topics), 'topic')} "
        f"(partitions: {counts}) for the group {member.group}",
    )


async def _tiers(url: str) -> Finding:
    """Check that the object store of moved content takes objects, and deletes them."""
    started = perf_counter()
    try:
        store = ObjectStore.from_url(url, what="PAGES_TIER_URL")
        await store.check()
        await store.check_deletion()
    except CrawlerError as error:
        return warning(
            "tiers",
            str(error),
            "Until the store takes and deletes objects, a crawl goes on, and content stays where "
            "it is.",
        )
    spent_ms = (perf_counter() - started) * 1000
    return ok("tiers", f"{store.url}, {spent_ms:.0f} ms for a write and two deletions")


def spool(folder: Path, max_bytes: int) -> Finding:
    """Check that pages can be spooled in a folder, which need not exist. Blocking."""
    try:
        place = _existing(folder)
        with tempfile.TemporaryFile(dir=place):
            found, free_bytes = measure(folder), shutil.disk_usage(place).free
    except OSError as error:
        return failure(
            "spool",
            f"{folder} cannot be written to ({error.strerror})",
            "Set SPOOL_DIR to a folder in which this user may create files.",
        )
    text = f"{size(free_bytes)} free for {folder}, {size(max_bytes)} allowed"
    if found.pages:
        what = f"{plural(found.pages, 'page')}, {size(found.size_bytes)}"
        text += f"; {what} in it, which a crawl on this machine writes to their sinks"
    if found.refused:
        refused = plural(found.refused, "page")
        return warning(
            "spool",
            f"{text}; {refused} in it that a sink refused",
            "The log of that crawl says why. Correct the cause, change the ending of the files "
            "refused_*.pages to .log, and start a process.",
        )
    if free_bytes < max_bytes - found.size_bytes:
        advice = "Free some, lower SPOOL_MAX_BYTES, or set SPOOL_DIR to a folder on a larger disk."
        return warning("spool", text, advice)
    return ok("spool", text)


async def _dns(addresses: list[str], name: str) -> Finding:
    servers = ", ".join(addresses) or "the system's servers"
    started = perf_counter()
    try:
        answer = await Lookup(addresses).ask(name)
    except NoSuchHost:
        # Still an answer: a closed network may have only its own names.
        return warning(
            "DNS",
            f"{servers}: no address for {name}",
            "Is this machine on the network? If it has other names, give one of them by --name.",
        )
    except DnsFailed as error:
        return failure(
            "DNS",
            f"{servers}: {error}",
            "Set DNS_SERVERS to servers that answer, or give a name of your own by --name.",
        )
    spent_ms = (perf_counter() - started) * 1000
    return ok("DNS", f"{servers}: {answer.addresses[0]} for {name}, {spent_ms:.0f} ms")
