"""Why a crawl would leave a URL out now: each gate that refuses it, and by which rule.

The gates are those of a crawl (scope, traps, robots.txt, rules and orders for hosts) with its
current options. They are asked anew: nothing is recorded of links that were not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Self

from crawler.admin.host_records import HostRecords
from crawler.admin.queries import canonical_url, doc
from crawler.config.values import fill
from crawler.discovery.scope import (
    SKIPPED_EXTENSIONS,
    domain_within,
    extension,
    skipped_extensions,
)
from crawler.discovery.traps import PageLinks, TrapRules, Traps
from crawler.frontier import CrawlControl
from crawler.politeness.host_delays import host_rules
from crawler.politeness.host_rules import HostRules
from crawler.scheduling import options
from crawler.scheduling.options import CrawlOptions
from crawler.urls import host_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.redis.connection import Client

# Reasons of the crawl's scope, for people.
_SCOPE = {
    "depth": "it is deeper than max_depth",
    "too_long": "it is longer than max_url_length",
    "extension": "its ending is not followed (SKIPPED_EXTENSIONS, FOLLOW_DOCUMENTS, FOLLOW_MEDIA)",
    "excluded": "its domain is one of excluded_domains",
    "scope": "it is outside of scope and allowed_domains",
    "include": "it has none of the patterns of include",
    "exclude": "it has a pattern of exclude",
}
# A page that is in no domain: one that links to a URL which no seed's domain has.
_ELSEWHERE = "http://elsewhere.invalid/"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Gate that would keep a URL out."""

    gate: str = field(metadata=doc("options, scope, trap, robots.txt, HOST_RULES or host"))
    reason: str = field(metadata=doc("One word, as in the figures of links not followed"))
    rule: str = field(metadata=doc("The rule: an option and its value, or a line of robots.txt"))
    detail: str = field(metadata=doc("The reason in a sentence"))


@dataclass(frozen=True, slots=True)
class UrlRefusals:
    """All gates that would keep a URL out now; none, and it would be crawled."""

    url: str = field(metadata=doc("Canonical form"))
    refusals: list[Refusal]


@dataclass(frozen=True, slots=True)
class Gates:
    """Gates of a crawl with these settings."""

    skipped: AbstractSet[str] = SKIPPED_EXTENSIONS
    traps: TrapRules = field(default_factory=TrapRules)
    hosts: HostRules = field(default_factory=lambda: HostRules({}))

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(skipped_extensions(settings), fill(TrapRules, settings), host_rules(settings))

    def refuses_link(
        self, crawl: CrawlOptions, url: str, *, page: str, depth: int, today: date
    ) -> Refusal | None:
        """Return why a link on a page would not be followed, or None."""
        if not crawl.follow and depth:
            why = "the crawl follows no links (follow=no)"
            return Refusal("options", "follow", "follow = no", why)
        reason = crawl.url_filter(self.skipped).refuses(url, page_url=page, depth=depth)
        if reason is not None:
            return Refusal("scope", reason, _RULES[reason](crawl, url), _SCOPE[reason])
        trap = Traps(self.traps).refuses(url, PageLinks(page), today=today)
        if trap is None:
            return None
        return Refusal(
            "trap", f"trap_{trap}", f"TRAP_{trap.upper()}", f"it looks like a trap ({trap})"
        )

    async def refusals(
        self, control: CrawlControl, redis: Client, records: HostRecords, text: str, page: str = ""
    ) -> UrlRefusals:
        """Ask all gates about a URL; `page` links to it, else some page of a seed's domain."""
        url = canonical_url(control.urls, text)
        crawl = await options.of_crawl(control)
        found: list[Refusal] = []
        if page:
            linked_from = canonical_url(control.urls, page)
        else:
            is_seeds = crawl.domain_of(host_of(url)) in crawl.seed_domains
            linked_from = url if is_seeds else _ELSEWHERE
        entry = (await control.status(url)).entry
        depth = 1 if entry is None else entry.depth
        if depth:
            today = datetime.now(UTC).date()
            link = self.refuses_link(crawl, url, page=linked_from, depth=depth, today=today)
            found += [] if link is None else [link]
        elif (domain := domain_within(host_of(url), crawl.excluded_domains)) is not None:
            rule = f"excluded_domains = {domain}"
            found.append(Refusal("scope", "excluded", rule, _SCOPE["excluded"]))
        found += await self._of_host(control, crawl, url)
        verdict = await records.verdict(redis, url)
        if verdict.state == "denied":
            line = verdict.line
            rule = verdict.reason if line is None else f"line {line.number}: {line.text}"
            why = f"{verdict.file} forbids it to {records.user_agent}"
            found.append(Refusal("robots.txt", "robots", rule, why))
        elif verdict.state == "unreachable":
            why = f"{verdict.file} cannot be fetched, so its URLs wait"
            found.append(Refusal("robots.txt", "unreachable", verdict.reason, why))
        return UrlRefusals(url, found)

    async def _of_host(self, control: CrawlControl, crawl: CrawlOptions, url: str) -> list[Refusal]:
        host = await control.host(control.group(url))
        found = []
        if self.hosts.for_host(host.host).blocked:
            rule = f"HOST_RULES: {host.host} blocked"
            found.append(Refusal("HOST_RULES", "host_rules", rule, "HOST_RULES block its host"))
        if host.excluded:
            found.append(Refusal("host", "excluded", "excluded", "its host was excluded by people"))
        elif host.blocked_until_ms > host.now_ms:
            until = datetime.fromtimestamp(host.blocked_until_ms / 1000, UTC)
            rule = f"blocked until {until:%Y-%m-%d %H:%M} UTC"
            found.append(Refusal("host", "blocked", rule, "its host is blocked; its URLs wait"))
        budget = host.budget or self.hosts.for_host(host.host).budget or crawl.max_pages_per_host
        if 0 < budget <= host.pages:
            rule = f"budget = {budget:,}"
            why = f"its host has its {host.pages:,} pages"
            found.append(Refusal("host", "budget", rule, why))
        return found


def _domains(crawl: CrawlOptions, _url: str) -> str:
    domains = ", ".join(crawl.allowed_domains[:5]) or ", ".join(sorted(crawl.seed_domains)[:5])
    return f"scope = {crawl.scope}" + (f" ({domains})" if domains else "")


_RULES: Mapping[str, Callable[[CrawlOptions, str], str]] = {
    "depth": lambda crawl, _: f"max_depth = {crawl.max_depth}",
    "too_long": lambda crawl, _: f"max_url_length = {crawl.max_url_length}",
    "extension": lambda _, url: f"SKIPPED_EXTENSIONS: {extension(url)}",
    "excluded": lambda crawl, url: (
        f"excluded_domains = {domain_within(host_of(url), frozenset(crawl.excluded_domains))}"
    ),
    "scope": _domains,
    "include": lambda crawl, _: f"include = {' '.join(crawl.include)}"[:300],
    "exclude": lambda crawl, url: (
        "exclude = "
        + next(each.pattern for each in options.compiled(crawl.exclude) if each.search(url))
    ),
}
