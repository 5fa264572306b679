"""Examine all that a crawl with these settings would use. Changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

from pymongo.errors import PyMongoError
from scrapy.settings import BaseSettings, default_settings

from crawler import assembly, setting_values
from crawler import settings as ours
from crawler.dns.lookup import Lookup
from crawler.doctor import machine
from crawler.doctor.findings import Finding, failure, ok, warning
from crawler.doctor.redis_checks import EMBEDDED, redis_findings
from crawler.errors import CrawlerError
from crawler.extensions.servers import Servers
from crawler.fetch_errors import DnsFailed, NoSuchHost
from crawler.file_limit import Connections, limits
from crawler.frontier import RedisAway, server_facts
from crawler.frontier.connection import masked
from crawler.progress.text import size
from crawler.scrapy_redis_settings import redis_url
from crawler.storage.trouble import explain
from crawler.urls.hosts import suffix_list_date

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
            setting_values.check(self._settings)
            assembly.tuning(self._settings)
        except CrawlerError as error:
            yield failure("settings", str(error))
        else:
            yield ok("settings", "every value is one that its setting can have")

    async def _machine(self) -> AsyncIterator[Finding]:
        settings = self._settings
        defaults = (ours.USER_AGENT, default_settings.USER_AGENT)
        yield machine.user_agent(
            settings["USER_AGENT"] or "",
            assembly.robots_name(settings),
            defaults,
            is_required=settings.getbool("REQUIRE_CONTACT"),
        )
        yield machine.file_limit(*limits(), Connections.from_settings(settings))
        yield machine.suffix_list(suffix_list_date(), today=datetime.now(UTC).date())
        if not redis_url(settings) or not settings["MONGO_URI"]:
            yield machine.disk(self._crawl_dir)

    async def _redis(self) -> AsyncIterator[Finding]:
        url = redis_url(self._settings)
        try:
            nodes = await server_facts.facts(await self._servers.redis())
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
