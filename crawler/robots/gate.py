"""Decide by robots.txt whether a URL may be fetched now.

The rules of an authority are looked up in memory, then in Redis, then fetched. A lock in Redis lets
one process at a time fetch a file. Two kinds of requests differ in what happens meanwhile:

- A request with a lease never waits while it holds the slot of its host: it is put off, and the
  frontier gives the URL out again. It fetches the file if that is unknown, and shortly before the
  rules expire. The fetch is a contact with the host, so the page follows only after a delay.
- A direct request has no lease, as those of media pipelines. It cannot be put off, so it waits for
  a file that is being fetched, and is denied if there are no rules.

A missing answer is never taken for a permission.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from crawler.config.values import fill, value
from crawler.politeness.delay import Fetch
from crawler.politeness.host_delays import HostDelays, retry_after_s
from crawler.politeness.ip_clock import IpClock
from crawler.robots.cache import CachedRules, RobotsCache, RobotsLock
from crawler.robots.fetcher import RobotsFetcher
from crawler.robots.rules import RobotsRules, Unreachable, robots_name
from crawler.servers.redis.errors import RedisAway
from crawler.urls import DEFAULT, Rejected, authority_of, written_url
from crawler.util.request_meta import MAY_FETCH

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawler.frontier import Lease
    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# Delay of a URL whose robots.txt is being fetched by another request.
_LOCKED_DELAY_MS = 1000
# Interval at which a direct request checks whether another process has fetched the file.
_POLL_S = 0.5
# Larger files are evaluated in a thread: 500 KB of rules take up to 200 ms a URL.
_INLINE_BYTES = 32 * 1024


# Not frozen: one is made for each page, and that would take twice as long.
@dataclass(slots=True)
class Allowed:
    """The URL may be fetched now. `cached` is None for URLs that have no robots.txt."""

    cached: CachedRules | None = None

    @property
    def crawl_delay_s(self) -> float:
        """The delay that the rules ask for, 0 for none."""
        rules = self.cached.rules if self.cached is not None else None
        return rules.crawl_delay_s if isinstance(rules, RobotsRules) else 0.0


@dataclass(frozen=True, slots=True)
class PutOff:
    """The URL must wait: its host may be contacted after this delay."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Denied:
    """The URL must not be fetched; `text` says why. `cached` is None if there are no rules."""

    text: str
    cached: CachedRules | None = None


@dataclass(slots=True)
class RobotsGate:
    """Robots.txt decisions of one crawl."""

    cache: RobotsCache
    fetcher: RobotsFetcher
    host_delays: HostDelays
    ip_clock: IpClock
    # Tells whether a lease still belongs to this process, so that its host may be contacted.
    may_fetch: Callable[[Lease], bool]
    crawl_delay_max_s: float
    # Adds one to a stat.
    count: Callable[[str], None]
    # Lookups for direct requests by authority: a page may need a hundred pictures at once.
    _lookups: dict[str, asyncio.Task[CachedRules]] = field(default_factory=dict, init=False)

    @classmethod
    def from_crawler(
        cls, crawler: Crawler, redis: Client, may_fetch: Callable[[Lease], bool]
    ) -> Self:
        """Make the gate of a crawl."""
        settings = crawler.settings
        assert crawler.stats is not None
        return cls(
            fill(RobotsCache, settings, redis=redis, user_agent=robots_name(settings)),
            RobotsFetcher(crawler),
            HostDelays.of(crawler),
            IpClock.of(crawler),
            may_fetch,
            value(settings, "CRAWL_DELAY_MAX"),
            crawler.stats.inc_value,
        )

    async def check(self, url: str, lease: Lease | None) -> Allowed | PutOff | Denied:
        """Decide about the URL of a lease, or of a direct request.

        Raises DownloadCancelledError if the host is never connected to, OutOfSockets if there was
        no file descriptor to fetch the file with.
        """
        if lease is None:
            return await self._check_direct(url)
        authority, url = authority_of(lease.entry.url), lease.entry.written_url
        cached = self.cache.recent(authority)
        if cached is None or cached.needs_refresh:
            try:
                found = await self._find(authority, lease)
            except RedisAway as error:
                logger.debug("The robots.txt rules for %s cannot be looked up: %s", url, error)
                nothing = Fetch(duration_s=0.0, status=None)
                return PutOff((await self.host_delays.after(lease.entry.host, nothing)).ms)
            if isinstance(found, PutOff):
                return found
            cached = found
        if isinstance(cached.rules, Unreachable):
            self.count("robots/deferred")
            return PutOff(_until_expiry_ms(cached))
        if cached.rules.crawl_delay_s > self.crawl_delay_max_s:
            # Coming more often than asked would be impolite, coming that rarely is useless.
            self.count("robots/crawl_delay_too_long")
            return PutOff(_until_expiry_ms(cached))
        self.count("robots/cached")
        return await self._evaluate(cached, url)

    async def _check_direct(self, url: str) -> Allowed | Denied:
        parts, spelling = urlsplit(url), DEFAULT.spelling(url)
        if parts.scheme not in ("http", "https"):
            return Allowed()
        if isinstance(spelling, Rejected):
            # The frontier takes no such URL, for example one with a password. The rules apply.
            written, authority = url, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        else:
            # Without dot segments, which could hide from the rules what the server sees.
            written, authority = written_url(*spelling), authority_of(spelling[0])
        cached = self.cache.recent(authority)
        try:
            if cached is None:
                cached = await self._wait_for_rules(authority)
        except RedisAway as error:
            return Denied(f"The robots.txt rules of {authority} cannot be looked up: {error}")
        if isinstance(cached.rules, Unreachable):
            self.count("robots/denied")
            return Denied(f"No robots.txt rules from {authority} ({cached.rules.reason})")
        return await self._evaluate(cached, written)

    async def _evaluate(self, cached: CachedRules, url: str) -> Allowed | Denied:
        rules = cached.rules
        assert isinstance(rules, RobotsRules)
        if rules.size_bytes <= _INLINE_BYTES:
            allowed = rules.allows(url)
        else:
            allowed = await asyncio.to_thread(rules.allows, url)
        if allowed:
            return Allowed(cached)
        self.count("robots/denied")
        return Denied(f"robots.txt forbids {url}", cached)

    # --- finding rules -------------------------------------------------------------------------

    async def _wait_for_rules(self, authority: str) -> CachedRules:
        """Return the rules for a direct request; all requests share one lookup."""

        async def look_up() -> CachedRules:
            while True:
                found = await self._find(authority, None)
                if isinstance(found, CachedRules):
                    return found
                await asyncio.sleep(_POLL_S)

        task = self._lookups.get(authority)
        if task is None:
            task = self._lookups[authority] = asyncio.create_task(look_up())
            task.add_done_callback(lambda _: self._lookups.pop(authority, None))
        # It continues for others if this request is cancelled.
        return await asyncio.shield(task)

    async def _find(self, authority: str, lease: Lease | None) -> CachedRules | PutOff:
        """Lock the file, then take its rules from Redis or fetch them."""
        async with self.cache.locked(authority) as lock:
            cached = lock.found
            if not lock.is_held:
                if cached is None:
                    if lease is not None:
                        self.count("robots/deferred")
                    return PutOff(_LOCKED_DELAY_MS)
                return cached
            if cached is not None and (lease is None or not cached.needs_refresh):
                return cached
            if lease is None:
                return await self._fetch(lock, None)
            host = urlsplit(authority).hostname or ""
            delay_ms = await self.ip_clock.wait_ms(host, lease.entry.host)
            if delay_ms and cached is not None:
                return cached
            if delay_ms or not self.may_fetch(lease):
                return PutOff(delay_ms)
            return await self._fetch(lock, lease)

    async def _fetch(self, lock: RobotsLock, lease: Lease | None) -> CachedRules | PutOff:
        """Fetch the file and store its rules. The page of a lease follows only without a delay."""
        meta: dict[str, Any] = {}
        if lease is not None:
            meta["download_slot"] = lease.entry.host
            meta[MAY_FETCH] = partial(self.may_fetch, lease)
            if proxy := lease.entry.tail.get("meta", {}).get("proxy"):
                meta["proxy"] = proxy
        started = monotonic()
        answer = await self.fetcher.fetch(lock.authority, meta, partial(self.cache.extend, lock))
        ended = Fetch(duration_s=monotonic() - started, status=answer.status)
        if lease is not None and answer.status is None and not self.may_fetch(lease):
            # This process was stopped meanwhile; that says nothing about the host.
            return PutOff(0)
        self.count("robots/fetched")
        content, at_least_s, cached = answer.content(), 0.0, None
        if isinstance(content, Unreachable):
            self.count("robots/unreachable")
            at_least_s = retry_after_s(answer.headers.get("Retry-After")) or 0.0
            # Rules that were to be refreshed stay valid until they expire.
            cached = lock.found
        if cached is not None:
            self.cache.postpone_refresh(lock.authority)
        else:
            cached = await self.cache.put(
                lock.authority,
                content,
                at_least_s=at_least_s,
                cache_control=answer.headers.get("Cache-Control"),
                lock=lock,
            )
        if lease is None:
            return cached
        if isinstance(cached.rules, Unreachable):
            logger.info(
                "No robots.txt rules from %s (%s): its URLs wait %.0f s",
                *(lock.authority, cached.rules.reason, cached.left_s),
            )
            return PutOff(_until_expiry_ms(cached))
        delay = await self.host_delays.after(
            lease.entry.host, ended, crawl_delay_s=cached.rules.crawl_delay_s
        )
        return PutOff(delay.ms) if delay.ms else cached


def _until_expiry_ms(cached: CachedRules) -> int:
    return round(max(0.0, cached.left_s) * 1000) + 1
