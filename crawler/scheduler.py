"""Scrapy's scheduler on top of the frontier. Never blocks: tasks talk to Redis.

The engine's three synchronous methods only touch memory. Components of this project use `add` for
the URLs that they find, `leases` to settle the lease of a request (scheduling/lease_pool.py), and
`visits` to contact other hosts for a page (scheduling/visits.py).
What would go unnoticed or flood the log is logged once, and counted: start requests that the crawl
knows, and requests that the frontier refuses (a spider may yield a million of them).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.exceptions import CloseSpider
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, StdoutFeedStorage
from scrapy.utils.defer import deferred_from_coro

from crawler import config
from crawler import settings as ours
from crawler.config.values import crawl_name, fill, url_rules, value
from crawler.discovery.follow import LinkFollower, scorer
from crawler.discovery.parents import ParentUrls
from crawler.discovery.pushed import PushedReader
from crawler.discovery.scope import QUEUE_OF_ENDING, extension, skipped_extensions
from crawler.discovery.seeds import why
from crawler.discovery.traps import TrapRules, Traps
from crawler.errors import ConfigurationError
from crawler.frontier import Added, CrawlControl, Entry, Frontier, Kind, Lease, Sizes, Tuning
from crawler.frontier.entry import decode
from crawler.frontier.frontier import POISON
from crawler.frontier.meta import KNOWN_MODEL, VISITS_MODEL, stored_shards
from crawler.frontier.on_disk import OnDisk
from crawler.frontier.outbox import SeenCache, UrlAdder
from crawler.frontier.start_urls import StartUrls
from crawler.frontier.sweep import Sweeper
from crawler.frontier.tuning import bloom, intset
from crawler.monitoring.process_stats import ProcessStats
from crawler.politeness.host_delays import HostDelays
from crawler.scheduling.engine import Engine, EngineHooks
from crawler.scheduling.heartbeat import Heartbeat, Pulse
from crawler.scheduling.intake import Intake
from crawler.scheduling.kafka_seeds import KafkaSeeds
from crawler.scheduling.lease_pool import (
    DATA_LOST,
    REDIS_LOST,
    CompletionLimits,
    LeasePool,
)
from crawler.scheduling.options import CrawlOptions, OptionsWatcher, given_options
from crawler.scheduling.outcome import (
    POISONED,
    Bury,
    Dropped,
    Failures,
    RetryPolicy,
    SettlingErrback,
)
from crawler.scheduling.page_maker import PageMaker
from crawler.scheduling.recrawl_budget import RecrawlBudget
from crawler.scheduling.recrawl_policy import recrawl_tuning
from crawler.scheduling.recrawls import Recrawls
from crawler.scheduling.request_codec import NotCarried, as_given, to_entry, to_request
from crawler.scheduling.visits import HostVisits
from crawler.servers.connections import Servers
from crawler.servers.health import redis_health
from crawler.servers.kafka_group import GroupMember
from crawler.servers.postgres import Database
from crawler.servers.redis.checks import required
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.servers.redis.settings import (
    keep_allowed_domains,
    start_urls_key,
    warn_of_redis_spider,
    warn_of_start_requests,
)
from crawler.storage.disk_log import crawl_folder
from crawler.storage.mongo.spill import MongoSpill
from crawler.storage.postgres.spill import PostgresSpill
from crawler.storage.sink import Discovered
from crawler.storage.sinks import POSTGRESQL, targets, uses_mongo
from crawler.storage.spill import FileSpill, Spill
from crawler.urls import Rejected, Urls
from crawler.util import file_limit
from crawler.util.per_crawler import shared
from crawler.util.request_meta import EXCHANGE, LEASE
from crawler.util.secrets import shown, without_secrets
from crawler.util.tasks import end

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from twisted.internet.defer import Deferred

    from crawler.items import Exchange, Page
    from crawler.servers.health import ServerHealth
    from crawler.storage.sink import RejectedMessage
    from crawler.storage.storage import Storage

logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Source of the engine's requests: the frontier, as one process sees it."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        assert crawler.spider is not None
        spider = crawler.spider
        self.crawl: str = crawl_name(settings, spider.name, getattr(spider, "crawl", None))
        self.is_scoped: bool = getattr(crawler.spider, "is_scoped", False)
        self.thresholds = value(settings, "FRONTIER_THRESHOLDS")
        self.urls = Urls(url_rules(settings))
        assert crawler.stats is not None
        # Adds to one of Scrapy's stats.
        self.count = crawler.stats.inc_value
        self.frontier: Frontier
        self.leases: LeasePool
        self.visits: HostVisits
        self.failures: Failures
        self._crawler = crawler
        self._spider = crawler.spider
        self._limits = CompletionLimits.from_settings(settings)
        self._pulse = Pulse.from_settings(settings)
        self._given = given_options(settings, crawler.spider)
        self.health = redis_health(value(settings, "REDIS_GIVE_UP"))
        # Where pages go; set by the pipeline that stores them.
        self.storage: Storage | None = None
        # Stores a response that is no page, if a sink archives them; set by the same pipeline.
        self.archive: Callable[[Page], asyncio.Future[None]] | None = None
        # Tells what a store has lost, or nothing; set by the same pipeline.
        self.store_losses: Callable[[], Awaitable[str]] | None = None
        # Awaited before this process signs off, while Redis answers.
        self.before_leaving: Callable[[], Awaitable[None]] | None = None
        self._engine = Engine(crawler, file_limit.prepare(settings).fetches)
        self.adder: UrlAdder
        self.recrawls = Recrawls(recrawl_tuning(settings))
        self.options_watcher = OptionsWatcher(skipped_extensions(settings))
        self._parents = ParentUrls.of(crawler)
        self._rejections = Rejections(self.count)
        has_commands = settings["COMMANDS_MODULE"] == ours.COMMANDS_MODULE
        anew = how_to_start_anew(spider.name, has_commands=has_commands)
        self.known_starts = KnownStarts(self.crawl, anew, self.count)
        self.control: CrawlControl
        self._intake: Intake
        # Only with KAFKA_SEEDS.
        self._kafka_seeds: KafkaSeeds | None = None
        self._on_disk: OnDisk
        self._heartbeat: Heartbeat | None = None
        self._checking: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._sweeper: Sweeper
        self._recrawl_budget: RecrawlBudget
        self._beats = 0
        self._waits_for_sinks = False
        self._forgotten = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        scheduler = cls(crawler)
        crawler.signals.connect(scheduler._spider_idle, signals.spider_idle)
        crawler.signals.connect(scheduler._spider_opened, signals.spider_opened)
        return scheduler

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Return the scheduler of a running crawl."""
        scheduler = crawler.engine.scheduler
        if not isinstance(scheduler, cls):
            raise ConfigurationError(
                f"SCHEDULER is {crawler.settings['SCHEDULER']!r}; this component needs "
                "crawler.scheduler.Scheduler."
            )
        return scheduler

    # --- Scrapy's contract ---------------------------------------------------------------------

    def open(self, spider: Spider) -> Deferred[None]:
        Engine.close_unopened(self._crawler, self._close_unopened)
        return deferred_from_coro(required(self._open()))

    def close(self, reason: str) -> Deferred[None]:
        return deferred_from_coro(self._close())

    def has_pending_requests(self) -> bool:
        pool, reason = self.leases, self.leases.completion.reason
        left = reason is None or pool.held > 0 or not pool.outbox.empty
        return left and reason != REDIS_LOST

    def next_request(self) -> Request | None:
        while (lease := self.leases.take()) is not None:
            if reason := self._unwanted(lease.entry):
                self.count(reason)
                self._drop_unwanted(lease)
                continue
            if lease.entry.reclaims >= POISON:
                # Here, and not by the process that took its lease back: sinks are told.
                self.failures.fail(lease, Bury(POISONED))
                continue
            try:
                request = to_request(lease.entry, self._spider)
            except Exception as error:  # noqa: BLE001 - the spider has changed, or is another one
                self.failures.fail(lease, Bury(f"unreadable: {error}"[:200]))
                continue
            request.meta[LEASE] = lease
            request.errback = SettlingErrback(self.failures, lease, request.errback)
            return request
        return None

    def _unwanted(self, entry: Entry) -> str:
        """Return the stat of a URL that was added before the options changed; empty: fetch it."""
        if self.options_watcher.scope.excludes(entry.url):
            return "scope/excluded"
        return "recrawl/unwanted" if self.recrawls.is_unwanted(entry) else ""

    def _drop_unwanted(self, lease: Lease) -> None:
        if self.recrawls.was_visited(lease.entry):
            # Sinks have its page.
            self.leases.done(lease, page=False)
        else:
            self.failures.drop(lease, Dropped.EXCLUDED)

    def enqueue_request(self, request: Request) -> bool:
        """Take a request from the engine: a start request, an errback's, or a replacement."""
        lease: Lease | None = request.meta.get(LEASE)
        if lease is not None and not self.leases.holds(lease):
            # See LeasePool.put_off.
            return True
        entry = self.entry_of(request) if lease is None else self._replacement(request, lease)
        sent: asyncio.Future[Added] | None = None
        if entry is not None:
            # In these modes the frontier refuses none for want of room. Scrapy marks start requests
            # as dont_filter, but a crawl that is resumed or shared knows them already.
            forced = request.dont_filter and not request.meta.get("is_start_request")
            if lease is not None and entry.id == lease.entry.id:
                # Equal to its source by URL_FOLD, and still the only way to the page.
                forced = forced or entry.written_url != lease.entry.written_url
            mode = "force" if forced else "all"
            if lease is not None and self._is_announced:
                sent = asyncio.ensure_future(self._announce_and_send(entry, mode))
            else:
                sent = self.adder.send(entry, mode, self._engine.wake)
            if request.meta.get("is_start_request"):
                self.known_starts.sent(request, sent)
        if lease is not None:
            is_refused = entry is None
            self._settle_replaced(lease, sent, request.meta.get(EXCHANGE), is_refused=is_refused)
        elif entry is not None:
            # A spider may add requests when it is told that it is idle.
            self.leases.completion.not_yet()
        return entry is not None

    def _replacement(self, request: Request, lease: Lease) -> Entry | None:
        """Make the entry of a request that takes the leased one's place, as after a redirect."""
        source = lease.entry
        request = as_given(request, source)
        # The target of a sitemap's redirect is a sitemap.
        entry = self.entry_of(request, source=source, depth=source.depth, kind=source.kind)
        if entry is None or not self.is_scoped:
            return entry
        entry = _in_queue_of_type(entry, source)
        depth = 0 if entry.kind is Kind.SITEMAP else source.depth
        scope = self.options_watcher.scope
        if reason := scope.refuses_redirect(entry.url, source_url=source.url, depth=depth):
            self.count(f"redirects/refused/{reason}")
        return None if reason else entry

    def _settle_replaced(
        self,
        lease: Lease,
        sent: asyncio.Future[Added] | None,
        exchange: Exchange | None,
        *,
        is_refused: bool,
    ) -> None:
        """Settle the leased URL when Redis has its replacement, and archives have its response.

        If `sent` is None, Redis has the replacement already, or it is refused.
        """

        def settle(error: BaseException | None) -> None:
            if error is not None:
                self.failures.fail(lease, Bury(f"unsendable: {error}"[:200]))
            elif is_refused:
                self.failures.drop(lease, Dropped.REDIRECT_REFUSED)
            else:
                self.leases.done(lease, page=False)

        safe: list[asyncio.Future[Any]] = [] if sent is None else [sent]
        if exchange is not None and self.archive is not None:
            page = PageMaker.of(self._crawler).page_of_replaced(lease, exchange)
            self.recrawls.fill_in(page, lease, None)
            safe.append(self.archive(page))
        if not safe:
            settle(None)
        else:
            self.leases.settle_after(
                lease, safe[0] if len(safe) == 1 else asyncio.gather(*safe), settle
            )

    # --- for other components ------------------------------------------------------------------

    def entry_of(
        self,
        request: Request,
        *,
        source: Entry | None = None,
        depth: int | None = None,
        kind: Kind = Kind.PAGE,
    ) -> Entry | None:
        """Make the entry of a request; None for one that cannot be crawled, which is logged.

        `source` is the URL whose response or redirect gave the request.
        """
        found: Entry | Rejected | NotCarried
        try:
            found = to_entry(
                *(request, self._spider, self.thresholds),
                depth=depth,
                parent=source.id if source is not None else 0,
                urls=self.urls,
                kind=kind,
                now_s=time.time(),
            )
        except NotCarried as error:
            found = error
        if not isinstance(found, Entry):
            self._rejections.add(request, found)
            return None
        if source is not None:
            self._parents.remember(source.id, source.url)
            if found.id == source.id:
                # The same URL once more, as for a retry.
                return replace(found, discovered_s=source.discovered_s)
        return found

    async def add(self, entries: Sequence[Entry], mode: str = "new") -> Added:
        """Add URLs, see Frontier.add. Returns when they are safe: in Redis, or spilled."""
        if mode == "all":
            await self.options_watcher.note_seeds(entries)
        elif self._is_announced:
            await self._announce(entries)
        added = await self.adder.add(entries, mode)
        return await self._intake.keep(entries, added) if added.refused else added

    async def add_links(
        self, ids: Sequence[int], entries: Sequence[Entry | bytes], scores: Sequence[int]
    ) -> Added:
        """Add links with these fingerprints, none of which is in the cache of known URLs."""
        if self._is_announced:
            await self._announce(entries, scores)
        added = await self.adder.add_unknown(ids, entries)
        return await self._intake.keep(entries, added) if added.refused else added

    async def conclude(self) -> bool:
        """Return, when it is closed, whether this was the last process of the crawl to end."""
        if self._heartbeat is None or self.health.given_up:
            return False
        return await self._heartbeat.conclude()

    # --- new URLs for sinks --------------------------------------------------------------------

    @property
    def _is_announced(self) -> bool:
        """Whether a sink wants to know of new URLs."""
        return self.storage is not None and self.storage.wants_discovered

    async def _announce(
        self, entries: Sequence[Entry | bytes], scores: Sequence[int] | None = None
    ) -> None:
        """Tell sinks which of the URLs are new.

        Before they are added: if the process dies in between, the page is fetched again, and its
        links are still new.
        """
        assert self.storage is not None
        read = [decode(each) if isinstance(each, bytes) else each for each in entries]
        try:
            unseen = await self.frontier.unseen(read)
        except RedisAway:
            # They are added when it is back; some may be told twice.
            unseen = [True] * len(read)
        found = [
            Discovered(entry, scores[i] if scores else None, self._parents.url_of(entry.parent))
            for i, entry in enumerate(read)
            if unseen[i] and is_plain_page(entry)
        ]
        if found:
            await self.storage.discover(found)

    async def _announce_and_send(self, entry: Entry, mode: str) -> Added:
        await self._announce([entry])
        sent = self.adder.send(entry, mode, self._engine.wake)
        return Added("0") if sent is None else await sent

    # --- life ----------------------------------------------------------------------------------

    async def _open(self) -> None:
        crawler, spider, settings = self._crawler, self._spider, self._crawler.settings
        servers = Servers.of(crawler)
        redis = await servers.redis()
        self._on_disk = OnDisk(redis, self.crawl)
        tuning = frontier_tuning(settings, beat_s=self._pulse.beat_s)
        self.frontier = await make_frontier(redis, self.crawl, crawler, tuning)
        spill = spill_of(
            *(self.crawl, servers, settings, redis), is_closing=lambda: Engine.is_closing(crawler)
        )
        warn_of_redis_spider(spider)
        warn_of_start_requests(spider)
        keep_allowed_domains(spider)
        pushed = StartUrls(redis, start_urls_key(settings, spider))
        hooks = EngineHooks(
            *(self._engine.room, self._engine.wake),
            take_in=self._take_in,
            messages_wait=self._messages_wait,
            elsewhere=self._elsewhere,
            before_end=self._check_stores,
            starting=self._engine.starting,
            count=self.count,
        )
        self.leases = LeasePool(self.frontier, self.health, self._limits, hooks, self.recrawls)
        self.visits = HostVisits(self.leases, HostDelays.of(crawler))
        known = SeenCache(value(settings, "KNOWN_CACHE_SIZE"))
        self.adder = UrlAdder(self.leases.outbox, known, self.count)
        self.failures = Failures(
            RetryPolicy.from_settings(settings),
            *(self.leases, self.recrawls, PageMaker.of(crawler)),
            arrival=self.adder.arrival,
            run_fewer=self._engine.run_fewer,
        )
        self._recrawl_budget = RecrawlBudget(
            *(redis, self.frontier, self.recrawls),
            ends_when_idle=value(self._crawler.settings, "CRAWL_IDLE") == "close",
        )
        await self.frontier.create()
        if value(settings, "RENDER") != "never":
            await self.frontier.allow_visits()
        self.control = await CrawlControl.open(redis, self.crawl, self.urls)
        self.urls = self.control.urls
        reader = self._pushed_reader(pushed.key)
        self._intake = Intake(
            *(self.frontier, pushed, reader, self.adder.add, spill),
            timeout_s=config.value(crawler.settings, "MONGO_TIMEOUT"),
            count=self.count,
            is_closing=lambda: Engine.is_closing(crawler),
        )
        if url := value(settings, "KAFKA_SEEDS"):
            self._kafka_seeds = self._seeds_of(url)
            await self._kafka_seeds.open()
        heartbeat = Heartbeat(
            *(self.frontier, self.leases, self.health, self._pulse),
            about=self._about,
            on_beat=self._on_beat,
            on_epoch=self.adder.forget,
            on_loss=self._data_lost,
            on_other=self._end_with_loss,
        )
        await heartbeat.open()
        self._heartbeat = heartbeat
        self.known_starts.begin(await self.frontier.sizes())
        self.options_watcher.subscribe(self._use)
        await self.options_watcher.open(self.control, self._given)
        self.leases.open()
        self._sweeper = Sweeper(redis, self.frontier, self.count)
        self._sweeper.open()
        self._recrawl_budget.open()

    def _pushed_reader(self, source: str) -> PushedReader:
        return PushedReader.from_spider(
            *(self._spider, source, self.entry_of, self.urls, self.thresholds)
        )

    def _seeds_of(self, url: str) -> KafkaSeeds:
        settings = self._crawler.settings
        # The generic spider takes them by an argument, too.
        what = getattr(self._spider, "topics_given_as", "KAFKA_SEEDS")
        return KafkaSeeds(
            GroupMember.from_settings(settings, url, self.crawl, what=what),
            *(self._pushed_reader(what), self._add_seeds, self._reject),
            is_full=self.frontier.is_full,
            sync=self.frontier.sync,
            count=self.count,
        )

    async def _add_seeds(self, entries: Sequence[Entry], mode: str) -> Added:
        """Add seeds of a stream. No sink is told of them: this crawl did not discover them."""
        if mode == "all":
            await self.options_watcher.note_seeds(entries)
        return await self.adder.add(entries, mode)

    async def _reject(self, messages: Sequence[RejectedMessage]) -> None:
        """Keep messages that give no URL: in the sinks that want them, or as dead letters."""
        if self.storage is not None and self.storage.wants_rejected:
            await self.storage.reject(messages)
            return
        letters = [json.dumps(asdict(each), ensure_ascii=False).encode() for each in messages]
        await self.frontier.reject(letters, "bad_message")

    async def _close(self) -> None:
        if self._kafka_seeds is not None:
            await self._kafka_seeds.close()
        if self._checking is not None:
            await end(self._checking)
        if self._heartbeat is not None:
            await self.options_watcher.close()
            await self._intake.close()
            await self.visits.close()
            await self.leases.close()
            await self._sweeper.close()
            await self._recrawl_budget.close()
            if self.before_leaving is not None and not self.health.away:
                await self.before_leaving()
            await self._heartbeat.close()
            if not self.leases.has_claimed:
                has_drained = self.storage is not None and self.storage.has_drained
                if self.leases.completion.reason == "finished" and not has_drained:
                    self.known_starts.warn_if_all()
                # Before Scrapy overwrites them, when the spider is closed.
                keep_files(self._crawler)

    async def _close_unopened(self) -> None:
        try:
            await self._close()
        finally:
            # They are closed when the engine stops, but it never started.
            await Servers.of(self._crawler).close()

    async def _on_beat(self) -> None:
        self._beats += 1
        self._settle_lost()
        if self._beats % 5 == 0:
            if self.storage is not None:
                self.storage.adopt_soon()
            if self._checking is None or self._checking.done():
                # Not awaited: beats must go on while a store is silent.
                self._checking = asyncio.get_running_loop().create_task(self._check_stores())
            self.frontier.nearly_full = await self.control.memory_share() > FULL
            if not self.frontier.nearly_full:
                self._intake.take_in_soon()

    async def _take_in(self) -> int:
        """Take in what waits outside the frontier, and count the pages that are spooled."""
        taken = await self._intake.take_in()
        spooled = self.storage.spooled if self.storage is not None else 0
        if spooled and not taken and not self._waits_for_sinks:
            self._waits_for_sinks = True
            logger.info(
                "Nothing else is left to crawl: %d spooled pages wait for their sinks. Stop this "
                "process, and the next one goes on with them",
                spooled,
            )
        return taken + spooled

    async def _messages_wait(self) -> bool:
        return self._kafka_seeds is not None and await self._kafka_seeds.waiting()

    async def _elsewhere(self) -> list[str]:
        """Return where other processes have URLs or pages of this crawl on their disks."""
        await self._intake.refresh()
        own = self._intake.names
        if self.storage is not None:
            await self.storage.refresh()
            own |= self.storage.names
        places = await self._on_disk.places()
        return [place for name, place in places.items() if name not in own]

    def _data_lost(self, lost_s: float) -> None:
        self._end_with_loss(
            f"Redis has lost at least the last {lost_s:.0f} s of the crawl {self.crawl!r}, more "
            "than its processes can repeat: URLs may be missing, so this run ends. Find out why "
            "(FLUSHALL, an old backup, no append-only file), then run `scrapy frontier rebuild "
            f"--crawl {self.crawl}` if MongoDB or PostgreSQL has its pages, and run the crawl "
            "again with its seeds: it goes on from what is left"
        )

    async def _check_stores(self) -> None:
        """End this run if a store has lost pages: the crawl would end with success and less."""
        if self.store_losses is None or self.leases.completion.reason == DATA_LOST:
            return
        if found := await self.store_losses():
            self._end_with_loss(found)
            if Engine.is_closing(self._crawler):
                return
            # Now: pages that wait for a table that is gone would keep the engine open.
            self._closing = asyncio.get_running_loop().create_task(
                self._crawler.engine.close_spider_async(reason=DATA_LOST)
            )

    def _end_with_loss(self, text: str) -> None:
        if self.leases.completion.reason != DATA_LOST:
            logger.error("%s", text)
        self.leases.completion.reason = DATA_LOST
        self._engine.wake()

    def _use(self, now: CrawlOptions) -> None:
        self.leases.follow(now)
        self.recrawls.use(now.recrawl)
        self._recrawl_budget.apply()
        if now.forgotten != self._forgotten:
            self._forgotten = now.forgotten
            self.adder.forget()

    def _about(self) -> dict[str, Any]:
        return {
            **this_process(),
            KNOWN_MODEL: VISITS_MODEL,
            **ProcessStats.of(self._crawler).about(time.monotonic()),
            "held": self.leases.held,
            "shards": list(self.leases.shards.own),
            "troubles": [each for each in self._troubles() if each],
        }

    def _troubles(self) -> Iterator[str]:
        yield self.health.trouble
        yield from {health.trouble for health in self._store_healths()}

    def _store_healths(self) -> Iterator[ServerHealth]:
        yield self._intake.spill_health
        if self._kafka_seeds is not None:
            yield self._kafka_seeds.health
        for writer in self.storage.writers if self.storage is not None else ():
            yield writer.health

    def _settle_lost(self) -> None:
        """Settle leases whose requests left the engine unnoticed.

        Scrapy sends no signal when a middleware replaces a request by one of its own, or another
        component drops a redirect.
        """
        for lease in self._engine.lost(self.leases.taken):
            self.count("scheduler/lost")
            self.failures.drop(lease, Dropped.LOST)

    def _spider_opened(self) -> None:
        # Not before: a sink may get the messages that are rejected.
        if self._kafka_seeds is not None:
            self._kafka_seeds.start()

    def _spider_idle(self) -> None:
        completion = self.leases.completion
        if completion.reason not in (None, "finished"):
            completion.log_left()
            raise CloseSpider(completion.reason)


def link_follower(crawler: Crawler) -> LinkFollower:
    """Return the link follower that all components of a crawl share."""

    def make() -> LinkFollower:
        settings = crawler.settings
        traps = Traps(fill(TrapRules, settings))
        return LinkFollower(crawler, lambda: Scheduler.of(crawler), scorer(settings), traps)

    return shared(LinkFollower, crawler, make)


def keep_files(crawler: Crawler) -> None:
    """Keep the feeds of earlier runs after a run that crawled nothing.

    Scrapy would overwrite them with an empty file (-O, or S3).
    """
    exporter = crawler.get_extension(FeedExporter)
    for slot in exporter.slots if exporter is not None else ():
        storage = slot.storage
        if slot.itemcount or not slot.store_empty or isinstance(storage, StdoutFeedStorage):
            continue
        path = Path(storage.path) if isinstance(storage, FileFeedStorage) else None
        if path is not None and not (path.is_file() and path.stat().st_size > 0):
            continue
        slot.store_empty = False
        logger.warning(
            "Nothing was crawled, so the feed %s stays as it is", without_secrets(slot.uri)
        )


class KnownStarts:
    """Start requests of this run that the crawl knows. The first is logged, all are counted.

    `anew` is the part of the message that says how to fetch them again.
    """

    def __init__(self, crawl: str, anew: str, count: Callable[[str, int], None]) -> None:
        self._crawl = crawl
        self._anew = anew
        self._count = count
        self._known = 0
        self._new = 0
        self._was_finished = False

    def begin(self, sizes: Sizes) -> None:
        """Note the sizes of the crawl at the start of this run."""
        self._was_finished = sizes.added > 0 and not sizes.unfinished

    def sent(self, request: Request, sent: asyncio.Future[Added] | None) -> None:
        """Watch a start request that was sent to the frontier; None: the frontier has it."""
        if sent is None:
            self._met(request)
        else:
            sent.add_done_callback(lambda answered: self._answered(request, answered))

    def add(self, *, known: int, new: int) -> None:
        """Count seeds that were known, and those that were not."""
        self._known += known
        self._new += new

    def warn_if_all(self) -> None:
        """Warn after a run without pages if the crawl was finished, and knew all its requests."""
        if self._was_finished and self._known and not self._new:
            logger.warning(
                "Nothing was crawled: the crawl %r was finished before, and knows all start "
                "requests of this run (%d). %s",
                *(self._crawl, self._known, self._anew),
            )

    def _answered(self, request: Request, sent: asyncio.Future[Added]) -> None:
        if sent.cancelled() or sent.exception() is not None:
            return
        if sent.result().new:
            self._new += 1
        else:
            self._met(request)

    def _met(self, request: Request) -> None:
        self._known += 1
        self._count("scheduler/start_known", 1)
        if self._known == 1:
            logger.info(
                "<%s %s> is known to the crawl %r and not fetched again, and so are other start "
                "requests that scheduler/start_known counts. %s",
                *(request.method, shown(request.url), self._crawl, self._anew),
            )


def how_to_start_anew(spider: str, *, has_commands: bool) -> str:
    """Return the advice to a user who wants to run a finished crawl again."""
    fresh = f"`scrapy crawl {spider} --fresh` starts it anew"
    if not has_commands:
        fresh = f'with COMMANDS_MODULE = "crawler.commands" in the settings {fresh}'
    return f"-s CRAWL=NAME begins another crawl, {fresh}"


_LOGGED_MAX = 5


class Rejections:
    """Requests that were refused in this process, by reason."""

    def __init__(self, count: Callable[[str, int], None]) -> None:
        self._count = count
        # By reason.
        self._number: Counter[str] = Counter()

    def add(self, request: Request, found: Rejected | NotCarried) -> None:
        """Count a request that was refused, and log it if it is one of the first."""
        reason = found.reason if isinstance(found, Rejected) else "not_carried"
        name = f"scheduler/rejected/{reason}"
        self._count(name, 1)
        self._number[reason] += 1
        number = self._number[reason]
        if number > _LOGGED_MAX:
            return
        last = f" More of these are only counted, as {name}." if number == _LOGGED_MAX else ""
        if isinstance(found, NotCarried):
            logger.error("%s%s", found, last)
            return
        url = shown(request.url)
        logger.warning("<%s %s> is not fetched: %s.%s", request.method, url, why(reason), last)


# For each server: enough to share out among processes, or to move to other masters.
_SHARDS_PER_SERVER = 4
# A frontier is full above this share of its limits; the rest is for URLs that may not be refused.
FULL = 0.8
# After a restart of Redis every process has this many heartbeats to report what it holds.
_GRACE_BEATS = 5


def is_plain_page(entry: Entry) -> bool:
    """Return whether an entry is a page, and its URL says all that a fetch needs."""
    return entry.kind is Kind.PAGE and not {"method", "body"} & entry.tail.keys()


def _in_queue_of_type(entry: Entry, source: Entry) -> Entry:
    """Return a redirect's target in the queue of its type: by its ending, or as its source.

    The link to the source was scored with what its page said of it.
    """
    if entry.kind is not Kind.PAGE:
        return entry
    return replace(entry, queue=QUEUE_OF_ENDING.get(extension(entry.url), source.queue))


def this_process() -> dict[str, str | int]:
    """Return what a process publishes about itself, beside its numbers."""
    return {"machine": socket.gethostname(), "pid": os.getpid()}


def frontier_tuning(settings: BaseSettings, *, beat_s: float) -> Tuning:
    """Return how the frontier serves its queues."""
    return Tuning(
        parallelism=value(settings, "HOST_PARALLELISM"),
        spacing_ms=round(value(settings, "DELAY_MIN") * 1000),
        dead_max=value(settings, "DEAD_MAX"),
        full_at=round(value(settings, "FRONTIER_MAX_WAITING") * FULL),
        grace_ms=round(_GRACE_BEATS * beat_s * 1000),
        url_seen=(
            intset()
            if value(settings, "URL_SEEN") == "intset"
            else bloom(value(settings, "BLOOM_CAPACITY"), value(settings, "BLOOM_ERROR"))
        ),
    )


async def make_frontier(redis: Client, crawl: str, crawler: Crawler, tuning: Tuning) -> Frontier:
    """Make the frontier of a crawl, with as many shards as it has, or as it is to have."""
    settings = crawler.settings
    shards = await shards_of(redis, crawl, settings)
    assert crawler.spider is not None
    if hasattr(redis, "get_primaries"):
        tuning = tuning.per_shard(shards)
    return Frontier(redis, crawl, shards=shards, tuning=tuning, spider=crawler.spider.name)


async def shards_of(redis: Client, crawl: str, settings: BaseSettings) -> int:
    """Return the number of shards that a crawl has, or is to have."""
    return (
        value(settings, "FRONTIER_SHARDS")
        or await stored_shards(redis, crawl)
        or _default_shards(redis, settings)
    )


def spill_of(
    crawl: str,
    servers: Servers,
    settings: BaseSettings,
    redis: Client,
    *,
    is_closing: Callable[[], bool] = lambda: False,
) -> Spill:
    """Return the place for URLs that the frontier has no room for: a server, if there is one."""
    if uses_mongo(settings) or value(settings, "MONGO_URI"):
        database = value(settings, "MONGO_DATABASE")
        return MongoSpill(servers.mongo, database, crawl, servers.mongo_health)
    if urls := targets(settings, POSTGRESQL):
        catalogue = Database(urls[0], value(settings, "POSTGRES_TIMEOUT"))
        return PostgresSpill(catalogue, crawl, servers.postgres_health)
    return FileSpill(
        crawl_folder(Path(value(settings, "CRAWL_DIR"), "spill"), crawl),
        OnDisk(redis, crawl),
        max_bytes=value(settings, "SPILL_MAX_BYTES"),
        is_closing=is_closing,
    )


def _default_shards(redis: Client, settings: BaseSettings) -> int:
    if hasattr(redis, "get_primaries"):
        return _SHARDS_PER_SERVER * len(redis.get_primaries())
    # www.example.com and example.com must be in one shard, if they are the same.
    is_folded = "www" in value(settings, "URL_FOLD") and value(settings, "GROUP_BY") == "host"
    return 1 if is_folded else _SHARDS_PER_SERVER
