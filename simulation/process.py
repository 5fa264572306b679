"""One simulated process: the crawler's own code, in the place of whose surroundings are stand-ins.

Real are the scheduler and all that it opens (lease pool, outbox, heartbeat, intake, options, sweep,
failures), the middlewares of leases, politeness and retries, the pipelines of links and pages, and
the storage with its batches. Stand-ins are Scrapy's engine and crawler, the downloader, the parser,
the connection to Redis and the servers behind the sinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider, DownloadTimeoutError
from scrapy.http import HtmlResponse, Response
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import MemoryStatsCollector
from twisted.python.failure import Failure

from crawler import settings as defaults
from crawler.errors import CrawlerError
from crawler.frontier import Entry, Lease
from crawler.middlewares.leases import Leases
from crawler.middlewares.politeness import PolitenessMiddleware
from crawler.middlewares.retries import Retries
from crawler.pipelines.links import Links
from crawler.pipelines.store import Store
from crawler.scheduler import Scheduler
from crawler.scheduling.page_maker import PageMaker
from crawler.servers.connections import Servers
from crawler.servers.health import mongo_health, postgres_health
from crawler.servers.redis.errors import RedisAway
from crawler.storage.sink import Sink, SinkContext
from crawler.urls import fingerprint
from crawler.util.request_meta import LEASE
from simulation import web
from simulation.server import Link, SimulatedRedis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crawler.items import Page
    from simulation.loop import Lane
    from simulation.world import World

CRAWL = "simulated"
DELAY_MIN_S = 0.2
# An engine asks for requests by itself every 5 s.
_HEARTBEAT_S = 5.0
_CONCURRENCY = 4
# Before a process that could not start, since Redis was away, is started again.
_START_AGAIN_S = 1.0


@cache
def settings(shards: int, lease_ttl_s: float) -> Settings:
    """Return the project's settings with short times, so that little time is simulated."""
    values = {name: getattr(defaults, name) for name in dir(defaults) if name.isupper()}
    return Settings(
        {
            **values,
            "CRAWL": CRAWL,
            "CRAWL_DIR": "/nonexistent",
            "SINKS": "bodies=simulation.process.Bodies records=simulation.process.Records",
            "FRONTIER_SHARDS": shards,
            "LEASE_TTL": lease_ttl_s,
            "CONCURRENT_REQUESTS": _CONCURRENCY,
            "DELAY_MIN": DELAY_MIN_S,
            "DELAY_FACTOR": 1.0,
            "RETRY_BASE": 0.5,
            "RETRY_TIMES": 2,
            "OVERLOAD_REST": 0.5,
            "KNOWN_CACHE_SIZE": 64,
            "INBOUND_SKETCH_BYTES": 0,
            "STORE_LINGER": 0.02,
        }
    )


class SimulatedSpider(Spider):
    """Spider that finds the links that the web has."""

    name = "simulated"

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        site = self.process.world.web.sites[response.url]
        page = PageMaker.of(self.process.crawler).page_of(response)
        if response.status == 200:
            half = len(site.links) // 2
            page.links = site.links[half:]
            # Some spiders yield requests instead.
            for url in site.links[:half]:
                yield Request(url)
        yield page
        if response.meta["end"] == web.RAISES:
            raise ValueError("a callback that fails")


class _Sink(Sink):
    """Sink on a server of the world."""

    number: int

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    def from_context(cls, context: SinkContext) -> Any:
        servers: Any = context.servers
        return cls(servers.process)

    async def open(self) -> None:
        """Do nothing: a server that is away is met by the first write."""

    async def write(self, batch: Sequence[Page]) -> Any:
        return await self._process.world.write(self._process, self.number, batch)

    async def close(self) -> None:
        """Do nothing."""

    @property
    def timeout_s(self) -> float:
        return 2.0


class Bodies(_Sink):
    """Sink that tells where it keeps each page."""

    number = 0
    keeps_bodies = True


class Records(_Sink):
    """Sink that gets these places."""

    number = 1


class SimulatedServers:
    """Connections of a process: the extension that components ask for."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.mongo_health = mongo_health()
        self.postgres_health = postgres_health()
        self._redis = SimulatedRedis(process.link)

    async def redis(self) -> SimulatedRedis:
        return self._redis


class SimulatedEngine:
    """What components see of Scrapy's engine, and its way of taking requests."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._due = asyncio.Event()
        self.scheduler: Scheduler
        self.paused = False
        self._start: object | None = object()
        self.downloader = SimpleNamespace(total_concurrency=_CONCURRENCY, active=set())
        scraper_slot = SimpleNamespace(
            needs_backout=lambda: False, active_size=0, MIN_RESPONSE_SIZE=1024
        )
        self.scraper = SimpleNamespace(slot=scraper_slot)
        self._slot = SimpleNamespace(
            closing=None, inprogress=set(), nextcall=SimpleNamespace(schedule=self._due.set)
        )
        self._tasks: set[asyncio.Task[None]] = set()

    def started(self) -> None:
        """Note that all seeds are read."""
        self._start = None

    def close(self, reason: str) -> None:
        """Take no more requests."""
        self._slot.closing = reason
        self._due.set()

    async def close_spider_async(self, *, reason: str) -> None:
        """Take no more requests, as Scrapy's engine."""
        self.close(reason)

    async def run(self) -> str:
        """Take requests until the crawl is over for this process; return why."""
        slot = self._slot
        while True:
            self._due.clear()
            if slot.closing is None:
                self._pull()
                self._check_idle()
            if slot.closing is not None and not slot.inprogress:
                return str(slot.closing)
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_S):
                    await self._due.wait()

    def _pull(self) -> None:
        while len(self.downloader.active) < _CONCURRENCY:
            request = self.scheduler.next_request()
            if request is None:
                return
            self._slot.inprogress.add(request)
            self.downloader.active.add(request)
            task = asyncio.get_running_loop().create_task(self._handle(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _check_idle(self) -> None:
        if self._slot.inprogress or self._start or self.scheduler.has_pending_requests():
            return
        reason = "finished"
        try:
            self.scheduler._spider_idle()
        except CloseSpider as error:
            reason = error.reason
        self.close(reason)

    async def _handle(self, request: Request) -> None:
        try:
            await self._process.crawl(request)
        finally:
            self._slot.inprogress.discard(request)
            self._due.set()

    def fetched(self, request: Request) -> None:
        """Note that another fetch may start."""
        self.downloader.active.discard(request)
        self._due.set()


class Process:
    """Process of a fleet."""

    def __init__(self, world: World, name: str, lane: Lane) -> None:
        self.world = world
        self.name = name
        self.lane = lane
        scenario = world.scenario
        self.link = Link(
            *(world.server, name, f"{name}-{scenario.seed}", scenario.slow_s),
            timeout_s=max(1.0, scenario.lease_ttl_s / 4),
        )
        # Why it ended by itself.
        self.reason: str | None = None
        self.engine: SimulatedEngine
        self.crawler: Any
        self.scheduler: Scheduler

    @property
    def is_over(self) -> bool:
        """Whether it ended, or was killed."""
        return self.lane.dead or self.reason is not None

    def stop(self) -> None:
        """End in an orderly way, as after SIGTERM."""
        self.engine.close("shutdown")

    async def run(self) -> None:
        """Live from start to end."""
        self._make()
        while True:
            try:
                await self.scheduler._open()
                await self.links.open_spider()
                await self.store.open_spider()
                break
            except (CrawlerError, *RedisAway) as error:
                # Somebody starts it again.
                self.world.log(self.name, f"could not start: {error}")
                with suppress(Exception):
                    await self.links.close_spider()
                    await self.scheduler._close()
                await asyncio.sleep(_START_AGAIN_S)
                self._make()
        await self.politeness._opened()
        seeding = asyncio.get_running_loop().create_task(self._seed())
        reason = await self.engine.run()
        await asyncio.wait([seeding])
        await self.links.close_spider()
        await self.store.close_spider()
        await self.scheduler._close()
        self.world.log(self.name, f"ended: {reason}")
        self.reason = reason

    def _make(self) -> None:
        scenario = self.world.scenario
        crawler: Any = SimpleNamespace(settings=settings(scenario.shards, scenario.lease_ttl_s))
        self.crawler = crawler
        servers = SimulatedServers(self)
        crawler.get_extension = lambda kind: servers if kind is Servers else None
        crawler.stats = MemoryStatsCollector(crawler)
        crawler.signals = SignalManager(crawler)
        crawler.spider = SimulatedSpider(self)
        crawler.engine = self.engine = SimulatedEngine(self)
        self.links = Links(crawler)
        self.scheduler = self.engine.scheduler = Scheduler(crawler)
        self.leases = Leases.from_crawler(crawler)
        self.politeness = PolitenessMiddleware(crawler)
        self.retries = Retries(crawler)
        self.store = Store(crawler)

    async def _seed(self) -> None:
        url = self.world.web.seed
        await self.scheduler.add([Entry(fingerprint(url), url)], "all")
        self.engine.started()
        self.engine._slot.nextcall.schedule()

    # --- one request ---------------------------------------------------------------------------

    async def crawl(self, request: Request) -> None:
        """Take a request through gates, fetch, callback and pipelines, as Scrapy does."""
        try:
            result = await self._fetch(request)
        except Exception as error:  # noqa: BLE001 - goes to the errback
            self.engine.fetched(request)
            self._fail(request, Failure(error))  # type: ignore[no-untyped-call]
            return
        self.engine.fetched(request)
        if isinstance(result, Request):
            self.scheduler.enqueue_request(result)
        else:
            await self._scrape(result)

    async def _fetch(self, request: Request) -> Response | Request:
        put_off_ms = await self.world.gate(self)
        if put_off_ms:
            return self.scheduler.leases.put_off(request, put_off_ms)
        put_off = self.politeness.process_request(request)
        if put_off is not None:
            return put_off
        lease: Lease = request.meta[LEASE]
        try:
            end = await self.world.fetch(self, lease)
            if end == web.TIMEOUT:
                raise DownloadTimeoutError("no answer")
        except DownloadTimeoutError as error:
            await self.politeness.process_exception(request, error)
            raise
        request.meta["end"] = end
        status = {web.MISSING: 404, web.REDIRECT: 302, web.ERROR: 503, web.BROKEN: 500}.get(
            end, 200
        )
        response: Response = HtmlResponse(request.url, status=status, request=request, body=b".")
        response = await self.politeness.process_response(request, response)
        if status == 302:
            [target] = self.world.web.sites[request.url].links
            return request.replace(url=target)
        return self.retries.process_response(request, response)

    def _fail(self, request: Request, failure: Failure) -> None:
        assert request.errback is not None
        request.errback(failure)

    async def _scrape(self, response: Response) -> None:
        spider = self.crawler.spider
        outputs = self.leases.process_spider_output(response, spider.parse(response))
        # The spider's own error is logged by Scrapy.
        with suppress(ValueError):
            async for item in outputs:
                await self._pipe(item, response)

    async def _pipe(self, item: Any, response: Response) -> None:
        send = self.crawler.signals.send_catch_log
        try:
            item = await self.links.process_item(item)
            item = await self.store.process_item(item)
        except Exception:  # noqa: BLE001 - as Scrapy
            failure = Failure()  # type: ignore[no-untyped-call]
            send(signals.item_error, item=item, response=response, failure=failure)
        else:
            send(signals.item_scraped, item=item, response=response)
