"""Checks of `scrapy doctor`: servers, files, disk, settings. Each finding says what to do.

Nothing is changed by them.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import perf_counter
from typing import Any

from pymongo.errors import PyMongoError
from scrapy.settings import BaseSettings, default_settings

from crawler import settings as ours
from crawler.commands import _validate
from crawler.dns.errors import DnsFailed, NoSuchHost
from crawler.dns.lookup import Lookup
from crawler.errors import CrawlerError
from crawler.robots.rules import robots_name
from crawler.robots.user_agent import has_contact, is_distinctive
from crawler.servers.connections import Servers
from crawler.servers.mongo import explain
from crawler.servers.redis import checks
from crawler.servers.redis.checks import NEEDED, Needed, ServerFacts, compresses_well, damages_lists
from crawler.servers.redis.connection import masked
from crawler.servers.redis.errors import RedisAway
from crawler.servers.redis.settings import redis_url
from crawler.urls.hosts import suffix_list_date
from crawler.util.file_limit import Connections, advice, limits
from crawler.util.format import size

_MONGO_VERSION = (5, 0)
_DISK_SHARE = 0.9


class Doctor:
    """`crawl_dir` is where embedded servers keep their data; `dns_name` is looked up."""

    def __init__(
        self, settings: BaseSettings, servers: Servers, *, crawl_dir: Path, dns_name: str
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._crawl_dir = crawl_dir
        self._dns_name = dns_name

    async def findings(self) -> AsyncIterator[Finding]:
        """One by one, as they are found; one check that fails does not end the others."""
        for check in (self._read_settings, self._machine, self._redis, self._mongo, self._dns):
            async for finding in check():
                yield finding

    async def _read_settings(self) -> AsyncIterator[Finding]:
        try:
            _validate.check(self._settings)
        except CrawlerError as error:
            yield failure("settings", str(error))
        else:
            yield ok("settings", "every value is one that its setting can have")

    async def _machine(self) -> AsyncIterator[Finding]:
        settings = self._settings
        defaults = (ours.USER_AGENT, default_settings.USER_AGENT)
        yield user_agent(
            settings["USER_AGENT"] or "",
            robots_name(settings),
            defaults,
            is_required=settings.getbool("REQUIRE_CONTACT"),
        )
        yield file_limit(*limits(), Connections.from_settings(settings))
        yield suffix_list(suffix_list_date(), today=datetime.now(UTC).date())
        if not redis_url(settings) or not settings["MONGO_URI"]:
            yield disk(self._crawl_dir)

    async def _redis(self) -> AsyncIterator[Finding]:
        url = redis_url(self._settings)
        try:
            nodes = await checks.facts(await self._servers.redis())
        except CrawlerError as error:
            yield failure("Redis", str(error))
        except RedisAway as error:
            yield failure("Redis", f"it does not answer: {error}", "Look into its log.")
        else:
            for finding in redis_findings(nodes, masked(url) if url else EMBEDDED):
                yield finding

    async def _mongo(self) -> AsyncIterator[Finding]:
        settings = self._settings
        if settings["PAGES_STORE"] == "none":
            yield ok("MongoDB", "not used (PAGES_STORE=none)")
            return
        uri = settings["MONGO_URI"]
        try:
            client = await self._servers.mongo()
            version = str((await client.server_info())["version"])
            started = perf_counter()
            stats = await client[settings["MONGO_DATABASE"]].command("dbStats")
            spent_ms = (perf_counter() - started) * 1000
        except CrawlerError as error:
            yield failure("MongoDB", str(error))
            return
        except PyMongoError as error:
            yield failure("MongoDB", explain(error))
            return
        where = masked(uri) if uri else EMBEDDED
        text = f"{version} at {where}, {spent_ms:.1f} ms a round trip"
        if tuple(int(part) for part in version.split(".")[:2]) < _MONGO_VERSION:
            yield failure("MongoDB", text, "Update it to 5.0 or later.")
        else:
            yield ok("MongoDB", text)
        used, total = stats.get("fsUsedSize", 0), stats.get("fsTotalSize", 0)
        if total and used / total > _DISK_SHARE:
            yield warning(
                "MongoDB disk",
                f"{size(int(used))} of {size(int(total))} used",
                "Give it a larger disk before it is full: fetching stops then.",
            )

    async def _dns(self) -> AsyncIterator[Finding]:
        lookup = Lookup(self._settings.getlist("DNS_SERVERS"))
        servers = ", ".join(self._settings.getlist("DNS_SERVERS")) or "the system's servers"
        started = perf_counter()
        try:
            answer = await lookup.ask(self._dns_name)
        except NoSuchHost:
            # An answer all the same: a closed network may have no names but its own.
            yield warning(
                "DNS",
                f"{servers}: no address for {self._dns_name}",
                "Is this machine on the network? If it has other names, ask for one by --name.",
            )
        except DnsFailed as error:
            yield failure(
                "DNS",
                f"{servers}: {error}",
                "Set DNS_SERVERS to servers that answer, or ask for a name of your own by --name.",
            )
        else:
            spent_ms = (perf_counter() - started) * 1000
            text = f"{answer.addresses[0]} for {self._dns_name}, {spent_ms:.0f} ms"
            yield ok("DNS", f"{servers}: {text}")


# Where a server of our own is.
EMBEDDED = "embedded"
_MEMORY_FULL = 0.8
_ROUND_TRIP_MS = 20.0
_CLOCK_S = 5.0


def redis_findings(nodes: list[ServerFacts], where: str) -> Iterator[Finding]:
    """A line for each question; of several nodes the first that has a problem is named."""
    first = nodes[0]
    what = f"cluster of {len(nodes)}" if len(nodes) > 1 else first.mode
    yield ok("Redis", f"{first.product} ({what}) at {where}")
    for needed in NEEDED:
        yield _kept(nodes, needed)
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
    text = f"{slowest:.1f} ms a round trip"
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


def _kept(nodes: list[ServerFacts], setting: Needed) -> Finding:
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
            subject, f"it does not tell its {name}", f"Make sure that it is {needed}, or {risk}."
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
            "Set maxmemory below the machine's memory, so that the crawl spills to MongoDB instead "
            "of swapping.",
        )
    fullest = max(nodes, key=lambda node: node.used_bytes / node.max_bytes)
    text = f"{size(fullest.used_bytes)} of {size(fullest.max_bytes)} used"
    if fullest.used_bytes >= _MEMORY_FULL * fullest.max_bytes:
        advice = "Raise maxmemory, or add masters; meanwhile links of low priority wait in MongoDB."
        return warning("Redis memory", text, advice)
    return ok("Redis memory", text)


_DISK_FAILURE_BYTES = 1 << 30
_DISK_WARNING_BYTES = 10 << 30
# Some ten suffixes are added a month.
_SUFFIXES_OLD = timedelta(days=270)


def file_limit(limit: int, most: int, connections: Connections) -> Finding:
    """Each fetch and each connection that is kept takes a file descriptor.

    `most` is what a process may raise its `limit` to, which a crawl does.
    """
    needed = connections.files
    text = f"{limit} open files allowed, {needed} needed"
    if limit >= needed:
        return ok("file limit", text)
    if most >= needed:
        return ok("file limit", f"{text}: a crawl raises its limit")
    return failure("file limit", f"{most} open files allowed, {needed} needed", advice(needed))


def user_agent(
    value: str, robots_name: str, defaults: Collection[str], *, is_required: bool = False
) -> Finding:
    """Site owners must find out who crawls them; `defaults` are ours and Scrapy's.

    `is_required`: a crawl would not start without (REQUIRE_CONTACT).
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
            f"{value!r} names nobody to write to",
            "Add a URL or e-mail address to USER_AGENT.",
        )
    if not is_distinctive(robots_name):
        return warning(
            "user agent",
            f"robots.txt files cannot speak to {robots_name!r}, which is no crawler's name",
            "Set ROBOTSTXT_USER_AGENT to a name of its own.",
        )
    return ok("user agent", f"{value!r}, {robots_name!r} for robots.txt files")


def disk(folder: Path) -> Finding:
    """Room for the data of embedded servers. Blocking."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free_bytes = shutil.disk_usage(place).free
    text = f"{size(free_bytes)} free for {folder}"
    if free_bytes >= _DISK_WARNING_BYTES:
        return ok("disk", text)
    advice = "Free some, or set CRAWL_DIR to a folder on a larger disk; 1 million pages take 13 GB."
    if free_bytes < _DISK_FAILURE_BYTES:
        return failure("disk", text, advice)
    return warning("disk", text, advice)


def suffix_list(listed: date | None, *, today: date) -> Finding:
    """By an old list sites of new platforms count as one domain."""
    text = "the list has no date" if listed is None else f"the list is of {listed}"
    if listed is not None and today - listed <= _SUFFIXES_OLD:
        return ok("suffixes", text)
    return warning(
        "suffixes",
        f"{text}: sites of newer platforms would count as one domain",
        "Run `pip install --upgrade publicsuffixlist`, on all machines of a fleet between crawls.",
    )


OK, WARNING, FAILURE = "ok", "warning", "failure"
_MARKS = {OK: "ok  ", WARNING: "warn", FAILURE: "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One check."""

    subject: str
    level: str
    text: str
    # What to change; empty where all is well.
    advice: str = ""

    def lines(self) -> list[str]:
        """For people: the advice below the finding."""
        head = f"{_MARKS[self.level]}  {self.subject:12}  {self.text}"
        return [head, f"{'':20}→ {self.advice}"] if self.advice else [head]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def ok(subject: str, text: str) -> Finding:
    """All is well."""
    return Finding(subject, OK, text)


def warning(subject: str, text: str, advice: str) -> Finding:
    """A crawl works, but could do better or be in danger."""
    return Finding(subject, WARNING, text, advice)


def failure(subject: str, text: str, advice: str = "") -> Finding:
    """No crawl starts, or it would lose something."""
    return Finding(subject, FAILURE, text, advice)


def verdict(findings: Iterable[Finding]) -> str:
    """All of them in one line."""
    levels = [finding.level for finding in findings]
    failures, warnings = levels.count(FAILURE), levels.count(WARNING)
    if failures:
        return f"{failures} of {len(levels)} checks failed: a crawl would not start, or lose pages."
    if warnings:
        have = "has" if warnings == 1 else "have"
        return f"A crawl can start; {warnings} of {len(levels)} checks {have} a warning."
    return "All is well."
