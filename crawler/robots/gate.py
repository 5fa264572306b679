"""Decide by robots.txt whether a URL may be fetched now, and fetch the file.

The rules of an authority are looked up in memory, then in Redis, then fetched. A lock in Redis lets
one process at a time fetch a file. Three kinds of requests differ in what happens meanwhile:

- A request with a lease never waits while it holds the slot of its host: it is put off, and the
  frontier gives the URL out again. It fetches the file if that is unknown, and shortly before the
  rules expire. The fetch is a contact with the host, so the page follows only after a delay.
- A direct request has no lease, as those of media pipelines. It cannot be put off, so it waits for
  a file that is being fetched, and is denied if there are no rules.
- A part of a page is decided about without a contact. If the rules are unknown, the page visits the
  host (scheduling/visits.py), fetches the file, and waits itself until the host may be contacted
  again.

A missing answer is never taken for a permission. The cache is bounded. records.py has the records
in Redis; the other key:

robots:lock:<authority>  string  token of the process that fetches the file; expires by itself
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import InitVar, dataclass, field, replace
from functools import lru_cache, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.exceptions import DownloadCancelledError
from scrapy.http import Headers, Response
from scrapy.settings import default_settings
from w3lib.url import safe_url_string

from crawler import config
from crawler import settings as ours
from crawler.config.values import fill, setting, value
from crawler.download.direct import DirectDownloads
from crawler.errors import ConfigurationError
from crawler.politeness.host_delays import Fetch, HostDelays, retry_after_s
from crawler.politeness.ip_clock import IpClock
from crawler.robots.records import (
    RobotsRecord,
    mark_of,
    read_commands,
    store_command,
    unpacked,
)
from crawler.robots.rules import (
    FORBIDDEN_FILE_RULES,
    MAX_BYTES,
    MAX_REDIRECTS,
    ForbiddenFile,
    RobotsRules,
    Unreachable,
    content_of,
    robots_name,
    rules_ttl_s,
)
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.connection import LOCK_ON, UNLOCK
from crawler.servers.redis.errors import RedisAway
from crawler.urls import DEFAULT, Rejected, Spelling, authority_of, written_url
from crawler.urls.canonical import leads_nowhere
from crawler.util.backoff import Backoff
from crawler.util.file_limit import OutOfSockets
from crawler.util.request_meta import ARCHIVED, MAY_FETCH

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

    from crawler.frontier import Lease
    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# Delay of a URL whose robots.txt is being fetched by another request.
_LOCKED_DELAY_MS = 1000
# Interval at which a direct request checks whether another process has fetched the file.
_POLL_S = 0.5
# Larger files are evaluated in a thread: 500 KB of rules take up to 200 ms a URL.
_INLINE_BYTES = 32 * 1024
# Characters of a URL in messages.
_SHOWN = 200


# Not frozen: one is made for each page, and that would take twice as long.
@dataclass(slots=True)
class Allowed:
    """The URL may be fetched now. `cached` is None for URLs that have no robots.txt."""

    cached: CachedRules | None = None
    # Delay that the rules ask for, 0 for none.
    crawl_delay_s: float = 0.0
    # Lines about the use of the page.
    usage: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PutOff:
    """The URL must wait: its host may be contacted after this delay."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Denied:
    """The URL must not be fetched; `text` says why. `cached` is None if there are no rules."""

    text: str
    cached: CachedRules | None = None


class Visitor(Protocol):
    """Visitor of a host (its politeness group), whose slot it has."""

    @property
    def host(self) -> str: ...

    def may_fetch(self) -> bool: ...

    def fetched(
        self, fetch: Fetch, crawl_delay_s: float = 0.0, answered: bool | None = None
    ) -> None: ...


@dataclass(slots=True)
class _Holder:
    """Holder of the slot of a host, who may fetch its robots.txt: a lease, or a visitor."""

    host: str
    may_fetch: Callable[[], bool]
    proxy: str = ""
    is_visitor: bool = False
    # Of the file, if there was one.
    fetch: Fetch | None = None

    @property
    def meta(self) -> dict[str, Any]:
        """Meta of the request for the file."""
        meta: dict[str, Any] = {"download_slot": self.host, MAY_FETCH: self.may_fetch}
        return {**meta, "proxy": self.proxy} if self.proxy else meta


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
        cls,
        crawler: Crawler,
        redis: Client,
        may_fetch: Callable[[Lease], bool],
        archive: Archive = lambda _response: None,
    ) -> Self:
        """Make the gate of a crawl."""
        settings = crawler.settings
        assert crawler.stats is not None
        return cls(
            fill(RobotsCache, settings, redis=redis, user_agent=robots_name(settings)),
            RobotsFetcher(crawler, archive),
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
        # URLs that are put off wait for long: Redis knows whether the file was forgotten.
        if cached is None or monotonic() >= cached.refresh_from or self._puts_off(cached):
            try:
                found = await self._find(authority, self._holder_of(lease))
            except RedisAway as error:
                logger.debug("The robots.txt rules for %s cannot be looked up: %s", url, error)
                nothing = Fetch(duration_s=0.0, status=None)
                return PutOff((await self.host_delays.after(lease.entry.host, nothing)).ms)
            if isinstance(found, PutOff):
                return found
            cached = found
        if self._puts_off(cached):
            is_known = isinstance(cached.rules, RobotsRules)
            self.count("robots/crawl_delay_too_long" if is_known else "robots/deferred")
            return PutOff(_until_expiry_ms(cached))
        self.count("robots/cached")
        return self._counted(await self._evaluate(cached, url))

    def _puts_off(self, cached: CachedRules) -> bool:
        """Tell whether all URLs wait until the file expires."""
        if isinstance(cached.rules, Unreachable):
            return True
        # Coming more often than asked would be impolite, coming that rarely is useless.
        return cached.rules.crawl_delay_s > self.crawl_delay_max_s

    def _holder_of(self, lease: Lease) -> _Holder:
        proxy = lease.entry.tail.get("meta", {}).get("proxy") or ""
        return _Holder(lease.entry.host, partial(self.may_fetch, lease), proxy)

    async def check_part(self, url: str) -> Allowed | Denied | None:
        """Decide about the URL of a part of a page, without a contact; None: its rules are unknown.

        Any text will do, as pages have it. Nothing is counted: figures are about URLs of the crawl.
        """
        spelling = DEFAULT.spelling(url)
        if isinstance(spelling, Rejected):
            return Denied(f"{url[:_SHOWN]!r} is not fetched: {spelling.reason}")
        written, authority = _spelled(spelling)
        try:
            cached = self.cache.recent(authority) or await self.cache.find(authority)
        except RedisAway as error:
            return _no_lookup(authority, error)
        if cached is None:
            return None
        if isinstance(cached.rules, RobotsRules) and self._puts_off(cached):
            return Denied(
                f"robots.txt of {authority} asks for a delay of {cached.rules.crawl_delay_s:g} s, "
                "longer than CRAWL_DELAY_MAX",
                cached,
            )
        return await self._decide(authority, cached, written)

    async def fetch_rules(self, url: str, visitor: Visitor, proxy: str = "") -> float | None:
        """Fetch the rules for a part of a page, as a visitor of its host, who is told of the fetch.

        Returns the seconds until the host may be contacted again: then `check_part` knows the
        rules. None if there are no rules now. Raises what `check` raises.
        """
        spelling = DEFAULT.spelling(url)
        if isinstance(spelling, Rejected):
            return None
        _, authority = _spelled(spelling)
        holder = _Holder(visitor.host, visitor.may_fetch, proxy, is_visitor=True)
        with suppress(*RedisAway):
            await self._find(authority, holder)
        # Also what Redis did not take.
        cached = self.cache.recent(authority)
        rules = cached.rules if cached is not None else None
        crawl_delay_s = rules.crawl_delay_s if isinstance(rules, RobotsRules) else 0.0
        if (fetch := holder.fetch) is not None:
            visitor.fetched(fetch, crawl_delay_s, True if fetch.status is not None else None)
        if not isinstance(rules, RobotsRules):
            return None
        if fetch is None:
            return 0.0
        delay = await self.host_delays.after(visitor.host, fetch, crawl_delay_s=crawl_delay_s)
        return delay.ms / 1000

    async def _check_direct(self, url: str) -> Allowed | Denied:
        parts, spelling = urlsplit(url), DEFAULT.spelling(url)
        if parts.scheme not in ("http", "https"):
            return Allowed()
        if isinstance(spelling, Rejected):
            # The frontier takes no such URL, for example one with a password. The rules apply.
            written, authority = url, f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        else:
            written, authority = _spelled(spelling)
        cached = self.cache.recent(authority)
        try:
            if cached is None:
                cached = await self._wait_for_rules(authority)
        except RedisAway as error:
            return _no_lookup(authority, error)
        return self._counted(await self._decide(authority, cached, written))

    async def _decide(self, authority: str, cached: CachedRules, url: str) -> Allowed | Denied:
        """Decide about the URL of a request that cannot be put off."""
        if isinstance(cached.rules, Unreachable):
            return Denied(f"No robots.txt rules from {authority} ({cached.rules.reason})")
        return await self._evaluate(cached, url)

    async def _evaluate(self, cached: CachedRules, url: str) -> Allowed | Denied:
        rules = cached.rules
        assert isinstance(rules, RobotsRules)
        if rules.size_bytes <= _INLINE_BYTES:
            allowed = rules.allows(url)
        else:
            allowed = await asyncio.to_thread(rules.allows, url)
        if allowed:
            return Allowed(cached, rules.crawl_delay_s, rules.usage(url))
        return Denied(f"robots.txt forbids {url}", cached)

    def _counted(self, decision: Allowed | Denied) -> Allowed | Denied:
        if isinstance(decision, Denied):
            self.count("robots/denied")
        return decision

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

    async def _find(self, authority: str, holder: _Holder | None) -> CachedRules | PutOff:
        """Lock the file, then take its rules from Redis or fetch them."""
        async with self.cache.locked(authority) as lock:
            cached = lock.found
            has_lease = holder is not None and not holder.is_visitor
            if not lock.is_held:
                if cached is None:
                    if has_lease:
                        self.count("robots/deferred")
                    return PutOff(_LOCKED_DELAY_MS)
                return cached
            if cached is not None and (not has_lease or monotonic() < cached.refresh_from):
                return cached
            if holder is None:
                return await self._fetch(lock, None)
            host = urlsplit(authority).hostname or ""
            delay_ms = await self.ip_clock.wait_ms(host, holder.host)
            if delay_ms and cached is not None:
                return cached
            if delay_ms or not holder.may_fetch():
                return PutOff(delay_ms)
            return await self._fetch(lock, holder)

    async def _fetch(self, lock: RobotsLock, holder: _Holder | None) -> CachedRules | PutOff:
        """Fetch the file and store its rules. The page of a lease follows only without a delay."""
        meta = holder.meta if holder is not None else {}
        started = monotonic()
        answer = await self.fetcher.fetch(lock.authority, meta, partial(self.cache.extend, lock))
        asked_s = retry_after_s(answer.headers.get("Retry-After"))
        ended = Fetch(monotonic() - started, answer.status, asked_s)
        if holder is not None:
            holder.fetch = ended
        if holder is not None and answer.status is None and not holder.may_fetch():
            # This process was stopped meanwhile; that says nothing about the host.
            return PutOff(0)
        self.count("robots/fetched")
        at_least_s, cached = 0.0, None
        if answer.status is None:
            content: bytes | ForbiddenFile | Unreachable = Unreachable(answer.error)
        else:
            content = content_of(answer.status, answer.body)
        if isinstance(content, Unreachable):
            self.count("robots/unreachable")
            at_least_s = asked_s or 0.0
            # Rules that were to be refreshed stay valid until they expire, or are forgotten.
            if lock.found is not None and lock.found.left_s > 0:
                cached = lock.found
        if cached is not None:
            self.cache.postpone_refresh(lock.authority)
        else:
            cached = await self.cache.put(
                lock.authority,
                content,
                status=answer.status or 0,
                at_least_s=at_least_s,
                cache_control=answer.headers.get("Cache-Control"),
                lock=lock,
            )
        if holder is None or holder.is_visitor:
            return cached or PutOff(0)
        if cached is None:
            # The file was forgotten meanwhile: this may be the old one. It was a contact, though.
            return PutOff((await self.host_delays.after(holder.host, ended)).ms)
        if isinstance(cached.rules, Unreachable):
            logger.info(
                "No robots.txt rules from %s (%s): its URLs wait %.0f s",
                *(lock.authority, cached.rules.reason, cached.left_s),
            )
            return PutOff(_until_expiry_ms(cached))
        delay = await self.host_delays.after(
            holder.host, ended, crawl_delay_s=cached.rules.crawl_delay_s
        )
        return PutOff(delay.ms) if delay.ms else cached


def _spelled(spelling: Spelling) -> tuple[str, str]:
    """Return a URL as the rules see it, and its authority.

    It has no dot segments, which could hide from the rules what the server sees.
    """
    return written_url(*spelling), authority_of(spelling[0])


def _no_lookup(authority: str, error: BaseException) -> Denied:
    return Denied(f"The robots.txt rules of {authority} cannot be looked up: {error}")


def _until_expiry_ms(cached: CachedRules) -> int:
    return round(max(0.0, cached.left_s) * 1000) + 1


# A lock is extended with each redirect. Not longer, for the URLs of the host wait for it if its
# holder dies.
LOCK_S = 20.0
# Limit of each request, unless DOWNLOAD_TIMEOUT is less. The lock is extended between them.
_TIMEOUT_S = LOCK_S / 2
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """Last answer to a request for robots.txt. Without a status `error` says why there is none."""

    status: int | None
    body: bytes = b""
    headers: Headers = field(default_factory=Headers)
    error: str = ""


Archive = Callable[[Response], asyncio.Future[None] | None]
# Limit of the time that a robots.txt waits for a sink that archives it; within that of its lock.
_ARCHIVE_S = 5.0


class RobotsFetcher:
    """Fetcher of robots.txt files. `archive` begins to store a response, if a sink wants it."""

    def __init__(self, crawler: Crawler, archive: Archive = lambda _response: None) -> None:
        settings = crawler.settings
        self._downloads = DirectDownloads(crawler)
        self._archive = archive
        # Limited even where pages have no limit (0): all URLs of the host wait for the file.
        self._timeout_s = min(_TIMEOUT_S, settings.getfloat("DOWNLOAD_TIMEOUT") or _TIMEOUT_S)

    async def fetch(
        self, authority: str, meta: dict[str, Any], before_redirect: Callable[[], Awaitable[None]]
    ) -> RobotsAnswer:
        """Fetch the robots.txt of an authority.

        Too many redirects, or one to nowhere, give an answer with the status of a redirect. A host
        that is redirected to is contacted at once, whatever its clock says: it is asked for rules,
        not pages. Raises DownloadCancelledError if the host is never connected to, OutOfSockets if
        there was no file descriptor.
        """
        url = f"{authority}/robots.txt"
        for hop in range(MAX_REDIRECTS + 1):
            request = Request(
                url,
                # Filters such as the offsite one do not apply: the page passed them.
                dont_filter=True,
                meta={
                    **meta,
                    "dont_redirect": True,
                    "dont_obey_robotstxt": True,
                    "download_timeout": self._timeout_s,
                    "download_cut": MAX_BYTES + 1,
                    ARCHIVED: True,
                },
            )
            if hop:
                await before_redirect()
            try:
                response = await self._downloads.download(request)
                await self._archived(response)
            except Exception as error:
                if hop == 0 and isinstance(error, DownloadCancelledError | OutOfSockets):
                    # The host was not contacted.
                    raise
                return RobotsAnswer(None, error=type(error).__name__)
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                break
            target = _target(url, location)
            if target is None:
                break
            url = target
        return RobotsAnswer(response.status, response.body, response.headers)

    async def _archived(self, response: Response) -> None:
        """Have a response archived before its rules count. A sink that is away gets it later."""
        stored = self._archive(response)
        if stored is not None:
            # Its error is logged; only NotStored, at the end of the crawl, is not.
            stored.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.wait({stored}, timeout=_ARCHIVE_S)


def _target(url: str, location: bytes) -> str | None:
    """Return the target of a redirect, or None if it is no URL of the web."""
    if leads_nowhere(location):
        return None
    try:
        target = urljoin(url, safe_url_string(location))
    except ValueError:
        # Brackets or a port that are not valid in a URL.
        return None
    return target if target.startswith(("http://", "https://")) else None


_CONTACT = re.compile(r"https?://[^\s)]+\.[^\s)]+|[^\s@(<+]+@[^\s@]+\.[^\s@)>]+")
# Names that everybody uses: no site owner means one crawler by them.
_BROWSERS = frozenset({"mozilla", "msie", "opera"})


def check_user_agent(settings: BaseSettings) -> None:
    """Make sure that site owners can reach whoever runs the crawl, or warn that they cannot."""
    user_agent = settings["USER_AGENT"] or ""
    is_default = user_agent in (ours.USER_AGENT, default_settings.USER_AGENT)
    if config.value(settings, "REQUIRE_CONTACT") and (is_default or not has_contact(user_agent)):
        raise ConfigurationError(
            f"USER_AGENT is {user_agent!r}; with REQUIRE_CONTACT it must be your own and have a "
            "URL or an e-mail address, as in 'mybot/1.0 (+https://example.com/bot)'."
        )
    if is_default:
        logger.warning(
            "USER_AGENT is the default: set it in your settings, or with -s USER_AGENT=…, to your "
            "crawler's name and a URL or e-mail address, so that site owners can reach you"
        )
    if not is_distinctive(name := robots_name(settings)):
        logger.warning(
            "robots.txt files cannot address this crawler: its name is %r. Set USER_AGENT to one "
            "with a name of its own, as in 'Mozilla/5.0 (compatible; mybot/1.0; "
            "+https://example.com/bot)', or ROBOTSTXT_USER_AGENT to that name",
            name,
        )


def is_distinctive(token: str) -> bool:
    """Tell whether a robots.txt can address one crawler by this name."""
    return token.lower() not in _BROWSERS and any(map(str.isalpha, token))


def has_contact(user_agent: str) -> bool:
    """Tell whether a User-Agent has a URL or e-mail address at which site owners reach somebody."""
    return _CONTACT.search(user_agent) is not None


# Parsing takes about 27 µs a rule: larger files are parsed in a thread.
_PARSE_INLINE_BYTES = 16 * 1024
# Many hosts of a platform have the same short file.
_SHARED_BYTES = 1024
_SHARED_FILES = 1000
# Limit of the memory that parsed files take: those of some 2,000 hosts as they are on the web.
_RECENT_BYTES = 32 * 1024 * 1024
_JITTER = 0.1
# The delay after failures in a row grows up to a day.
_ERROR_TTL_MAX_S = 86_400.0
# Rules with less than this share of their time left are refreshed.
_EARLY = 0.05
# Failures are remembered after their delay: for as long again, an hour at least.
_FAILURES_KEPT_MIN_S = 3600.0


@dataclass(slots=True)
class CachedRules:
    """Rules of an authority, or the lack of an answer, and until when they are valid."""

    rules: RobotsRules | Unreachable
    # Monotonic times: the end, and from when on rules that are still valid are fetched again.
    until: float
    refresh_from: float
    # The signal `robots_parsed` was sent for them.
    is_announced: bool = False

    @property
    def left_s(self) -> float:
        return self.until - monotonic()

    @property
    def memory_bytes(self) -> int:
        return self.rules.memory_bytes if isinstance(self.rules, RobotsRules) else 0


@dataclass(slots=True)
class RobotsLock:
    """Lock on one robots.txt: the right to fetch it, if `is_held`; else another process has it."""

    authority: str
    token: str
    is_held: bool
    # Rules that were known by then, in Redis or in memory; or the mark that they were forgotten.
    found: CachedRules | None = None
    mark: bytes = b""

    @property
    def key(self) -> str:
        return f"robots:lock:{self.authority}"

    @property
    def unlock(self) -> Command:
        """Command that does nothing if the lock expired and belongs to another process by now."""
        return ("EVAL", UNLOCK, 1, self.key, self.token)


@dataclass(slots=True)
class RobotsCache:
    """Rules by authority (scheme and host).

    Redis has what was fetched, for crawls of any name. The rules that a forbidden file (401, 403)
    stands for are those of each process.
    """

    redis: InitVar[Redis]
    # Product token.
    user_agent: str
    ttl_s: float = setting("ROBOTS_TTL")
    error_ttl_s: float = setting("ROBOTS_ERROR_TTL")
    size: int = setting("ROBOTS_CACHE_SIZE")
    forbidden_is: str = setting("ROBOTS_FORBIDDEN_IS")
    _recent: OrderedDict[str, CachedRules] = field(default_factory=OrderedDict, init=False)
    _recent_bytes: int = field(default=0, init=False)
    # How often something was forgotten.
    _forgotten: int = field(default=0, init=False)
    _commands: CommandBatcher = field(init=False)

    def __post_init__(self, redis: Redis) -> None:
        self._commands = CommandBatcher.for_client(redis)

    def recent(self, authority: str) -> CachedRules | None:
        """Return the valid rules in this process's memory, or None."""
        found = self._recent.get(authority)
        if found is None or found.left_s <= 0:
            return None
        self._recent.move_to_end(authority)
        return found

    def forget(self, authority: str | None) -> None:
        """Drop rules from memory, all of them without an authority: somebody forgot the file."""
        self._forgotten += 1
        for name in list(self._recent) if authority is None else [authority]:
            if (dropped := self._recent.pop(name, None)) is not None:
                self._recent_bytes -= dropped.memory_bytes
                # For requests that have them at hand.
                dropped.until = -math.inf

    async def find(self, authority: str) -> CachedRules | None:
        """Return the valid rules in Redis, or None, without a lock on the file."""
        forgotten = self._forgotten
        packed, left_ms = await self._commands.ask(*read_commands(authority))
        if mark_of(packed):
            self.forget(authority)
        return await self._read(authority, unpacked(packed, left_ms), forgotten)

    @asynccontextmanager
    async def locked(self, authority: str) -> AsyncIterator[RobotsLock]:
        """Try to lock a file, and read what is known of it in the same round trip."""
        lock = RobotsLock(authority, uuid.uuid4().hex, is_held=False)
        forgotten = self._forgotten
        taken, packed, left_ms = await self._commands.ask(
            ("SET", lock.key, lock.token, "NX", "PX", round(LOCK_S * 1000)),
            *read_commands(authority),
        )
        lock.is_held, lock.mark = bool(taken), mark_of(packed)
        try:
            if lock.mark:
                self.forget(authority)
            recent = self.recent(authority)
            if lock.is_held or recent is None:
                # Also without the lock: its holder may have done no more than read.
                lock.found = await self._read(authority, unpacked(packed, left_ms), forgotten)
            lock.found = lock.found or recent
            yield lock
        finally:
            if lock.is_held:
                with suppress(*RedisAway):
                    await self._commands.ask(lock.unlock)

    async def extend(self, lock: RobotsLock) -> None:
        """Keep a lock, if it has not expired, for another LOCK_S."""
        with suppress(*RedisAway):
            left_ms = round(LOCK_S * 1000)
            await self._commands.ask(("EVAL", LOCK_ON, 1, lock.key, lock.token, left_ms))

    async def put(
        self,
        authority: str,
        content: bytes | ForbiddenFile | Unreachable,
        *,
        status: int = 0,
        at_least_s: float = 0.0,
        cache_control: bytes | None = None,
        lock: RobotsLock | None = None,
    ) -> CachedRules | None:
        """Store what a fetch of robots.txt gave, and release its lock in the same round trip.

        Returns None, and stores nothing, if the file was forgotten during the fetch. `at_least_s`
        is what the host asked for with Retry-After. A host without an answer is left alone for
        longer each time, whichever process asks.
        """
        rules: RobotsRules | Unreachable
        if isinstance(content, Unreachable):
            rules, failures = content, 1
            with suppress(*RedisAway):
                before = unpacked(*await self._commands.ask(*read_commands(authority)))
                failures += before.failures if before is not None else 0
            record = RobotsRecord(reason=content.reason, failures=failures)
            backoff = Backoff(self.error_ttl_s, max(self.error_ttl_s, _ERROR_TTL_MAX_S))
            ttl_s = backoff.delay_s(failures)
        else:
            body = self._rules_text(content)
            record = RobotsRecord(body, is_forbidden=isinstance(content, ForbiddenFile))
            rules, ttl_s = await self._parse(body), rules_ttl_s(self.ttl_s, cache_control)
        # Spread, so that a fleet does not refresh all of them at once.
        ttl_s = max(ttl_s * (1 + random.uniform(-_JITTER, _JITTER)), at_least_s)
        # In memory first: this process must know them even while Redis is away.
        cached = self._remember(authority, rules, ttl_s, ttl_s)
        kept_s = max(ttl_s, _FAILURES_KEPT_MIN_S) if record.failures else 0.0
        commands = [
            store_command(
                authority,
                replace(record, status=status, ttl_ms=round(ttl_s * 1000)),
                kept_ms=round(kept_s * 1000),
                asked_ms=round(at_least_s * 1000),
                mark=b"" if lock is None else lock.mark,
            )
        ]
        if lock is not None:
            commands.append(lock.unlock)
        is_stored, *_ = await self._commands.ask(*commands)
        if lock is not None:
            lock.is_held = False
        if not is_stored:
            self.forget(authority)
            return None
        return cached

    def postpone_refresh(self, authority: str) -> None:
        """Try again later to refresh rules; they stay valid until they expire."""
        cached = self._recent.get(authority)
        if cached is not None:
            cached.refresh_from = monotonic() + self.error_ttl_s

    async def _read(
        self, authority: str, record: RobotsRecord | None, forgotten: int
    ) -> CachedRules | None:
        if record is None or record.left_ms <= 0:
            return None
        if record.reason:
            rules: RobotsRules | Unreachable = Unreachable(record.reason)
        elif record.is_forbidden:
            rules = await self._parse(self._rules_text(ForbiddenFile()))
        else:
            rules = await self._parse(record.body or b"")
        left_s, ttl_s = record.left_ms / 1000, record.ttl_ms / 1000
        if forgotten != self._forgotten:
            # Perhaps this file, since Redis was asked: the next URL asks again.
            return _cached(rules, left_s, ttl_s)
        return self._remember(authority, rules, left_s, ttl_s)

    def _rules_text(self, content: bytes | ForbiddenFile) -> bytes:
        if isinstance(content, ForbiddenFile):
            return FORBIDDEN_FILE_RULES[self.forbidden_is]
        return content[: MAX_BYTES + 1]

    async def _parse(self, body: bytes) -> RobotsRules:
        if len(body) > _PARSE_INLINE_BYTES:
            return await asyncio.to_thread(RobotsRules, body, self.user_agent)
        if len(body) > _SHARED_BYTES:
            return RobotsRules(body, self.user_agent)
        return _shared_rules(body, self.user_agent)

    def _remember(
        self, authority: str, rules: RobotsRules | Unreachable, left_s: float, ttl_s: float
    ) -> CachedRules:
        cached = _cached(rules, left_s, ttl_s)
        self._recent_bytes += cached.memory_bytes
        if (old := self._recent.pop(authority, None)) is not None:
            self._recent_bytes -= old.memory_bytes
        self._recent[authority] = cached
        while len(self._recent) > self.size or (
            self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1
        ):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.memory_bytes
        return cached


@lru_cache(_SHARED_FILES)
def _shared_rules(body: bytes, user_agent: str) -> RobotsRules:
    return RobotsRules(body, user_agent)


def _cached(rules: RobotsRules | Unreachable, left_s: float, ttl_s: float) -> CachedRules:
    until = monotonic() + left_s
    # What gave no answer is not asked for again before its time.
    is_file = isinstance(rules, RobotsRules)
    return CachedRules(rules, until, until - _EARLY * ttl_s if is_file else math.inf)
