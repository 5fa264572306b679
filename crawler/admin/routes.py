"""Routes of the API: they check a request, call the query layer, and return its answer.

A router for each tag of the OpenAPI document; `routers` lists them. The bodies of requests are
models next to their routes.

Each call may name another crawl of the same Redis (`?crawl=`). All listeners of a crawl share one
stream of events, so it is asked once for all of them. There are several sources of events, each
with its own interval. Nothing is queued: a slow listener misses events, and gets the newest of each
source.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from crawler.admin import queries
from crawler.admin.errors import problem
from crawler.admin.host_records import ForgottenRecords, HostDns, HostRecords, HostRobots
from crawler.admin.host_report import HostReport, HostReports
from crawler.admin.queries import Count, PageSearch, StoredPages
from crawler.admin.refusals import Gates, UrlRefusals
from crawler.admin.tokens import Role
from crawler.errors import ConfigurationError, CrawlerError, NotFound
from crawler.frontier import CrawlControl
from crawler.frontier.control import READ_MAX
from crawler.monitoring.ledger import MINUTES_MAX, SINGLE_MINUTES, read
from crawler.monitoring.prometheus import CONTENT_TYPE, Sheet, add_fleet, add_worker
from crawler.scheduling import options
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.storage.reader import Wanted
from crawler.storage.runs import WantedRuns
from crawler.storage.search.query import LIMIT_MAX, QUERY_MAX, Filters
from crawler.urls import DEFAULT, Urls
from crawler.util.format import seconds

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

MAX_LISTENERS = 20
# Seconds for the list of all crawls: Redis reads the names of all its keys.
CRAWLS_S = 20.0
# After this time without news a comment is sent, so that both sides notice a dead connection.
HEARTBEAT_S = 10.0


_SINCE = "a time with its zone, as 2026-05-31T12:00Z, or 45m, 2h, 3d or 1w ago"


def _read_since(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Read a time, or how long ago it was."""
    text = str(value).strip()
    if text[-1:].isalpha() and (ago_s := seconds(text)) is not None:
        return datetime.now(UTC) - timedelta(seconds=ago_s)
    try:
        return read(value)
    except ValueError:
        raise ValueError(f"write {_SINCE}") from None


Since = Annotated[AwareDatetime, WrapValidator(_read_since)]


class Full(Exception):
    """Refusal of a listener: MAX_LISTENERS are there already."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """Source of events: their name, the function that reads one, and its interval."""

    name: str
    read: Callable[[], Awaitable[str]]
    interval_s: float = 1.0


class EventStream:
    """Events from several sources, read only while somebody listens."""

    def __init__(self, *sources: EventSource) -> None:
        self._sources = sources
        self._news = asyncio.Event()
        self._number = 0
        # Name of a source -> number of its newest event, and its text.
        self._newest: dict[str, tuple[int, str]] = {}
        self._listeners = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def listeners(self) -> int:
        """Number of streams that are read."""
        return self._listeners

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._news.set()

    def listen(self) -> AsyncIterator[str]:
        """Return server-sent events from now on, or raise Full."""
        if self._listeners >= MAX_LISTENERS:
            raise Full
        return self._events()

    async def _events(self) -> AsyncIterator[str]:
        # Counted here: a generator that is never started is never closed either.
        self._listeners += 1
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._read_forever(source)) for source in self._sources]
        heard = 0
        try:
            yield "retry: 2000\n\n"
            while not self._closed:
                news = self._news
                if self._number > heard:
                    before, heard = heard, self._number
                    yield "".join(text for at, text in self._newest.values() if at > before)
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await news.wait()
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1
            if self._listeners == 0:
                for task in self._tasks:
                    task.cancel()
                self._tasks = []
                self._newest = {}

    async def _read_forever(self, source: EventSource) -> None:
        while not self._closed:
            try:
                text = event(source.name, await source.read())
            except (CrawlerError, *RedisAway) as error:
                text = event("trouble", str(error) or type(error).__name__)
            except Exception:
                logger.exception("The crawl's figures could not be read; trying again")
                text = event("trouble", "The figures could not be read; the log says more.")
            self._number += 1
            self._newest[source.name] = self._number, text
            news, self._news = self._news, asyncio.Event()
            news.set()
            await asyncio.sleep(source.interval_s)


def event(name: str, data: str) -> str:
    """Format a server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


class EventStreams:
    """Streams of events, one for each crawl that somebody listens to."""

    def __init__(self, make: Callable[[CrawlContext], EventStream]) -> None:
        self._make = make
        self._streams: dict[str, EventStream] = {}

    def listen(self, crawl: CrawlContext) -> AsyncIterator[str]:
        """Return server-sent events of a crawl from now on, or raise Full."""
        if sum(stream.listeners for stream in self._streams.values()) >= MAX_LISTENERS:
            raise Full
        if crawl.name not in self._streams:
            if len(self._streams) >= 2 * MAX_LISTENERS:
                used = {name: one for name, one in self._streams.items() if one.listeners}
                self._streams = used
            self._streams[crawl.name] = self._make(crawl)
        return self._streams[crawl.name].listen()

    def close(self) -> None:
        """End all streams."""
        for stream in self._streams.values():
            stream.close()


@dataclass(frozen=True)
class CrawlContext:
    """Crawl that the API serves; each request finds out anew whether it exists."""

    name: str
    redis: Client = field(repr=False)
    urls: Urls = DEFAULT
    # Of the process that serves the API, if it crawls as well.
    crawler: Crawler | None = field(default=None, repr=False)
    pages: StoredPages = field(default_factory=StoredPages, repr=False)
    records: HostRecords = field(default_factory=HostRecords, repr=False)
    search: PageSearch = field(default_factory=PageSearch, repr=False)
    reports: HostReports = field(default_factory=HostReports, repr=False)
    gates: Gates = field(default_factory=Gates, repr=False)

    async def control(self) -> CrawlControl:
        """Return the crawl's control, or raise NotFound while there is no such crawl."""
        return await CrawlControl.open(self.redis, self.name, self.urls)


# SecurityMiddleware has checked the token by then; this is for the OpenAPI document.
BEARER = HTTPBearer(
    auto_error=False, description="From admin.token in CRAWL_DIR, ADMIN_TOKEN_FILE or ADMIN_TOKEN"
)


def _crawl(
    request: Request,
    crawl: Annotated[
        str,
        Query(max_length=300, description="Another crawl of this Redis; by default the server's"),
    ] = "",
) -> CrawlContext:
    served: CrawlContext = request.app.state.crawl
    return served if crawl in ("", served.name) else replace(served, name=crawl, crawler=None)


TheCrawl = Annotated[CrawlContext, Depends(_crawl)]


async def _pages(request: Request) -> StoredPages:
    pages: StoredPages = request.app.state.crawl.pages
    return pages


ThePages = Annotated[StoredPages, Depends(_pages)]


async def _control(crawl: TheCrawl) -> CrawlControl:
    return await crawl.control()


TheControl = Annotated[CrawlControl, Depends(_control)]


def note(request: Request, text: str) -> None:
    """Add the effect of a request to its line in the audit log."""
    request.state.audit = text


class Strict(BaseModel):
    """Body of a request; unknown names in it are an error."""

    model_config = ConfigDict(extra="forbid")


# --- health ---------------------------------------------------------------------------------------

health = APIRouter(tags=["health"])


class Health(BaseModel):
    """Parts that work."""

    ok: bool
    parts: dict[str, str] = {}


@health.get("/healthz")
async def healthz() -> Health:
    """Report that the process is alive; needs no token and asks no server."""
    return Health(ok=True)


@health.get("/readyz", response_model=Health, dependencies=[Depends(BEARER)])
async def readyz(request: Request) -> Health | JSONResponse:
    """Report whether Redis answers and has the crawl."""
    crawl: CrawlContext = request.app.state.crawl
    try:
        await crawl.control()
    except CrawlerError as error:
        return problem(503, str(error))
    except RedisAway as error:
        return problem(503, f"Redis does not answer: {error}")
    return Health(ok=True, parts={"redis": "ok", "crawl": crawl.name})


# --- the crawl ------------------------------------------------------------------------------------

crawl_routes = APIRouter(tags=["crawl"])


class Paused(BaseModel):
    """Pause state of the crawl."""

    crawl: str
    paused: bool


class Crawls(BaseModel):
    """All crawls of this Redis, and the one that is meant where a call names none."""

    served: str
    crawls: list[queries.CrawlRow]


class Stopping(BaseModel):
    """Process that was asked to stop."""

    id: str
    stopping: bool


class Access(BaseModel):
    """What the token of a request allows."""

    name: str
    role: Role = Field(description="`read` may look at everything, `operate` may change it as well")


@crawl_routes.get("/access")
async def access(request: Request) -> Access:
    """Show the name and the role of the token that is used."""
    return Access(name=request.state.token.name, role=request.state.token.role)


@crawl_routes.get("/crawls")
async def crawls(request: Request) -> Crawls:
    """List all crawls of this Redis, running or not."""
    served: CrawlContext = request.app.state.crawl
    try:
        async with asyncio.timeout(CRAWLS_S):
            found = await queries.crawls(served.redis)
    except TimeoutError as error:
        raise HTTPException(
            503,
            f"Redis has so many keys that its crawls are not found in {CRAWLS_S:g} s; name one "
            "(?crawl=).",
        ) from error
    return Crawls(served=served.name, crawls=found)


@crawl_routes.get("/status")
async def status(crawl: TheCrawl, control: TheControl) -> queries.Status:
    """Show the state of the whole crawl."""
    return await queries.status(crawl.name, control)


@crawl_routes.get("/scheduler/status")
async def scheduler_status(crawl: TheCrawl, control: TheControl) -> queries.SchedulerStatus:
    """Show the frontier at work: sizes, shards, rates, delays, caches."""
    fleet = await read(crawl.redis, crawl.name, minutes=queries.RATE_MINUTES)
    return await queries.scheduler_status(crawl.name, control, fleet)


@crawl_routes.get("/workers")
async def workers(control: TheControl) -> list[queries.Worker]:
    """List the live processes, with their shards."""
    return await queries.workers(control)


@crawl_routes.post("/workers/{worker}/stop")
async def stop(
    request: Request, control: TheControl, worker: Annotated[str, Path(max_length=300)]
) -> Stopping:
    """Ask a process to stop within seconds: fetches in flight finish, the rest is handed back."""
    if not await control.stop(worker):
        raise HTTPException(404, "No live process has this id; GET /workers lists those that do.")
    note(request, "(asked)")
    return Stopping(id=worker, stopping=True)


@crawl_routes.get("/log")
async def log(control: TheControl) -> list[queries.LogEvent]:
    """List the last 200 events, the newest first: orders, processes, warnings, errors."""
    return await queries.events(control)


@crawl_routes.post("/crawl/pause")
async def pause(crawl: TheCrawl, control: TheControl) -> Paused:
    """Start no fetches until the crawl is resumed; fetches in flight finish."""
    await control.pause()
    return Paused(crawl=crawl.name, paused=True)


@crawl_routes.post("/crawl/resume")
async def resume(crawl: TheCrawl, control: TheControl) -> Paused:
    """Continue a paused crawl."""
    await control.resume()
    return Paused(crawl=crawl.name, paused=False)


# --- seeds, limits and single URLs ----------------------------------------------------------------

url_routes = APIRouter(tags=["URLs"])
MAX_SEEDS = 10_000
# The API's names of limits, and the options of the crawl.
_LIMITS = {
    "excludedDomains": "excluded_domains",
    "depthLimit": "max_depth",
    "urlLengthLimit": "max_url_length",
}
Url = Annotated[str, Query(min_length=1, max_length=10_000, description="https://example.com/page")]


class SeedUrls(Strict):
    """Seeds under the name `urls`."""

    urls: list[str] | str


class UrlLimits(Strict):
    """Limits for the whole fleet; a limit that is not named stays, null lifts it."""

    excludedDomains: list[str] | str | None = Field(  # noqa: N815
        default=None, description="Domains, with all their subdomains; replaces the list"
    )
    depthLimit: int | None = Field(  # noqa: N815
        default=None, ge=0, le=255, description="Links from a seed; 0 for no limit"
    )
    urlLengthLimit: int | None = Field(  # noqa: N815
        default=None, ge=0, le=1_000_000, description="Characters of a URL; 0 for no limit"
    )


class UrlLimitsNow(BaseModel):
    """Current limits."""

    excludedDomains: list[str]  # noqa: N815
    depthLimit: Count  # noqa: N815
    urlLengthLimit: Count  # noqa: N815


class Forgotten(BaseModel):
    """A URL that may be added again."""

    url: str
    forgotten: bool


@url_routes.post("/seed/urls")
async def seed_urls(
    request: Request,
    control: TheControl,
    body: Annotated[
        list[str] | str | SeedUrls,
        Body(description="A list of URLs, or one string with commas or blanks between them"),
    ],
) -> queries.SeedAnswers:
    """Add seeds; the answer says of each whether it was added, known or rejected, and why."""
    given = body.urls if isinstance(body, SeedUrls) else body
    texts = given.replace(",", " ").split() if isinstance(given, str) else given
    if not 0 < len(texts) <= MAX_SEEDS:
        raise HTTPException(422, f"Give 1 to {MAX_SEEDS:,} URLs, not {len(texts):,}.")
    answer = await queries.add_seeds(control, texts)
    note(request, f"({answer.added} added, {answer.known} known, {answer.rejected} rejected)")
    return answer


@url_routes.get("/url/limit")
async def limits(control: TheControl) -> UrlLimitsNow:
    """Show the current limits."""
    now = options.CrawlOptions().changed(await control.options())
    return UrlLimitsNow(
        excludedDomains=list(now.excluded_domains),
        depthLimit=now.max_depth,
        urlLengthLimit=now.max_url_length,
    )


@url_routes.post("/url/limit")
async def set_limits(request: Request, control: TheControl, body: UrlLimits) -> UrlLimitsNow:
    """Change limits; the whole fleet follows within 2 s.

    Waiting URLs of excluded domains are skipped when their turn comes; depth and length apply to
    links that are found from then on.
    """
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise HTTPException(422, f"Name a limit: {', '.join(_LIMITS)}.")
    chosen: dict[str, Any] = {_LIMITS[name]: value for name, value in given.items()}
    checked = options.checked({name: value for name, value in chosen.items() if value is not None})
    await control.set_options(dict.fromkeys(chosen) | checked)
    note(request, " ".join(f"{name}={ascii(value)[:100]}" for name, value in chosen.items()))
    return await limits(control)


class OptionChanges(Strict):
    """Options for the whole fleet; one that is not named stays, null is for the default."""

    scope: str | None = None
    allowed_domains: list[str] | str | None = None
    excluded_domains: list[str] | str | None = None
    include: list[str] | str | None = None
    exclude: list[str] | str | None = None
    languages: list[str] | str | None = None
    follow: bool | str | None = None
    max_depth: int | None = None
    max_url_length: int | None = None
    max_pages: int | None = None
    max_pages_per_host: int | None = None
    max_pages_per_minute: int | None = None
    weights: list[int] | str | None = None
    load_weights: list[int] | str | None = None
    load_threshold: int | None = None
    type_budgets: dict[str, dict[str, float]] | str | None = None
    recrawl: str | None = None


@url_routes.get("/options")
async def crawl_options(control: TheControl) -> list[queries.Option]:
    """List the options of the crawl: what it follows, and how much of it."""
    return await queries.crawl_options(control)


@url_routes.patch("/options")
async def change_options(
    request: Request, control: TheControl, body: OptionChanges
) -> list[queries.Option]:
    """Change options; the whole fleet follows within 2 s."""
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise HTTPException(422, f"Name an option: {', '.join(options.NAMES)}.")
    answer = await queries.change_options(control, given)
    note(request, " ".join(f"{name}={ascii(value)[:100]}" for name, value in given.items()))
    return answer


@url_routes.get("/urls")
async def url_state(crawl: TheCrawl, control: TheControl, url: Url) -> queries.UrlState:
    """Show where a URL is in the crawl, its failures, and its stored record."""
    return await queries.url(control, url, crawl.pages)


@url_routes.get("/urls/refusals")
async def refusals(
    crawl: TheCrawl,
    control: TheControl,
    url: Url,
    page: Annotated[
        str, Query(max_length=10_000, description="The page that links to it, for the scope")
    ] = "",
) -> UrlRefusals:
    """Show what would keep a URL out now, and by which rule: scope, traps, robots.txt, its host."""
    return await crawl.gates.refusals(control, crawl.redis, crawl.records, url, page)


@url_routes.delete("/urls")
async def forget(control: TheControl, url: Url) -> Forgotten:
    """Forget that a URL was seen: it is crawled again when it is added or found again."""
    try:
        return Forgotten(url=await queries.forget(control, url), forgotten=True)
    except (ConfigurationError, NotFound):
        raise
    except CrawlerError as error:
        raise HTTPException(409, str(error)) from error


# --- hosts ----------------------------------------------------------------------------------------

host_routes = APIRouter(tags=["hosts"])
HostName = Annotated[
    str, Path(description="As in URLs, with its port if it has one", max_length=300)
]
HostStateName = Literal["", "excluded", "blocked", "in_flight", "ready", "resting", "idle"]
HostSort = Literal["next", "waiting", "pages", "delay", "host"]


class HostOrders(Strict):
    """Orders for one host; an order that is not named stays, null takes one back."""

    delay_s: float | None = Field(default=None, ge=0, le=86_400)
    blocked_until: AwareDatetime | None = None
    excluded: bool = False
    queue: int | None = Field(default=None, ge=1, le=5)
    budget: int | None = Field(default=None, ge=1, le=1_000_000_000)
    parallelism: int | None = Field(default=None, ge=1, le=100)


@host_routes.get("/hosts")
async def hosts(
    *,
    control: TheControl,
    search: Annotated[str, Query(max_length=300, description="A part of the name")] = "",
    state: HostStateName = "",
    sort: Annotated[HostSort, Query(description="next: by the next due fetch")] = "next",
    # No list reads more hosts; a search finds the others.
    offset: Annotated[int, Query(ge=0, le=READ_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> queries.Hosts:
    """List hosts that are in the frontier or were crawled."""
    return await queries.hosts(
        control, search=search, state=state, sort=sort, offset=offset, limit=limit
    )


@host_routes.get("/hosts/{host}")
async def host(control: TheControl, host: HostName) -> queries.Host:
    """Show one host; 404 if the crawl has not met it: its URLs, if any, are in front queues."""
    return await queries.host(control, host)


@host_routes.get("/hosts/{host}/report")
async def host_report(crawl: TheCrawl, control: TheControl, host: HostName) -> HostReport:
    """Show why a host is crawled as it is: its clock, delay, URLs, errors, robots.txt and DNS."""
    return await crawl.reports.report(control, crawl.redis, host)


@host_routes.patch("/hosts/{host}")
async def change_host(
    request: Request, control: TheControl, host: HostName, body: HostOrders
) -> queries.Host:
    """Give orders for a host; the whole fleet follows them, also after restarts.

    The crawl need not have met the host: the orders hold when it does.
    """
    given = body.model_dump(exclude_unset=True)
    if not given:
        raise HTTPException(422, f"Name an order: {', '.join(HostOrders.model_fields)}.")
    answer = await queries.order(control, host, given)
    note(request, " ".join(f"{name}={value}" for name, value in given.items()))
    return answer


@host_routes.delete("/hosts/{host}/queue")
async def purge(request: Request, control: TheControl, host: HostName) -> queries.Purged:
    """Drop all waiting URLs of a host; links to it that are found later are crawled again."""
    answer = await queries.purge(control, host)
    note(request, f"({answer.dropped} dropped)")
    return answer


@host_routes.get("/hosts/{host}/robots")
async def robots(crawl: TheCrawl, control: TheControl, host: HostName) -> HostRobots:
    """Show the robots.txt files of a host as they are cached for all processes.

    404 if the crawl has not met the host, and nothing of it is cached.
    """
    return await crawl.records.robots(control, crawl.redis, host)


@host_routes.delete("/hosts/{host}/robots")
async def forget_robots(
    request: Request, crawl: TheCrawl, control: TheControl, host: HostName
) -> ForgottenRecords:
    """Forget the robots.txt files of a host in the whole fleet, within 2 s: they are fetched anew.

    URLs that wait for an unreachable file are due at once.
    """
    answer = await crawl.records.forget_robots(control, crawl.redis, host)
    note(request, f"({len(answer.forgotten)} forgotten)")
    return answer


@host_routes.get("/hosts/{host}/dns")
async def dns(crawl: TheCrawl, control: TheControl, host: HostName) -> HostDns:
    """Show the addresses of a host as they are cached for all processes.

    404 if the crawl has not met the host, and nothing of it is cached.
    """
    return await crawl.records.dns(control, crawl.redis, host)


@host_routes.delete("/hosts/{host}/dns")
async def forget_dns(
    request: Request, crawl: TheCrawl, control: TheControl, host: HostName
) -> ForgottenRecords:
    """Forget the addresses of a host in the whole fleet, within 2 s: it is looked up anew."""
    answer = await crawl.records.forget_dns(control, crawl.redis, host)
    note(request, f"({len(answer.forgotten)} forgotten)")
    return answer


# --- dead letters ---------------------------------------------------------------------------------

dead_letter_routes = APIRouter(tags=["dead letters"])
Word = Annotated[str, Query(max_length=500)]


class Requeue(Strict):
    """Filter for dead letters; without reason and host, all are requeued."""

    reason: str = Field(default="", max_length=500)
    host: str = Field(default="", max_length=500)


class Requeued(BaseModel):
    """Number of URLs that wait again."""

    requeued: Count


@dead_letter_routes.get("/dead")
async def dead(
    control: TheControl,
    reason: Word = "",
    host: Word = "",
    before: Annotated[Word, Query(description="`next` of the previous page")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> queries.DeadLetters:
    """List the newest dead letters, by reason and host."""
    return await queries.dead_letters(control, reason=reason, host=host, before=before, limit=limit)


@dead_letter_routes.get("/dead/groups")
async def dead_groups(control: TheControl, host: Word = "") -> queries.DeadGroups:
    """Count the newest 20,000 dead letters by reason, and by the hosts that fail most."""
    return await queries.dead_groups(control, host=host)


@dead_letter_routes.post("/dead/requeue")
async def requeue(request: Request, control: TheControl, body: Requeue | None = None) -> Requeued:
    """Requeue dead letters, without their failed attempts."""
    chosen = body or Requeue()
    number = await control.requeue(reason=chosen.reason, host=chosen.host)
    note(request, f"({number} requeued)")
    return Requeued(requeued=number)


# --- jobs -----------------------------------------------------------------------------------------

job_routes = APIRouter(tags=["jobs"])
RunState = Literal["running", "finished", "stopped", "ended", "failed", "lost"]


class Job(BaseModel):
    """Run of a crawl: one process, from its start to its end. Times are UTC."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    crawl: str
    spider: str
    machine: str
    pid: int
    user: str = Field(description="Who started it, by the operating system")
    worker: str = Field(description="Its name in the `worker` of pages")
    command: str = Field(description="How it was started, without secrets")
    started: AwareDatetime
    seen: AwareDatetime = Field(description="Last sign of life")
    ended: AwareDatetime | None
    state: RunState
    reason: str = Field(description="Scrapy's reason for the end")
    options: dict[str, Any] = Field(description="Settings and arguments of this run, no secrets")
    pages: Count = Field(description="Pages crawled")
    errors: Count = Field(description="Visits that failed; not redirects, nor what rules exclude")
    exit_code: int | None = Field(description="Of the command; null while it runs")


@job_routes.get("/jobs")
async def jobs(
    *,
    pages: ThePages,
    crawl: Annotated[str | None, Query(max_length=300, description="Only this crawl's")] = None,
    state: RunState | None = None,
    since: Annotated[Since | None, Query(description=f"Started then or later: {_SINCE}")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> list[Job]:
    """List the recorded runs of all crawls, the newest first; 404 if none are recorded."""
    wanted = WantedRuns(datetime.now(UTC), crawl, state, since, limit)
    return [Job.model_validate(run) for run in await pages.runs(wanted)]


@job_routes.get("/jobs/{job_id}")
async def job(pages: ThePages, job_id: Annotated[str, Path(max_length=100)]) -> Job:
    """Show all that is recorded of one run."""
    return Job.model_validate(await pages.run(job_id))


# --- stored pages ---------------------------------------------------------------------------------

page_routes = APIRouter(tags=["pages"])


@page_routes.get("/pages/search")
async def search_pages(
    *,
    crawl: TheCrawl,
    q: Annotated[
        str, Query(min_length=1, max_length=QUERY_MAX, description='Words, "a phrase", -without')
    ],
    domain: Annotated[str, Query(max_length=300, description="A domain, or a host")] = "",
    since: Annotated[
        Since | None, Query(description=f"Only pages that were crawled since then: {_SINCE}")
    ] = None,
    language: Annotated[str, Query(max_length=50, description="en, de …")] = "",
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 10,
) -> queries.FoundPages:
    """Search the pages in the index that `scrapy pages index` makes; the best come first."""
    filters = Filters(
        crawl=crawl.name,
        domain=domain.lower() or None,
        since=since,
        language=language or None,
    )
    return await crawl.search.search(q, filters, limit=limit)


@page_routes.get("/pages")
async def list_pages(
    *,
    crawl: TheCrawl,
    domain: Annotated[str, Query(max_length=300, description="A domain, or a host")] = "",
    status: Annotated[
        str, Query(pattern=r"^([0-5]xx|\d{1,3})?$", description="200, 404, 4xx; 0: no answer")
    ] = "",
    reason: Annotated[str, Query(max_length=300, description="Why there is no content")] = "",
    since: Annotated[
        Since | None, Query(description=f"Only pages that were crawled since then: {_SINCE}")
    ] = None,
    before: Annotated[
        AwareDatetime | None, Query(description="`next` of the previous list")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> queries.PageRows:
    """List the stored pages of the crawl, the newest first."""
    statuses: tuple[int, int] | None = None
    if status.endswith("xx"):
        statuses = (int(status[0]) * 100, int(status[0]) * 100 + 99)
    elif status:
        statuses = (int(status), int(status))
    wanted = Wanted(
        crawl=crawl.name,
        domain=domain.strip().lower() or None,
        since=since,
        before=before,
        statuses=statuses,
        reason=reason or None,
    )
    return await crawl.pages.rows(wanted, limit)


@page_routes.get("/pages/page")
async def stored_page(crawl: TheCrawl, control: TheControl, url: Url) -> queries.StoredPage:
    """Show all that is stored of a page: its record, links, texts and source."""
    return await crawl.pages.page(queries.canonical_url(control.urls, url), crawl.name)


# --- events ---------------------------------------------------------------------------------------

event_routes = APIRouter(tags=["crawl"])
_VITALS_S = 5.0


def event_stream(crawl: CrawlContext) -> EventStream:
    """Make the stream of a crawl's status and of its figures, which cost more, less often."""
    status_type = TypeAdapter(queries.Status)

    async def status() -> str:
        found = await queries.status(crawl.name, await crawl.control())
        return status_type.dump_json(found).decode()

    async def vitals() -> str:
        control = await crawl.control()
        found = await queries.vitals(crawl.name, crawl.redis, control, minutes=SINGLE_MINUTES)
        return json.dumps(found)

    return EventStream(EventSource("status", status), EventSource("vitals", vitals, _VITALS_S))


def _events(request: Request) -> Any:
    return request.app.state.events


@event_routes.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    crawl: TheCrawl, streams: Annotated[EventStreams, Depends(_events)]
) -> StreamingResponse:
    """Send events as they happen.

    `status` has the answer of /status, every second; `vitals` that of /vitals for two hours,
    every five; `trouble` a text. Read them with fetch(), which can send the token. Without
    news, a comment is the heartbeat.
    """
    try:
        listener = streams.listen(crawl)
    except Full as error:
        raise HTTPException(
            503, f"There are {MAX_LISTENERS} listeners already; close one of them."
        ) from error
    return StreamingResponse(listener, media_type="text/event-stream")


# --- figures --------------------------------------------------------------------------------------

figure_routes = APIRouter(tags=["figures"])


@figure_routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(crawl: TheCrawl) -> Response:
    """Show the metrics of the fleet and, if this process crawls, its own."""
    sheet = Sheet(crawl.name)
    await add_fleet(sheet, crawl.redis, crawl.name)
    if crawl.crawler is not None:
        add_worker(sheet, crawl.crawler)
    return Response(sheet.text(), media_type=CONTENT_TYPE)


@figure_routes.get("/vitals")
async def vitals(
    crawl: TheCrawl, minutes: Annotated[int, Query(ge=1, le=MINUTES_MAX)] = 60
) -> dict[str, Any]:
    """Show totals, the last hour, the last minutes with latencies, workers, rates, sinks, the
    spool, hosts, and when the crawl ends, if that can be told. Above 120, minutes come in tens.
    """
    return await queries.vitals(crawl.name, crawl.redis, await crawl.control(), minutes=minutes)


# All but `health`, which is partly open to everybody.
routers = (
    *(crawl_routes, url_routes, host_routes, dead_letter_routes),
    *(job_routes, page_routes, event_routes, figure_routes),
)
