"""Questions to a crawl and orders for it, shared by `scrapy frontier` and the admin API.

Each function asks Redis, and the store of pages, and returns a typed answer: the command
prints it, the API serialises it. The answers are plain dataclasses, so this module works without
FastAPI; the metadata of their fields goes into the OpenAPI document, where `exclude` keeps a field
out of the API. Names of hosts and URLs are taken as the user wrote them. An order that needs the
frontier alone is a method of CrawlControl: pause, resume, requeue, delete. All times are UTC.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, cast

from annotated_types import Ge
from pymongo.errors import PyMongoError

from crawler.discovery import seeds
from crawler.discovery.scope import Scope
from crawler.errors import ConfigurationError, CrawlerError, NotFound, ServerAway
from crawler.frontier import CrawlControl, Entry, HostState, Sizes, meta
from crawler.frontier.control import BUCKET_MS
from crawler.frontier.on_disk import OnDisk
from crawler.monitoring.estimate import estimate
from crawler.monitoring.figures import by_word
from crawler.monitoring.ledger import SINGLE_MINUTES, Fleet, read
from crawler.monitoring.report import report
from crawler.scheduling import options
from crawler.scheduling.recrawl_plan import rate_of
from crawler.scheduling.recrawl_policy import Visit
from crawler.scheduling.recrawls import visit_of
from crawler.servers.redis.connection import Client
from crawler.storage.documents import as_json
from crawler.storage.reader import PageReader, StoredContent, Wanted
from crawler.storage.readers import open_reader, store_of
from crawler.storage.runs import Run, WantedRuns
from crawler.storage.search.query import Filters, Results, search
from crawler.storage.sinks import MONGO, targets
from crawler.storage.spool import spool_places
from crawler.urls import Rejected, Urls, canonical, host_of
from crawler.util.tasks import in_daemon_thread

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawler.servers.connections import Servers

logger = logging.getLogger(__name__)

T = TypeVar("T")
Count = Annotated[int, Ge(0)]


def doc(description: str, **schema: Any) -> dict[str, Any]:
    """Describe a field of an answer in the OpenAPI document, with more of its schema."""
    return {"description": description, "json_schema_extra": schema or None}


# The last moment that a datetime can represent.
_MAX_MS = 253_402_300_799_000


def moment(at_ms: float) -> datetime | None:
    """Convert milliseconds since 1970 to a datetime; None for 0."""
    return datetime.fromtimestamp(min(at_ms, _MAX_MS) / 1000, UTC) if at_ms > 0 else None


# --- crawls ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CrawlRow:
    """Crawl of this Redis, in short. Numbers are null for a crawl that this program cannot read."""

    crawl: str
    state: Literal["running", "paused", "idle", "stopped", "finished", "unknown"] = field(
        metadata=doc("idle: processes wait for URLs; stopped: no process works on its URLs")
    )
    pages: Count | None = None
    waiting: Count | None = None
    leased: Count | None = None
    processes: Count | None = None
    note: str = ""


async def crawls(redis: Client) -> list[CrawlRow]:
    """List all crawls of this Redis, running or not. O(keys)."""
    rows = []
    for crawl, version in (await meta.crawls(redis)).items():
        # It may be deleted meanwhile.
        with suppress(NotFound):
            rows.append(await _crawl_row(redis, crawl, version))
    return rows


async def _crawl_row(redis: Client, crawl: str, version: str) -> CrawlRow:
    if version not in meta.READABLE:
        note = f"of another version of this program (data model {version})"
        return CrawlRow(crawl, "unknown", note=note)
    control = await CrawlControl.open(redis, crawl)
    sizes, processes = await control.frontier.sizes(), len(await control.instances())
    return CrawlRow(
        crawl,
        state_of(sizes, processes),
        *(sizes.pages, sizes.waiting, sizes.leased, processes),
        note="paused" if sizes.paused else "",
    )


def state_of(
    sizes: Sizes, processes: int
) -> Literal["running", "paused", "idle", "stopped", "finished"]:
    """Return the state of a crawl in one word."""
    if not processes:
        return "stopped" if sizes.unfinished else "finished"
    if sizes.paused:
        return "paused"
    return "running" if sizes.unfinished else "idle"


# --- the crawl ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dropped:
    """URLs that were found and then left out."""

    excluded: Count
    purged: Count
    budget: Count
    refused: Count


@dataclass(frozen=True, slots=True)
class Worker:
    """Live process of the crawl, as its last heartbeat describes it."""

    id: str
    machine: str = ""
    pid: int = 0
    pages: Count = 0
    held: Count = field(default=0, metadata=doc("Leases that it holds"))
    shards: list[int] = field(
        default_factory=list,
        metadata=doc("Those that it prefers, by FLEET_STRATEGY", default=[]),
    )
    troubles: list[str] = field(
        default_factory=list,
        metadata=doc("Servers that do not answer it, and why", default=[]),
    )
    about: dict[str, Any] = field(
        default_factory=dict,
        metadata=doc("Everything it reports about itself", default={}),
    )


@dataclass(frozen=True, slots=True)
class Status:
    """State of the whole crawl, over all runs and processes."""

    crawl: str
    at: datetime
    state: Literal["running", "paused", "idle", "stopped", "finished"] = field(
        metadata=doc("idle: processes wait for URLs; stopped: no process works on its URLs")
    )
    paused: bool
    waiting: Count = field(metadata=doc("URLs in front and back queues"))
    waiting_by_queue: list[Count] = field(
        metadata=doc("Front queues: 1 to 5 of pages, 6 of documents, 7 of media")
    )
    waiting_by_host: Count = field(metadata=doc("In the back queues of active hosts"))
    leased: Count = field(metadata=doc("URLs that processes hold"))
    retries: Count
    recrawls: Count
    found: Count
    done: Count
    pages: Count = field(metadata=doc("Responses with a status 2xx"))
    dead: Count = field(metadata=doc("URLs ever put into the dead-letter queue"))
    unfinished: Count = field(metadata=doc("Waiting, leased or to be retried"))
    dropped: Dropped
    hosts: Count = field(metadata=doc("Hosts with URLs and a free slot"))
    workers: list[Worker]
    troubles: list[str] = field(metadata=doc("Troubles of all workers: machine, pid and trouble"))
    options: dict[str, Any] = field(metadata=doc("Options of the whole fleet"))
    memory_share: float = field(metadata=doc("Used share of Redis' maxmemory; 0 without a limit"))
    memory_bytes: Count = field(metadata=doc("Memory that Redis uses, for all crawls"))


async def status(crawl: str, control: CrawlControl) -> Status:
    """Return the state of the crawl."""
    sizes = await control.frontier.sizes()
    live, memory = await workers(control), await control.memory()
    return Status(
        crawl=crawl,
        at=datetime.now(UTC),
        state=state_of(sizes, len(live)),
        paused=sizes.paused > 0,
        waiting=sizes.waiting,
        waiting_by_queue=list(sizes.front),
        waiting_by_host=sizes.back,
        leased=sizes.leased,
        retries=sizes.retries,
        recrawls=sizes.recrawls,
        found=sizes.added,
        done=sizes.done,
        pages=sizes.pages,
        dead=sizes.dead,
        unfinished=sizes.unfinished,
        dropped=Dropped(
            sizes.dropped_excluded, sizes.dropped_purged, sizes.dropped_budget, sizes.refused
        ),
        hosts=sizes.hosts,
        workers=live,
        troubles=[f"{one.machine} {one.pid}: {text}" for one in live for text in one.troubles],
        options=await control.options(),
        memory_share=memory.share,
        memory_bytes=memory.used_bytes,
    )


async def workers(control: CrawlControl) -> list[Worker]:
    """Return the live processes, by machine and pid."""
    # A process of an older version may report less about itself.
    names = ("machine", "pid", "pages", "held", "shards", "troubles")
    live = [
        Worker(id_, about=about, **{name: about[name] for name in names if name in about})
        for id_, about in (await control.instances()).items()
    ]
    return sorted(live, key=lambda worker: (worker.machine, worker.pid, worker.id))


async def vitals(
    crawl: str, redis: Client, control: CrawlControl, *, minutes: int = 60
) -> dict[str, Any]:
    """Return the figures of the fleet, its sinks, and how many hosts are in each state."""
    fleet = await read(redis, crawl, minutes=minutes)
    found = report(fleet)
    found["spool"]["places"] = await spool_places(OnDisk(redis, crawl))
    # Minutes of a day come in tens, which are too long for an estimate.
    lately = fleet if minutes <= SINGLE_MINUTES else await read(redis, crawl, minutes=30)
    end = estimate(
        await control.frontier.sizes(),
        lately.minutes,
        max_pages=options.CrawlOptions().changed(await control.options()).max_pages,
        processes=len(await control.instances()),
        last=await control.last_due(),
    )
    return found | {"hosts": await control.host_counts(), "estimate": asdict(end)}


@dataclass(frozen=True, slots=True)
class LogEvent:
    """Event of the crawl: an order of people, a process that came or went, a warning, an error."""

    at: datetime
    kind: Literal["order", "process", "warning", "error"]
    text: str


async def events(control: CrawlControl) -> list[LogEvent]:
    """List the last 200 events of the crawl, the newest first."""
    # Processes tell their warnings later than they have them.
    found = sorted(await control.events(), key=lambda event: event.at_s, reverse=True)
    return [
        LogEvent(datetime.fromtimestamp(event.at_s, UTC), cast(Any, event.kind), event.text)
        for event in found
    ]


# --- options --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Option:
    """Option that all processes of the crawl follow."""

    name: str
    value: Any
    default: Any
    is_set: bool = field(metadata=doc("Whether it was given, or is the default"))
    meaning: str


async def crawl_options(control: CrawlControl) -> list[Option]:
    """List the options of the crawl, with their values for all processes."""
    given = await control.options()
    now, usual = options.CrawlOptions().changed(given), options.CrawlOptions()
    return [
        Option(name, getattr(now, name), getattr(usual, name), name in given, meaning)
        for name, meaning in options.MEANINGS.items()
    ]


async def change_options(control: CrawlControl, values: Mapping[str, Any]) -> list[Option]:
    """Change options for the whole fleet, None for the default."""
    given = {name: value for name, value in values.items() if value is not None}
    # Patterns are tried out, which takes a while.
    checked = await asyncio.to_thread(options.checked, given)
    await control.set_options(dict.fromkeys(values) | checked)
    return await crawl_options(control)


@dataclass(frozen=True, slots=True)
class DelayedQueue:
    """URLs that wait for their retry or recrawl, in buckets of time."""

    total_items: Count
    active_buckets: Count = field(metadata=doc("Buckets that have URLs"))
    bucket_size_seconds: Count = field(
        metadata=doc(
            "Seconds of a bucket below an hour of delay; a minute below a day, else an hour"
        )
    )
    current_bucket_id: Count | None = field(
        metadata=doc("The next bucket that is due: its time in ms since 1970")
    )
    current_bucket: datetime | None = field(metadata=doc("The same as a date"))


@dataclass(frozen=True, slots=True)
class Shard:
    """Part of the frontier, with some of the hosts."""

    shard: Count
    urls_waiting: Count
    urls_delayed: Count
    leased: Count
    pages: Count
    pages_per_second: float = field(metadata=doc("Over the last minutes"))
    processes: list[str] = field(metadata=doc("Processes that prefer it, by FLEET_STRATEGY"))


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """Frontier at work, over all processes."""

    crawl: str
    at: datetime
    urls_scheduled: Count = field(metadata=doc("URLs that were ever added"))
    urls_waiting: Count
    urls_delayed: Count
    urls_rejected: dict[str, int] = field(metadata=doc("Links that were not followed, by reason"))
    robots_denied: Count
    politeness_violations: Count = field(
        metadata=doc(
            "Fetches whose lease was lost before they ended, so that another process may have "
            "contacted the host at the same time"
        )
    )
    shard_assignments: dict[str, list[int]] = field(
        metadata=doc("Process: the shards it prefers, by FLEET_STRATEGY")
    )
    by_shard: list[Shard]
    active_shards: Count = field(metadata=doc("Shards that have URLs to crawl"))
    shards: Count
    delayed_queue: DelayedQueue
    insert_rate: float = field(metadata=doc("URLs added per second, over the last minutes"))
    insert_rate_per_second: float = field(metadata=doc("The same"))
    retrieval_rate: float = field(metadata=doc("Requests sent per second, over the last minutes"))
    retrieval_rate_per_second: float = field(metadata=doc("The same"))
    average_delay_s: float | None = field(
        metadata=doc("Mean delay between fetches of a host, over the last minutes")
    )
    average_delay_seconds: float | None = field(metadata=doc("The same"))
    bucket_utilization: float | None = field(metadata=doc("Mean number of URLs in a bucket"))
    cache_hit_ratios: dict[str, float | None] = field(metadata=doc("known URLs, dns, robots"))
    cache_hit_ratio: float | None = field(metadata=doc("That of the three caches together"))


# Minutes over which rates are measured; of the current minute only the elapsed part counts.
RATE_MINUTES = 5


async def scheduler_status(crawl: str, control: CrawlControl, fleet: Fleet) -> SchedulerStatus:
    """Return the frontier's figures; what processes count is up to a heartbeat old."""
    shards = await control.sizes_by_shard()
    sizes = sum(shards[1:], shards[0])
    buckets, due_ms = await control.delayed_buckets()
    now = datetime.now(UTC)
    totals, lately = fleet.totals, fleet.sum(RATE_MINUTES)
    span_s = (RATE_MINUTES - 1) * 60 + now.second + 1
    delays = sum(by_word(lately, "waits").values())
    average_delay_s = round(lately.get("waits_ms", 0) / 1000 / delays, 3) if delays else None
    insert_rate = round(lately.get("links/new", 0) / span_s, 3)
    retrieval_rate = round(lately.get("requests", 0) / span_s, 3)
    delayed = sizes.retries + sizes.recrawls
    assignments = {name: list(about.get("shards", [])) for name, about in fleet.instances.items()}
    return SchedulerStatus(
        crawl=crawl,
        at=now,
        urls_scheduled=sizes.added,
        urls_waiting=sizes.waiting,
        urls_delayed=delayed,
        urls_rejected=by_word(totals, "links/refused"),
        robots_denied=totals.get("robots/denied", 0),
        politeness_violations=totals.get("politeness/violations", 0),
        shard_assignments=assignments,
        by_shard=[
            Shard(
                *(number, shard.waiting, shard.retries + shard.recrawls),
                leased=shard.leased,
                pages=shard.pages,
                pages_per_second=round(lately.get(f"shard_pages/{number}", 0) / span_s, 3),
                processes=[name for name, preferred in assignments.items() if number in preferred],
            )
            for number, shard in enumerate(shards)
        ],
        active_shards=sum(shard.unfinished > 0 for shard in shards),
        shards=len(shards),
        delayed_queue=DelayedQueue(
            delayed, buckets, BUCKET_MS // 1000, due_ms or None, moment(due_ms)
        ),
        insert_rate=insert_rate,
        insert_rate_per_second=insert_rate,
        retrieval_rate=retrieval_rate,
        retrieval_rate_per_second=retrieval_rate,
        average_delay_s=average_delay_s,
        average_delay_seconds=average_delay_s,
        bucket_utilization=round(delayed / buckets, 3) if buckets else None,
        cache_hit_ratios={name: _hit_ratio(totals, name) for name in _CACHES},
        cache_hit_ratio=_hit_ratio(totals, *_CACHES),
    )


# Figures of each cache: its hits, and all lookups.
_CACHES = {
    "known_urls": ("links/cached", ("links/found",)),
    "dns": ("dns/hits", ("dns/hits", "dns/misses")),
    "robots": ("robots/cached", ("robots/cached", "robots/fetched")),
}


def _hit_ratio(figures: Mapping[str, int], *caches: str) -> float | None:
    hits = sum(figures.get(_CACHES[name][0], 0) for name in caches)
    lookups = sum(figures.get(figure, 0) for name in caches for figure in _CACHES[name][1])
    return round(hits / lookups, 4) if lookups else None


# --- hosts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """State of one host in the frontier, and the orders users gave for it."""

    host: str
    state: Literal["excluded", "blocked", "in_flight", "ready", "resting", "idle"]
    waiting: Count = field(metadata=doc("URLs in its back queues; more may be in front queues"))
    in_flight: Count
    pages: Count
    next_contact: datetime | None = field(metadata=doc("Earliest time of the next fetch"))
    usual_delay_s: float = field(metadata=doc("Delay after its last fetch"))
    delay_s: float | None = field(
        metadata=doc("Ordered: delay after each fetch; null for the usual one")
    )
    blocked_until: datetime | None = field(metadata=doc("Ordered"))
    excluded: bool = field(metadata=doc("Ordered: not crawled any more"))
    queue: int | None = field(metadata=doc("Ordered: back queue (1 to 5) of all its pages"))
    budget: int | None = field(metadata=doc("Ordered: maximum number of pages"))
    parallelism: int | None = field(metadata=doc("Ordered: fetches at a time"))


@dataclass(frozen=True, slots=True)
class Hosts:
    """A page of the list of hosts."""

    hosts: list[Host]
    total: Count = field(metadata=doc("Matching hosts among those that were read"))
    complete: bool = field(metadata=doc("False if there are more hosts than one list reads"))
    offset: Count
    limit: Count


@dataclass(frozen=True, slots=True)
class Purged:
    """Waiting URLs of a host that were dropped."""

    host: str
    dropped: Count = field(metadata=doc("From its back queues; those in front queues follow"))


async def hosts(
    control: CrawlControl,
    *,
    search: str = "",
    state: str = "",
    sort: str = "next",
    offset: int = 0,
    limit: int = 50,
) -> Hosts:
    """List hosts that are in the frontier or were crawled."""
    page = await control.hosts(
        text=search.strip().lower(), state=state, sort=sort, offset=offset, limit=limit
    )
    delays = await _delays(control)
    listed = [_host(found, delays.get(found.host)) for found in page.hosts]
    return Hosts(listed, page.total, page.complete, offset, limit)


async def host(control: CrawlControl, name: str) -> Host:
    """Return one host, or raise NotFound if it is neither met nor has an order."""
    found = await control.host(_host_name(name))
    delay_s = (await _delays(control)).get(found.host)
    if not found.is_known and delay_s is None:
        raise NotFound(f"The crawl has not met the host {found.host!r} (yet).")
    return _host(found, delay_s)


async def order(control: CrawlControl, name: str, orders: Mapping[str, Any]) -> Host:
    """Give orders for a host, met or not: the whole fleet follows, also after restarts.

    `orders` has some of delay_s, blocked_until, excluded, queue, budget and parallelism, with
    values as in `Host`; None takes an order back.
    """
    name, given = _host_name(name), dict(orders)
    if "delay_s" in given:
        await options.set_host_delay(control, name, given.pop("delay_s"))
    if "excluded" in given:
        given["exclude"] = given.pop("excluded")
    if "queue" in given:
        given["queue"] = given["queue"] or 0
    if "blocked_until" in given:
        until: datetime | None = given.pop("blocked_until")
        given["block"] = 0 if until is None else max(0, round(until.timestamp() * 1000))
    found = await control.host(name, **given)
    return _host(found, (await _delays(control)).get(name))


async def purge(control: CrawlControl, name: str) -> Purged:
    """Drop all waiting URLs of a host; links to it that are found later are crawled again."""
    found = await control.host(_host_name(name))
    await control.host(found.host, purge=True)
    return Purged(found.host, found.waiting)


def _host(found: HostState, delay_s: float | None) -> Host:
    return Host(
        host=found.host,
        state=cast(Any, found.state),
        waiting=found.waiting,
        in_flight=found.in_flight,
        pages=found.pages,
        next_contact=moment(found.clock_ms) if found.clock_ms > found.now_ms else None,
        usual_delay_s=found.delay_ms / 1000,
        delay_s=delay_s,
        blocked_until=(
            moment(found.blocked_until_ms) if found.blocked_until_ms > found.now_ms else None
        ),
        excluded=found.excluded,
        queue=found.queue or None,
        budget=found.budget,
        parallelism=found.parallelism,
    )


async def _delays(control: CrawlControl) -> Mapping[str, float]:
    return options.CrawlOptions().changed(await control.options()).host_delays


def _host_name(text: str) -> str:
    """Return a host as URLs spell it, with its port if it has one."""
    return host_of(host_url(text))


def host_url(text: str, scheme: str = "http") -> str:
    """Return the first URL of a host that users wrote, or raise ConfigurationError."""
    url = canonical(f"{scheme}://{text}/")
    if isinstance(url, Rejected) or url.count("/") != 3:
        raise ConfigurationError(f"{text[:100]!r} is no host; write it as www.example.com.")
    return url


# --- URLs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason and time of a failed attempt."""

    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class UrlState:
    """State of a URL, its failed attempts, and its stored record."""

    url: str = field(metadata=doc("Canonical form"))
    # The URL as it is fetched, where that is another spelling.
    written: str | None = field(metadata={"exclude": True})
    state: Literal["unseen", "known", "waiting", "leased", "delayed", "dead"] = field(
        metadata=doc("known: done, or far back in a queue")
    )
    owner: str = field(metadata=doc("Process that holds the lease"))
    reason: str = field(metadata=doc("Why it is dead; retry or recrawl if it is delayed"))
    at: datetime | None = field(metadata=doc("When it died or is due"))
    depth: int | None
    queue: int | None
    attempts: int | None
    history: list[Failure] = field(metadata=doc("The last failed attempts"))
    visited_at: datetime | None = field(metadata=doc("Its last visit, if it is visited again"))
    changes_per_day: float | None = field(
        metadata=doc("How often it changes, as far as it is known; with a budget for recrawls")
    )
    page: dict[str, Any] | None = field(metadata=doc("Its stored record, without content"))
    page_note: str = field(metadata=doc("Why there is no record"))


async def url(control: CrawlControl, text: str, pages: StoredPages | None = None) -> UrlState:
    """Return where a URL is in the crawl, and its record among `pages`."""
    spelled = canonical_url(control.urls, text)
    page, note = await (pages or StoredPages()).record(spelled, control.frontier.crawl)
    found = await control.status(spelled)
    entry = found.entry
    visit = visit_of(entry) if entry is not None else None
    return UrlState(
        url=spelled,
        written=entry.written_url if entry is not None and entry.written else None,
        state=cast(Any, found.state),
        owner=found.owner,
        reason=found.reason,
        at=moment(found.at_ms),
        depth=None if entry is None else entry.depth,
        queue=None if entry is None else entry.queue,
        attempts=None if entry is None else entry.attempts,
        history=_history(entry),
        visited_at=moment(visit.at_s * 1000) if visit is not None else None,
        changes_per_day=_changes_per_day(visit),
        page=page,
        page_note=note,
    )


def _changes_per_day(visit: Visit | None) -> float | None:
    if visit is None or visit.evidence is None or visit.evidence.number < 0:
        return None
    per_s = rate_of(visit.evidence.number).mean
    return float(f"{per_s * 86_400:.3g}")


async def forget(control: CrawlControl, text: str) -> str:
    """Forget that a URL was seen, so that it may be added again; return its canonical form.

    Raises NotFound for an unknown URL, and another CrawlerError while it is being fetched.
    """
    spelled = canonical_url(control.urls, text)
    if not await control.forget(spelled):
        raise NotFound(
            f"The crawl does not know {spelled}, or its URL-seen is a Bloom filter, which cannot "
            "forget."
        )
    return spelled


def canonical_url(urls: Urls, text: str) -> str:
    """Return the canonical form of a URL, or raise ConfigurationError."""
    found = urls.canonical(text)
    if isinstance(found, Rejected):
        raise ConfigurationError(f"{text[:200]!r}: {seeds.why(found.reason)}.")
    return found


def _history(entry: Entry | None) -> list[Failure]:
    kept = [] if entry is None else entry.tail.get("history", [])
    return [Failure(str(reason), datetime.fromtimestamp(at_s, UTC)) for reason, at_s in kept]


# --- seeds ----------------------------------------------------------------------------------------


# Seeds that are read before other tasks of the event loop get a turn.
_SEED_BATCH = 200


@dataclass(frozen=True, slots=True)
class SeedAnswer:
    """Result of adding one seed."""

    given: str
    url: str = field(metadata=doc("Canonical form; empty if it is rejected"))
    state: Literal["added", "known", "rejected"]
    # Why it was rejected: a word for programs, and a sentence for people.
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SeedAnswers:
    """Results of adding seeds, in the order in which they were given."""

    added: Count
    known: Count
    rejected: Count
    urls: list[SeedAnswer]


async def add_seeds(control: CrawlControl, given: Sequence[str]) -> SeedAnswers:
    """Add seeds; the answer says of each whether it was added, known or rejected, and why."""
    current = await options.of_crawl(control)
    scope = current.url_filter()
    read_seeds: list[Entry | Rejected] = []
    now_s = time()
    for number, text in enumerate(given):
        read_seeds.append(_seed(text, control.urls, scope, now_s))
        if number % _SEED_BATCH == 0:
            # Thousands take a while, and this process may be crawling.
            await asyncio.sleep(0)
    entries = [seed for seed in read_seeds if isinstance(seed, Entry)]
    domains = options.new_seed_domains(current, (entry.url for entry in entries))
    if domains:
        await control.add_seed_domains(domains)
    added = await control.add(entries)
    is_new = iter(added.is_new(index) for index in range(len(entries)))
    answers = [
        SeedAnswer(text, seed.url, "added" if next(is_new) else "known")
        if isinstance(seed, Entry)
        else SeedAnswer(text, "", "rejected", seed.reason, seeds.why(seed.reason))
        for text, seed in zip(given, read_seeds, strict=True)
    ]
    states = [answer.state for answer in answers]
    return SeedAnswers(
        states.count("added"), states.count("known"), states.count("rejected"), answers
    )


def _seed(text: str, urls: Urls, scope: Scope, now_s: float) -> Entry | Rejected:
    seed = seeds.parse_seed(text, urls, now_s=now_s)
    if isinstance(seed, Rejected):
        return seed
    if scope.excludes(seed.url):
        return Rejected("excluded")
    return Rejected("too_long") if scope.is_too_long(seed.url) else seed


# --- dead letters ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A URL that was given up."""

    url: str = field(metadata=doc("Empty if the record is damaged"))
    host: str
    reason: str
    at: datetime
    depth: int | None
    history: list[Failure]
    cursor: str
    # The record as Redis has it.
    data: bytes = field(repr=False, metadata={"exclude": True})


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A page of dead letters, the newest first; pass `next` as `before` for the next page."""

    letters: list[DeadLetter]
    total: Count = field(metadata=doc("All dead letters, whatever the filter"))
    next: str = field(metadata=doc("Empty at the end"))


async def dead_letters(
    control: CrawlControl, *, reason: str = "", host: str = "", before: str = "", limit: int = 100
) -> DeadLetters:
    """List the newest dead letters, by reason and host."""
    found = await control.dead(reason=reason, host=host, before=before, limit=limit)
    sizes = await control.frontier.sizes()
    letters = [
        DeadLetter(
            url="" if letter.entry is None else letter.entry.url,
            host=letter.host,
            reason=letter.reason,
            at=moment(letter.at_ms) or datetime.fromtimestamp(0, UTC),
            depth=None if letter.entry is None else letter.entry.depth,
            history=_history(letter.entry),
            cursor=letter.cursor,
            data=letter.data,
        )
        for letter in found
    ]
    following = letters[-1].cursor if letters and len(letters) == limit else ""
    return DeadLetters(letters, max(0, sizes.dead - sizes.trimmed), following)


# Groups of dead letters in an answer, and hosts or reasons that each names.
_GROUPS, _NAMED = 100, 5


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead letters of one reason."""

    reason: str
    count: Count
    newest: datetime | None
    hosts: dict[str, int] = field(metadata=doc("The hosts that have most of them"))


@dataclass(frozen=True, slots=True)
class FailingHost:
    """Host with dead letters."""

    host: str
    count: Count
    reasons: dict[str, int]


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """Dead letters counted by reason, and by host; the largest groups first."""

    reasons: list[DeadGroup]
    hosts: list[FailingHost]
    read: Count = field(metadata=doc("Letters that were counted: the newest"))
    complete: bool = field(metadata=doc("Whether these are all"))


async def dead_groups(control: CrawlControl, *, host: str = "") -> DeadGroups:
    """Count dead letters by reason and by host, of one host or of all."""
    found = await control.dead_groups(host=host)
    reasons = [
        DeadGroup(
            *(reason, hosts.total(), moment(found.newest_ms[reason])),
            hosts=dict(hosts.most_common(_NAMED)),
        )
        for reason, hosts in found.reasons.items()
    ]
    hosts = [
        FailingHost(name, reasons.total(), dict(reasons.most_common(_NAMED)))
        for name, reasons in found.hosts.items()
    ]
    return DeadGroups(
        sorted(reasons, key=lambda one: (-one.count, one.reason))[:_GROUPS],
        sorted(hosts, key=lambda one: (-one.count, one.host))[:_GROUPS],
        *(found.read, found.complete),
    )


# --- stored pages ---------------------------------------------------------------------------------

# Fields of a stored page that hold its content.
_CONTENT = ("links", "text", "body")
# A server that did not answer is asked again after this time.
_RETRY_S = 10.0
_TIMEOUT_S = 2.0
# Lists of pages and contents may take longer, and say so.
_LONG_S = 10.0
# Characters of each text of a page, and links, that an answer has.
_TEXT_SHOWN, _LINKS_SHOWN = 200_000, 1000


@dataclass(frozen=True, slots=True)
class PageRow:
    """Stored page in a list."""

    url: str
    title: str
    status: int
    reason: str = field(metadata=doc("Why it has no content; empty if it has"))
    crawled_at: datetime | None
    content_type: str
    size_bytes: Count
    language: str


@dataclass(frozen=True, slots=True)
class PageRows:
    """Stored pages, the newest first; pass `next` as `before` for older ones."""

    pages: list[PageRow]
    next: datetime | None = field(metadata=doc("null at the end"))


@dataclass(frozen=True, slots=True)
class StoredPage:
    """All that is stored of a page. Texts are cut after 200,000 characters."""

    record: dict[str, Any] = field(metadata=doc("Its metadata, see docs/pages.md"))
    links: list[str]
    text: str
    main_text: str
    markdown: str
    source: str = field(metadata=doc("Its body as text; empty if it is no text"))
    cut: bool = field(metadata=doc("Whether a text was cut"))
    note: str = field(metadata=doc("Why there is no content"))


class StoredPages:
    """Records of pages in a store, if it answers in time; connects at the first question."""

    def __init__(
        self, connect: Callable[[], Awaitable[PageReader]] | None = None, name: str = "MongoDB"
    ) -> None:
        """`connect` is None where records are not stored, `name` that of the store for people."""
        self._connect = connect
        self._name = name
        self._reader: PageReader | None = None
        self._away_until = 0.0
        # Why, for people.
        self._trouble = ""

    @classmethod
    def from_settings(cls, settings: BaseSettings, servers: Servers) -> Self:
        """Use the database that the settings name."""
        store = store_of(settings)
        if store is None or not targets(settings, store):
            return cls()
        folder = Path(settings["CRAWL_DIR"], "mongo")
        # Without its folder, an embedded server would create an empty database.
        if store == MONGO and not (settings["MONGO_URI"] or folder.is_dir()):
            return cls()
        name = "MongoDB" if store == MONGO else "PostgreSQL"
        return cls(partial(open_reader, settings, servers), name)

    async def record(self, url: str, crawl: str) -> tuple[dict[str, Any] | None, str]:
        """Return what JSON can hold of a URL's record in a crawl; or None, and why not."""
        if self._connect is None:
            return None, "Pages are not stored in MongoDB or PostgreSQL (SINKS)."
        try:
            page = await self._ask(lambda reader: reader.metadata(url, crawl))
        except ServerAway as error:
            return None, str(error)
        if page is None:
            return None, "It is not stored."
        kept = {name: value for name, value in page.items() if name not in _CONTENT}
        return json.loads(as_json(kept)), ""

    async def rows(self, wanted: Wanted, limit: int) -> PageRows:
        """List pages, the newest first; NotFound if none are stored, ServerAway as `_ask`."""

        async def read_rows(reader: PageReader) -> list[dict[str, Any]]:
            return [page async for page in reader.find(wanted, limit + 1)]

        found = [_row(page) for page in await self._ask(read_rows, is_long=True)]
        if len(found) <= limit:
            return PageRows(found, None)
        # Those of the same moment as the first of the next list come there, so that none is left
        # out. If the whole list is of that moment, there are more than can be listed.
        rows = [row for row in found if row.crawled_at != found[-1].crawled_at] or found[:limit]
        return PageRows(rows, rows[-1].crawled_at)

    async def page(self, url: str, crawl: str) -> StoredPage:
        """Return a page with its content; NotFound if it is not stored, ServerAway as `_ask`."""
        page = await self._ask(lambda reader: reader.metadata(url, crawl))
        if page is None:
            raise NotFound(f"The crawl {crawl!r} has stored no page of {url}.")
        content, note = None, ""
        try:
            content = await self._ask(lambda reader: reader.content(page), is_long=True)
        except NotFound as error:
            note = str(error)
        if content is None:
            note = note or page.get("reason") or "Its content is not kept."
        return _stored_page(page, content, note)

    async def runs(self, wanted: WantedRuns) -> list[Run]:
        """Return recorded runs; NotFound if none are recorded, ServerAway as `_ask`."""
        return await self._ask(lambda reader: reader.runs.find(wanted))

    async def run(self, run_id: str) -> Run:
        """Return one recorded run; NotFound if there is no record of it, ServerAway as `_ask`."""
        run = await self._ask(lambda reader: reader.runs.get(run_id, datetime.now(UTC)))
        if run is None:
            raise NotFound("There is no record of this run; GET /jobs lists those that there are.")
        return run

    async def _ask(
        self, question: Callable[[PageReader], Awaitable[T]], *, is_long: bool = False
    ) -> T:
        """Ask the reader; ServerAway if it does not answer in time, and for a while after that.

        A long question that takes too long says nothing of others. NotFound if nothing is stored,
        or the reader says so.
        """
        if self._connect is None:
            raise NotFound(
                "Pages and runs are recorded in MongoDB or PostgreSQL, and SINKS names neither."
            )
        if monotonic() < self._away_until:
            raise ServerAway(self._trouble)
        try:
            async with asyncio.timeout(_LONG_S if is_long else _TIMEOUT_S):
                if self._reader is None:
                    self._reader = await self._connect()
                return await question(self._reader)
        except NotFound:
            raise
        except TimeoutError as error:
            if not is_long:
                raise self._is_away(error) from error
            raise ServerAway(
                f"{self._name} took more than {_LONG_S:.0f} s; ask for less, such as pages of the "
                "last day."
            ) from error
        except (PyMongoError, CrawlerError) as error:
            raise self._is_away(error) from error

    def _is_away(self, error: Exception) -> ServerAway:
        """Remember for a while that the store cannot be read, and why."""
        self._away_until = monotonic() + _RETRY_S
        is_mistake = isinstance(error, ConfigurationError)
        self._trouble = str(error) if is_mistake else f"{self._name} does not answer."
        logger.warning("Admin API: %s cannot be read: %s", self._name, error)
        return ServerAway(self._trouble)


def _row(page: Mapping[str, Any]) -> PageRow:
    return PageRow(
        url=str(page.get("url", "")),
        title=str(page.get("title") or ""),
        status=int(page.get("status") or 0),
        reason=str(page.get("reason") or ""),
        crawled_at=page.get("crawled_at"),
        content_type=str(page.get("media_type") or page.get("content_type") or ""),
        size_bytes=int(page.get("size_bytes") or 0),
        language=str(page.get("text_language") or page.get("language") or ""),
    )


def _stored_page(page: dict[str, Any], content: StoredContent | None, note: str) -> StoredPage:
    kept = {name: value for name, value in page.items() if name not in _CONTENT}
    texts = dict.fromkeys(("text", "main_text", "markdown", "source"), "")
    if content is not None:
        texts = {name: getattr(content, name) for name in ("text", "main_text", "markdown")}
        # A file is no text, and its first bytes say so.
        is_text = b"\0" not in content.body[:1000]
        texts["source"] = content.decoded(page.get("charset")) if is_text else ""
    return StoredPage(
        record=json.loads(as_json(kept)),
        links=list(page.get("links") or [])[:_LINKS_SHOWN],
        **{name: text[:_TEXT_SHOWN] for name, text in texts.items()},
        cut=any(len(text) > _TEXT_SHOWN for text in texts.values()),
        note=note,
    )


# --- search ---------------------------------------------------------------------------------------

# Searches at once, and the time of one: they take milliseconds, unless the disk is slow.
_SEARCHES = 4
_SEARCH_S = 5.0


@dataclass(frozen=True, slots=True)
class FoundPage:
    """A page that a search found."""

    title: str
    url: str
    crawl: str
    language: str
    score: float
    crawled_at: datetime
    snippet: str = field(metadata=doc("HTML: escaped text with <b> around the words"))


@dataclass(frozen=True, slots=True)
class FoundPages:
    """The best pages first."""

    results: list[FoundPage]
    total: Count = field(metadata=doc("All pages that match"))


class PageSearch:
    """Searches in the index of the stored pages, each in a thread; there are few at once."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is that of the index."""
        self._folder = folder
        self._running = 0

    async def search(self, text: str, filters: Filters, *, limit: int) -> FoundPages:
        """Search; ServerAway if that is not possible now, NotFound if there is no index."""
        folder = self._folder
        if folder is None:
            raise NotFound("There is no search index: make one by `scrapy pages index`.")
        if self._running >= _SEARCHES:
            raise ServerAway("There are too many searches at once; try again.")

        def work() -> Results:
            try:
                return search(folder, text, filters, limit=limit)
            finally:
                self._running -= 1

        self._running += 1
        try:
            async with asyncio.timeout(_SEARCH_S):
                found = await in_daemon_thread(work)
        except TimeoutError:
            raise ServerAway(f"The search took more than {_SEARCH_S:.0f} s; try again.") from None
        except ConfigurationError as error:
            # The package or a whole index is missing: a mistake of the server's, not of the query.
            raise ServerAway(str(error)) from error
        return FoundPages([FoundPage(**each.as_json()) for each in found.results], found.total)
