"""Why a host is crawled as it is, or not: its clock and delay, its URLs, errors, records."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Self

from crawler.admin import queries
from crawler.admin.host_records import HostDns, HostRecords, HostRobots
from crawler.admin.queries import Count, DeadGroup, doc
from crawler.config.values import fill
from crawler.errors import NotFound
from crawler.frontier import CrawlControl
from crawler.politeness.host_delays import DelayPolicy, counted, host_rules
from crawler.politeness.host_rules import HostRule, HostRules
from crawler.scheduling import options

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.redis.connection import Client

_NEXT_URLS = 10
# Share by which a measured delay may differ from the one that was asked for.
_CLOSE = 0.02
Cause = Literal["minimum", "host_rule", "rate", "adaptive", "crawl_delay", "breaker", "overload"]


@dataclass(frozen=True, slots=True)
class DelayReport:
    """Delay of a host after a fetch, and what requires it."""

    delay_s: float
    cause: Cause = field(metadata=doc("As in the figures of delays"))
    detail: str


@dataclass(frozen=True, slots=True)
class HostReport:
    """State of a host, and why it is crawled as it is."""

    host: queries.Host
    at: datetime
    why: list[str] = field(metadata=doc("Why it is not fetched from now, or that it is"))
    next_contact_s: float | None = field(
        metadata=doc("Seconds until the next fetch may start; null if that cannot be told")
    )
    delay: DelayReport
    overloads: Count = field(metadata=doc("Answers 429 and 503 that still count"))
    failures: Count = field(metadata=doc("Connections that failed in a row"))
    rule: dict[str, Any] = field(metadata=doc("What HOST_RULES say about it"))
    waiting_by_queue: list[Count] = field(
        metadata=doc("Back queues: 1 to 5 of pages, 6 of documents, 7 of media")
    )
    next_urls: list[str] = field(metadata=doc("The next of each back queue"))
    dead: list[DeadGroup] = field(metadata=doc("Its dead letters by reason"))
    robots: HostRobots
    dns: HostDns


@dataclass(frozen=True, slots=True)
class HostReports:
    """Reporter on hosts, as a crawl with these settings treats them."""

    policy: DelayPolicy = field(default_factory=DelayPolicy)
    rules: HostRules = field(default_factory=lambda: HostRules({}))
    records: HostRecords = field(default_factory=HostRecords)

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return cls(
            fill(DelayPolicy, settings), host_rules(settings), HostRecords.from_settings(settings)
        )

    async def report(self, control: CrawlControl, redis: Client, name: str) -> HostReport:
        """Return all about a host; NotFound if the crawl has not met it."""
        host = await queries.host(control, name)
        rule = self.rules.for_host(host.host)
        overloads, failures = await counted(redis, host.host)
        robots = await self._robots(control, redis, host.host)
        dns = await self._dns(control, redis, host.host)
        waiting = await control.waiting_of(host.host, limit=_NEXT_URLS)
        crawl = options.CrawlOptions().changed(await control.options())
        delay = self._delay(host, rule, robots, overloads, failures)
        now = datetime.now(UTC)
        why = [
            *await _of_crawl(control),
            *_of_people(host, rule, host.budget or rule.budget or crawl.max_pages_per_host),
            *_of_records(robots, dns),
            *_of_clock(host, delay),
        ]
        next_s: float | None = None
        if host.waiting and not host.excluded:
            at = host.next_contact
            next_s = 0.0 if at is None else max(0.0, (at - now).total_seconds())
        return HostReport(
            *(host, now, why, next_s, delay, overloads, failures),
            rule={name: value for name, value in asdict(rule).items() if value},
            waiting_by_queue=list(waiting.sizes),
            next_urls=[entry.url for entry in waiting.first],
            dead=(await queries.dead_groups(control, host=host.host)).reasons,
            robots=robots,
            dns=dns,
        )

    async def _robots(self, control: CrawlControl, redis: Client, host: str) -> HostRobots:
        try:
            return await self.records.robots(control, redis, host)
        except NotFound:
            return HostRobots(host, self.records.user_agent, [])

    async def _dns(self, control: CrawlControl, redis: Client, host: str) -> HostDns:
        try:
            return await self.records.dns(control, redis, host)
        except NotFound:
            return HostDns(host, "unknown", [], None, None, "")

    def _delay(
        self, host: queries.Host, rule: HostRule, robots: HostRobots, overloads: int, failures: int
    ) -> DelayReport:
        """Return the delay with its cause: what is known of the host that explains its length."""
        usual_s, policy = host.usual_delay_s, self.policy
        asked_s = max((file.crawl_delay_s or 0.0 for file in robots.files), default=0.0)
        spacing_s = 60 / rule.per_minute if rule.per_minute else 0.0
        cause: Cause = "adaptive"
        if policy.is_broken(failures):
            cause = "breaker"
            detail = f"{failures:,} connections failed in a row; the next fetch is a probe"
        elif overloads:
            cause = "overload"
            detail = (
                f"{overloads:,} answers 429 or 503: Retry-After, or OVERLOAD_REST, which doubles"
            )
        elif asked_s and asked_s * (1 + _CLOSE) >= usual_s:
            cause, detail = "crawl_delay", f"robots.txt asks for a Crawl-delay of {asked_s:g} s"
        elif host.delay_s is not None:
            cause, detail = "host_rule", f"people set {host.delay_s:g} s"
        elif rule.delay is not None:
            cause, detail = "host_rule", f"HOST_RULES say {rule.delay:g} s"
        elif spacing_s and spacing_s * (1 + _CLOSE) >= usual_s > policy.min_s:
            cause, detail = "rate", f"at most {rule.per_minute:g} fetches a minute"
        elif usual_s <= policy.min_s * (1 + _CLOSE):
            cause, detail = "minimum", f"DELAY_MIN is {policy.min_s:g} s"
        else:
            fetch_s = usual_s / policy.factor if policy.factor else 0.0
            detail = f"DELAY_FACTOR ({policy.factor:g}) times its usual fetch of {fetch_s:.2g} s"
        return DelayReport(usual_s, cause, detail)


async def _of_crawl(control: CrawlControl) -> list[str]:
    found = []
    if (await control.frontier.sizes()).paused:
        found.append("The crawl is paused.")
    if not await control.instances():
        found.append("No process works on the crawl.")
    return found


def _of_people(host: queries.Host, rule: HostRule, budget: int) -> list[str]:
    found = []
    if rule.blocked:
        found.append("HOST_RULES block it.")
    if host.excluded:
        found.append("It was excluded: its URLs are dropped.")
    if host.blocked_until is not None:
        found.append(f"It is blocked until {host.blocked_until:%Y-%m-%d %H:%M} UTC; its URLs wait.")
    if 0 < budget <= host.pages:
        found.append(f"It has the {budget:,} pages of its budget.")
    return found


def _of_records(robots: HostRobots, dns: HostDns) -> list[str]:
    found = []
    for file in robots.files:
        if file.state == "unreachable":
            until = f"{file.expires:%H:%M:%S} UTC"
            found.append(
                f"{file.url} cannot be fetched ({file.reason}): its URLs wait until {until}."
            )
        elif file.allows_root is False:
            found.append(f"{file.url} forbids / to {robots.user_agent}.")
    if dns.state == "no_such_host":
        found.append("DNS says that there is no such name.")
    return found


def _of_clock(host: queries.Host, delay: DelayReport) -> list[str]:
    if host.state == "in_flight":
        return ["It is being fetched from now."]
    if not host.waiting:
        return ["None of its URLs is in its back queues: all are done, or in front queues."]
    if host.state == "resting":
        return [f"Its delay is not over: {delay.detail}."]
    if host.state == "ready":
        return ["It is due: a process takes its next URL as soon as it has room."]
    return []
