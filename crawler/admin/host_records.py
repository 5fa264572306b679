"""What is cached of a host: its robots.txt files and its addresses. Read it, or forget it.

The caches are in Redis, shared by all crawls there; each process has its recent entries in memory,
too. To forget an entry applies to all of them, within 2 s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from crawler import settings as ours
from crawler.admin.queries import Count, doc, host_url
from crawler.config.values import fill, setting
from crawler.dns import addresses, resolver
from crawler.errors import NotFound
from crawler.frontier import CrawlControl
from crawler.robots import records
from crawler.robots.records import RobotsRecord
from crawler.robots.rules import (
    FORBIDDEN_FILE_RULES,
    RobotsLine,
    RobotsRules,
    deciding_line,
    lines_for,
    product_token,
    robots_name,
    text_of,
)
from crawler.urls import authority_of, host_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.redis.connection import Client

# Characters of a file that an answer has.
_TEXT_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """A robots.txt as it is cached for all processes."""

    url: str
    state: Literal["rules", "no_rules", "forbidden", "unreachable", "expired"] = field(
        metadata=doc(
            "rules: there is a file; no_rules: it is empty or missing, and all URLs are allowed; "
            "forbidden: 401 or 403, see ROBOTS_FORBIDDEN_IS; unreachable: no answer, and all URLs "
            "wait; expired: it was unreachable, and the next URL fetches it again"
        )
    )
    status: int | None = field(metadata=doc("HTTP status; null if there was no answer"))
    reason: str = field(metadata=doc("Why it is unreachable"))
    failures: Count = field(metadata=doc("Fetches without an answer, in a row"))
    fetched_at: datetime
    expires: datetime
    allows_root: bool | None = field(
        metadata=doc("Whether this crawler may fetch the URL /; null without an answer")
    )
    crawl_delay_s: float | None = field(metadata=doc("Crawl-delay for this crawler"))
    sitemaps: list[str]
    size_bytes: Count
    text: str = field(metadata=doc(f"Its first {_TEXT_MAX:,} characters"))
    applies: list[int] = field(
        metadata=doc("Numbers of the lines that apply to this crawler, from 1")
    )


@dataclass(frozen=True, slots=True)
class HostRobots:
    """The robots.txt files of a host that are cached: of http and of https."""

    host: str
    user_agent: str = field(metadata=doc("Name by which files address this crawler"))
    files: list[RobotsFile]


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """Verdict of a cached robots.txt about one URL."""

    file: str
    state: Literal["allowed", "denied", "unreachable", "unknown"]
    reason: str = ""
    # The line that denies it.
    line: RobotsLine | None = None


@dataclass(frozen=True, slots=True)
class HostDns:
    """What is known of the addresses of a host."""

    host: str
    state: Literal["fresh", "stale", "no_such_host", "fixed", "unknown"] = field(
        metadata=doc(
            "stale: expired, and used while DNS does not answer; no_such_host: DNS says that the "
            "name does not exist; fixed: by DNS_OVERRIDES, or the host is an address; unknown: "
            "not cached"
        )
    )
    addresses: list[str]
    ttl_s: float | None = field(metadata=doc("Seconds until DNS is asked again"))
    usable_s: float | None = field(
        metadata=doc("Seconds for which it is used if DNS does not answer")
    )
    cached_in: Literal["redis", "DNS_OVERRIDES", "host", ""]


@dataclass(frozen=True, slots=True)
class ForgottenRecords:
    """Records of a host that are forgotten in the whole fleet."""

    host: str
    forgotten: list[str] = field(metadata=doc("What was cached: URLs of files, or addresses"))


@dataclass(frozen=True, slots=True)
class HostRecords:
    """Reader of what is cached of hosts, as a crawl with these settings sees it."""

    # Product token.
    user_agent: str = product_token(ours.USER_AGENT)
    forbidden_is: str = setting("ROBOTS_FORBIDDEN_IS")
    crawl_delay_max_s: float = setting("CRAWL_DELAY_MAX")
    overrides: Mapping[str, str] = setting("DNS_OVERRIDES")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return fill(cls, settings, user_agent=robots_name(settings))

    # --- robots.txt ----------------------------------------------------------------------------

    async def robots(self, control: CrawlControl, redis: Client, name: str) -> HostRobots:
        """Return the cached robots.txt files of a host; raise NotFound for an unknown host."""
        url = host_url(name)
        files = [
            await asyncio.to_thread(self._file, authority, record)
            for authority, record in (await _known(redis, _authorities(name))).items()
        ]
        if not files:
            await _check_is_met(control, url)
        return HostRobots(host_of(url), self.user_agent, files)

    async def forget_robots(
        self, control: CrawlControl, redis: Client, name: str
    ) -> ForgottenRecords:
        """Forget the robots.txt files of a host: the next URL fetches them anew.

        URLs that wait because a file was unreachable, or asked for too long a Crawl-delay, are due
        at once; but not before the time that the host asked for with Retry-After.
        """
        url, authorities = host_url(name), _authorities(name)
        known = await _known(redis, authorities)
        if not known:
            await _check_is_met(control, url)
        # Also what Redis does not have: processes may have it in memory.
        await records.forget(redis, authorities)
        if any([await asyncio.to_thread(self._puts_off, record) for record in known.values()]):
            wait_ms = max(record.asked_left_ms for record in known.values())
            await control.host(control.group(url), due=wait_ms)
        return ForgottenRecords(host_of(url), [f"{authority}/robots.txt" for authority in known])

    def _file(self, authority: str, record: RobotsRecord) -> RobotsFile:
        now = datetime.now(UTC)
        rules = self._rules(record)
        text = text_of(record.body or b"")
        if record.left_ms <= 0:
            state = "expired"
        elif record.reason:
            state = "unreachable"
        elif record.is_forbidden:
            state = "forbidden"
        else:
            state = "rules" if text.strip() else "no_rules"
        return RobotsFile(
            url=f"{authority}/robots.txt",
            state=state,  # type: ignore[arg-type]
            status=record.status or None,
            reason=record.reason,
            failures=record.failures,
            fetched_at=now - timedelta(milliseconds=record.ttl_ms - record.left_ms),
            expires=now + timedelta(milliseconds=record.left_ms),
            allows_root=None if rules is None else rules.allows(f"{authority}/"),
            crawl_delay_s=(rules.crawl_delay_s or None) if rules is not None else None,
            sitemaps=rules.sitemaps if rules is not None else [],
            size_bytes=len(record.body or b""),
            text=text[:_TEXT_MAX],
            applies=[line.number for line in lines_for(record.body or b"", self.user_agent)],
        )

    async def verdict(self, redis: Client, url: str) -> RobotsVerdict:
        """Return what the cached robots.txt says about a canonical URL."""
        authority = authority_of(url)
        record = (await _known(redis, [authority])).get(authority)
        if record is None:
            return RobotsVerdict(f"{authority}/robots.txt", "unknown")
        return await asyncio.to_thread(self._verdict, authority, record, url)

    def _verdict(self, authority: str, record: RobotsRecord, url: str) -> RobotsVerdict:
        file, rules = f"{authority}/robots.txt", self._rules(record)
        if rules is None:
            return RobotsVerdict(file, "unreachable", record.reason)
        if rules.allows(url):
            return RobotsVerdict(file, "allowed")
        if record.is_forbidden:
            why = (
                f"it was answered by {record.status or '401 or 403'}, and ROBOTS_FORBIDDEN_IS deny"
            )
            return RobotsVerdict(file, "denied", why)
        lines = lines_for(record.body or b"", self.user_agent)
        return RobotsVerdict(file, "denied", line=deciding_line(lines, url))

    def _rules(self, record: RobotsRecord) -> RobotsRules | None:
        if record.reason:
            return None
        body = FORBIDDEN_FILE_RULES[self.forbidden_is] if record.is_forbidden else record.body
        return RobotsRules(body or b"", self.user_agent)

    def _puts_off(self, record: RobotsRecord) -> bool:
        rules = self._rules(record)
        return rules is None or rules.crawl_delay_s > self.crawl_delay_max_s

    # --- DNS -----------------------------------------------------------------------------------

    async def dns(self, control: CrawlControl, redis: Client, name: str) -> HostDns:
        """Return the cached addresses of a host; raise NotFound for an unknown host."""
        url = host_url(name)
        host, dns_name = host_of(url), _dns_name(url)
        if (fixed := addresses.literal(dns_name)) is not None:
            return HostDns(host, "fixed", [fixed], None, None, "host")
        override = addresses.override_of(addresses.overrides(self.overrides), dns_name)
        if override is not None:
            return HostDns(host, "fixed", [override[0]], None, None, "DNS_OVERRIDES")
        found = await resolver.read(redis, dns_name)
        if found is None:
            await _check_is_met(control, url)
            return HostDns(host, "unknown", [], None, None, "")
        if not found.addresses:
            state = "no_such_host"
        else:
            state = "fresh" if found.fresh_s > 0 else "stale"
        return HostDns(
            host,
            state,  # type: ignore[arg-type]
            list(found.addresses),
            round(max(0.0, found.fresh_s), 3),
            round(found.usable_s, 3) if found.addresses else None,
            "redis",
        )

    async def forget_dns(self, control: CrawlControl, redis: Client, name: str) -> ForgottenRecords:
        """Forget the addresses of a host: its next fetch looks it up anew."""
        url = host_url(name)
        dns_name = _dns_name(url)
        found = await resolver.read(redis, dns_name)
        if found is None:
            await _check_is_met(control, url)
        await resolver.forget(redis, dns_name)
        return ForgottenRecords(host_of(url), [] if found is None else list(found.addresses))


async def _check_is_met(control: CrawlControl, url: str) -> None:
    if not (await control.host(control.group(url))).is_known:
        raise NotFound(
            f"The crawl has not met the host {host_of(url)!r} (yet), and nothing of it is cached."
        )


async def _known(redis: Client, authorities: Iterable[str]) -> dict[str, RobotsRecord]:
    found = {authority: await records.read(redis, authority) for authority in authorities}
    return {authority: record for authority, record in found.items() if record is not None}


def _authorities(name: str) -> list[str]:
    return [authority_of(host_url(name, scheme)) for scheme in ("http", "https")]


def _dns_name(url: str) -> str:
    """Return the host of a URL without port and brackets, as the cache knows it."""
    return resolver.host_name(urlsplit(url).hostname or "")
