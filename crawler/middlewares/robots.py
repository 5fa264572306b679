"""Obey robots.txt. Downloader middleware.

The host's slot is the lock: whoever holds a lease on a host with unknown rules fetches its
robots.txt, and hands the URL back with the host's clock set; where hosts need no rest, its page
comes next. Nobody waits holding a slot, and nobody takes a missing answer for a yes. Where a host
has several slots, a lock in Redis lets one of them fetch.

Scrapy's signal `robots_parsed` is sent with the rules as `robotparser` when this process first
meets them, whoever fetched them; their `sitemaps` are for whoever follows them. It is awaited while
the lease is held: if this process dies meanwhile, the next that gets the URL sends it again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.settings import default_settings
from scrapy.utils.httpobj import urlparse_cached

from crawler import settings as ours
from crawler.config.values import value
from crawler.download.errors import Forbidden
from crawler.errors import ConfigurationError
from crawler.frontier import Lease
from crawler.middlewares.politeness import CRAWL_DELAY
from crawler.politeness.delay import Fetch
from crawler.politeness.host_delays import HostDelays, retry_after_s
from crawler.politeness.ip_clock import IpClock
from crawler.robots.cache import CachedRules, RobotsCache
from crawler.robots.fetcher import LOCK_S, Fetched, RobotsFetch
from crawler.robots.gate import RobotsBeside, allows
from crawler.robots.rules import (
    WITHHELD_IS,
    Unreachable,
    Withheld,
    has_contact,
    robots_name,
    tells_apart,
)
from crawler.scheduler import Scheduler
from crawler.servers.connections import Servers
from crawler.servers.redis.errors import RedisAway
from crawler.urls import DEFAULT, Rejected, authority_of, written_url
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import LEASE, MAY_FETCH

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Headers

    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# For those who find the file being fetched by another.
_LOCKED_WAIT_S = 1.0


class Robots:
    """Let through what the rules allow."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        value(settings, "ROBOTS_FORBIDDEN_IS")
        self._crawler = crawler
        self._host_delays = HostDelays.of(crawler)
        self._crawl_delay_max_s = value(settings, "CRAWL_DELAY_MAX")
        self._robots_fetch = RobotsFetch(crawler)
        self._addresses = IpClock.of(crawler)
        self._cache: RobotsCache
        self._beside: RobotsBeside

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        _check_user_agent(crawler)
        robots = cls(crawler)
        crawler.signals.connect(robots._spider_opened, signals.spider_opened)
        return robots

    async def _spider_opened(self) -> None:
        self._cache = self._cache_in(await Servers.of(self._crawler).redis())
        self._beside = RobotsBeside(self._cache, self._robots_fetch, self._count)

    def _cache_in(self, redis: Client) -> RobotsCache:
        settings = self._crawler.settings
        return RobotsCache(
            redis,
            robots_name(settings),
            ttl_s=value(settings, "ROBOTS_TTL"),
            error_ttl_s=value(settings, "ROBOTS_ERROR_TTL"),
            size=value(settings, "ROBOTS_CACHE_SIZE"),
            withheld=WITHHELD_IS[settings["ROBOTS_FORBIDDEN_IS"]],
        )

    async def process_request(self, request: Request) -> Request | None:
        if request.meta.get("dont_obey_robotstxt"):
            return None
        lease: Lease | None = request.meta.get(LEASE)
        if lease is None:
            await self._judge_beside(request)
            return None
        authority = authority_of(lease.entry.url)
        known = self._cache.recent(authority)
        try:
            if known is None or known.is_old:
                known = await self._looked_up(authority, lease, known)
        except RedisAway as error:
            logger.debug("No look at the rules for %s: %s", request.url, error)
            nothing = Fetch(duration_s=0.0, status=None)
            rest = await self._host_delays.rest(lease.entry.host, nothing)
            return Scheduler.of(self._crawler).leases.put_off(request, rest.ms)
        if known is None or self._is_put_off(lease, known):
            # See LeasePool.put_off.
            return request
        assert not isinstance(known.rules, Unreachable)
        self._count("robots/cached")
        if not known.is_told:
            await self._crawler.signals.send_catch_log_async(
                signals.robots_parsed, robotparser=known.rules, request=request
            )
            known.is_told = True
        url = lease.entry.written_url
        if not await allows(known.rules, url):
            self._count("robots/denied")
            # The host was not contacted, so it need not rest.
            Scheduler.of(self._crawler).leases.release(lease, 0)
            raise Forbidden(Forbidden.BY_ROBOTS, f"robots.txt forbids {url}")
        request.meta[CRAWL_DELAY] = known.rules.crawl_delay_s
        return None

    async def _judge_beside(self, request: Request) -> None:
        """Refuse a request of a media pipeline, or of a spider that waits for it, if need be."""
        parts, spelling = urlparse_cached(request), DEFAULT.spelling(request.url)
        if parts.scheme not in ("http", "https"):
            return
        if isinstance(spelling, Rejected):
            # The frontier would not take it, as those with a password; its rules are the same.
            url, whose = request.url, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        else:
            # Without dot segments, which may hide from the rules what the server sees.
            url, whose = written_url(*spelling), authority_of(spelling[0])
        try:
            rules = await self._beside.rules(whose)
        except RedisAway as error:
            raise IgnoreRequest(f"No look at the rules of {whose}: {error}") from error
        if isinstance(rules, Unreachable):
            self._count("robots/denied")
            raise Forbidden(Forbidden.BY_ROBOTS, f"No rules from {whose} ({rules.reason})")
        if not await allows(rules, url):
            self._count("robots/denied")
            raise Forbidden(Forbidden.BY_ROBOTS, f"robots.txt forbids {request.url}")

    def _is_put_off(self, lease: Lease, known: CachedRules) -> bool:
        """Do the URLs of this authority wait? Then the lease is handed back."""
        if isinstance(known.rules, Unreachable):
            self._count("robots/deferred")
        elif known.rules.crawl_delay_s > self._crawl_delay_max_s:
            # To come more often than it asks for would be impolite, to come so rarely is no use.
            self._count("robots/crawl_delay_too_long")
        else:
            return False
        Scheduler.of(self._crawler).leases.hand_back(
            lease, round(max(0.0, known.left_s) * 1000) + 1
        )
        return True

    # --- fetching ------------------------------------------------------------------------------

    async def _looked_up(
        self, authority: str, lease: Lease, old: CachedRules | None
    ) -> CachedRules | None:
        """The rules by Redis, or by a fetch; None if the lease was handed back."""
        scheduler = Scheduler.of(self._crawler)
        token, found = await self._cache.lock(authority, LOCK_S)
        known = found or old
        if token is None:
            if known is None:
                self._count("robots/deferred")
                scheduler.leases.hand_back(lease, round(_LOCKED_WAIT_S * 1000))
            return known
        fetch = _Fetch(authority, lease, token, known)
        try:
            if found is not None and not found.is_old:
                return found
            host = urlsplit(authority).hostname or ""
            wait_ms = await self._addresses.wait_ms(host, lease.entry.host)
            if not wait_ms and scheduler.leases.may_fetch(lease):
                return await self._fetched(fetch)
            if wait_ms and known is not None:
                return known
            scheduler.leases.hand_back(lease, wait_ms)
            return None
        finally:
            if fetch.is_locked:
                await self._cache.unlock(authority, token)

    async def _fetched(self, fetch: _Fetch) -> CachedRules | None:
        """Fetch the rules, then hand the lease back unless its page may be fetched at once."""
        lease, scheduler = fetch.lease, Scheduler.of(self._crawler)
        started = monotonic()
        answer = await self._answer(fetch)
        if answer.status is None and not scheduler.leases.may_fetch(lease):
            # This process stood still; that says nothing about the host.
            scheduler.leases.hand_back(lease, 0)
            return None
        self._count("robots/fetched")
        ended = Fetch(duration_s=monotonic() - started, status=answer.status)
        known = await self._keep(fetch, answer.verdict(), answer.headers)
        if isinstance(known.rules, Unreachable):
            logger.info(
                "No rules from %s (%s): its URLs wait %.0f s",
                fetch.authority,
                known.rules.reason,
                known.left_s,
            )
            scheduler.leases.hand_back(lease, round(known.left_s * 1000) + 1)
            return None
        asked_s = known.rules.crawl_delay_s
        rest = await self._host_delays.rest(lease.entry.host, ended, crawl_delay_s=asked_s)
        if rest.ms == 0:
            return known
        scheduler.leases.hand_back(lease, rest.ms)
        return None

    async def _answer(self, fetch: _Fetch) -> Fetched:
        lease, scheduler = fetch.lease, Scheduler.of(self._crawler)
        meta = {
            "download_slot": lease.entry.host,
            MAY_FETCH: partial(scheduler.leases.may_fetch, lease),
        }
        if proxy := lease.entry.tail.get("meta", {}).get("proxy"):
            meta["proxy"] = proxy
        lock_on = partial(self._cache.lock_on, fetch.authority, fetch.token, LOCK_S)
        try:
            return await self._robots_fetch.answer(fetch.authority, meta, lock_on)
        except OutOfSockets:
            raise
        except Exception:
            # An address that is never connected to: there is nothing to wait for.
            scheduler.leases.release(lease, 0)
            raise

    async def _keep(
        self, fetch: _Fetch, found: bytes | Withheld | Unreachable, headers: Headers
    ) -> CachedRules:
        """Let the fleet know the rules; returns those that hold, the old ones if there are none."""
        asked_s = 0.0
        if isinstance(found, Unreachable):
            self._count("robots/unreachable")
            if fetch.old is not None and not isinstance(fetch.old.rules, Unreachable):
                self._cache.put_off(fetch.authority)
                return fetch.old
            asked_s = retry_after_s(headers.get("Retry-After")) or 0.0
        known = await self._cache.put(
            fetch.authority,
            found,
            at_least_s=asked_s,
            cache_control=headers.get("Cache-Control"),
            token=fetch.token,
        )
        fetch.is_locked = False
        return known

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(name)


@dataclass(slots=True)
class _Fetch:
    """A file that is locked, to be fetched by whoever has a lease on its host."""

    authority: str
    lease: Lease
    token: str
    # Rules that hold and end soon.
    old: CachedRules | None
    is_locked: bool = True


def _check_user_agent(crawler: Crawler) -> None:
    """Site owners must be able to reach whoever runs the crawl."""
    user_agent = crawler.settings["USER_AGENT"] or ""
    is_default = user_agent in (ours.USER_AGENT, default_settings.USER_AGENT)
    if crawler.settings.getbool("REQUIRE_CONTACT") and (is_default or not has_contact(user_agent)):
        raise ConfigurationError(
            f"USER_AGENT is {user_agent!r}; with REQUIRE_CONTACT it must be your own and have a "
            "URL or an e-mail address, as in 'mybot/1.0 (+https://example.com/bot)'."
        )
    if is_default:
        logger.warning(
            "USER_AGENT is the default: set it in your settings, or with -s USER_AGENT=…, to your "
            "crawler's name and a URL or e-mail address, so that site owners can reach you"
        )
    if not tells_apart(name := robots_name(crawler.settings)):
        logger.warning(
            "robots.txt files cannot speak to this crawler: its name is %r. Set USER_AGENT to one "
            "with a name of its own, as in 'Mozilla/5.0 (compatible; mybot/1.0; "
            "+https://example.com/bot)', or ROBOTSTXT_USER_AGENT to that name",
            name,
        )
