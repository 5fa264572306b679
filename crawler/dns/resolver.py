"""Find the addresses of a host: in DNS_OVERRIDES, then in the fleet's cache, then by DNS.

The cache is in Redis for the fleet, its recent part in memory, and bounded. An answer is used for
its TTL, within limits; "no such name" for a minute. While DNS fails, expired answers are used for
up to a day. While DNS is down, a process looks up one name at a time. A lookup goes on for the next
caller if this one does not wait for it. Names of hosts that are fetched from soon are looked up
ahead, so that no fetch waits for DNS.

A name that no process knows is looked up by one of those that want it. The others wait for its
answer, in bounded time. The keys in Redis:

dns:<host>         string  addresses, packed; empty while people have it forgotten
{dns:<host>}:lock  string  token of the process that looks the name up; expires by itself
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple, Self, TypeGuard

import msgpack

from crawler import config
from crawler.dns import addresses
from crawler.dns.addresses import is_address, literal
from crawler.dns.lookup import DnsFailed, Lookup, NoSuchHost
from crawler.frontier import Frontier
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.connection import UNLOCK
from crawler.servers.redis.errors import RedisAway
from crawler.servers.redis.invalidation import invalidate
from crawler.util.backoff import Backoff
from crawler.util.breaker import CLOSED, Breaker
from crawler.util.file_limit import OutOfSockets
from crawler.util.packed import Damaged
from crawler.util.packed import unpacked as read_packed
from crawler.util.per_crawler import shared
from crawler.util.tasks import end

if TYPE_CHECKING:
    from redis.asyncio import Redis
    from scrapy.crawler import Crawler

    from crawler.scheduling.lease_pool import LeasePool
    from crawler.servers.redis.connection import Client

logger = logging.getLogger(__name__)

# Name of the cache in invalidations.
CACHE = "dns"
# A host that people forget has an empty record until every process knows that. Until then no answer
# is shared: it may be of a lookup that began before.
_MARK_MS = 3000
# Share an answer: KEYS[1] its key, ARGV[1] the answer, ARGV[2] the ms for which it is kept.
_SHARE = """
if redis.call('GET', KEYS[1]) ~= '' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
"""


class Resolver:
    """Source of addresses for all components of a crawl."""

    def __init__(
        self,
        overrides: Mapping[str, str],
        cache: DnsCache,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.cache = cache
        self._overrides = addresses.overrides(overrides)
        self._count = count

    @classmethod
    def of(cls, crawler: Crawler) -> Resolver:
        """Return the resolver that all components of a crawl share."""
        return shared(cls, crawler, lambda: cls.from_crawler(crawler))

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        assert crawler.stats is not None
        count = crawler.stats.inc_value
        lookup = Lookup(
            config.value(settings, "DNS_SERVERS"), lifetime_s=settings.getfloat("DNS_TIMEOUT")
        )
        cache = DnsCache(
            lookup,
            size=settings.getint("DNSCACHE_SIZE"),
            min_ttl_s=config.value(settings, "DNS_TTL_MIN"),
            max_ttl_s=config.value(settings, "DNS_TTL_MAX"),
            count=count,
        )
        return cls(config.value(settings, "DNS_OVERRIDES"), cache, count)

    def address(self, host: str) -> str | None:
        """Return the address that tells which hosts share a machine; None before a lookup."""
        name = host_name(host)
        if (override := self._override(name)) is not None:
            return override[0]
        # The least of several: DNS gives them in changing order.
        return literal(name) or min(self.cache.recent(name), default=None)

    async def look_up(self, host: str, *, wait_s: float | None = None) -> bool:
        """Make sure that the address of a host is known; raises NoSuchHost or DnsFailed.

        Returns False if that takes longer than `wait_s`. The lookup goes on then.
        """
        name = host_name(host)
        if self._override(name) is not None:
            self._count("dns/overridden")
        elif literal(name) is None:
            if wait_s is not None:
                return await self.cache.get_within(name, wait_s)
            await self.cache.get(name)
        return True

    def prefetch(self, hosts: Iterable[str]) -> list[str]:
        """Look up hosts in the background; return those that DNS must be asked for."""
        names = map(host_name, hosts)
        return self.cache.prefetch(
            name for name in names if self._override(name) is None and literal(name) is None
        )

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Return the addresses and ports to connect to; raises NoSuchHost or DnsFailed."""
        if is_address(host):
            return [(host, port)]
        name = host_name(host)
        if (override := self._override(name)) is not None:
            address, other_port = override
            return [(address, other_port or port)]
        return [(address, port) for address in await self.cache.get(name, counted=False)]

    async def close(self) -> None:
        await self.cache.close()

    def _override(self, host: str) -> tuple[str, int] | None:
        return addresses.override_of(self._overrides, host)


def host_name(host: str) -> str:
    """Return the name by which the cache knows a host."""
    return host.lower().removesuffix(".")


_NEGATIVE_S = 60.0
_STALE_S = 86_400.0
# Seconds for which an expired answer is used before DNS is asked again.
_STALE_HOLD_S = 30.0
# An answer that is used in the last tenth of its TTL is renewed in the background.
_RENEW_SHARE = 0.1
# By more than this an answer in Redis ends later than the one in memory, if it is another one.
_SAME_S = 1.0
_PREFETCH_MAX = 64
_SLOW_MAX = 1000
# Seconds for which the failure of a slow lookup counts.
_SLOW_FAILED_S = 60.0
# Seconds for which a name is locked. Most answers take a hundredth of it. If they take longer, or
# the process that has the lock dies, another one asks too.
_LOCK_S = 2.0
# Seconds between two looks for the answer of another process. After the last one a process asks for
# itself. They take longer than a lock, so that one process takes over from one that died.
_LOOKS_S = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5)
# While DNS is down, one lookup a second finds out whether it is back.
_PROBES = Backoff(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Record:
    """Answer in the cache. One without addresses says that the name does not exist."""

    addresses: tuple[str, ...]
    fresh_until: float
    usable_until: float
    renew_at: float
    stale: bool = False


@dataclass(slots=True)
class _Turn:
    """Turn of this process to look a name up, if it has the lock; and what Redis has by then."""

    host: str
    token: str
    is_locked: bool = False
    shared: _Record | None = None

    @property
    def key(self) -> str:
        # In the slot of the answer.
        return f"{{{_key(self.host)}}}:lock"

    @property
    def lock(self) -> Command:
        return ("SET", self.key, self.token, "NX", "PX", round(_LOCK_S * 1000))

    @property
    def unlock(self) -> Command:
        """Command that does nothing if the lock expired and belongs to another process by now."""
        return ("EVAL", UNLOCK, 1, self.key, self.token)


class DnsCache:
    """Cache over a `Lookup`; answers are shared once `redis` is set.

    TTLs below `min_ttl_s` and above `max_ttl_s` are not believed.
    """

    def __init__(
        self,
        lookup: Lookup,
        *,
        size: int,
        min_ttl_s: float,
        max_ttl_s: float,
        breaker: Breaker | None = None,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.redis: Redis | None = None
        # Number of answers from DNS, "no such name" included. It grows only while DNS works.
        self.answers = 0
        self._lookup = lookup
        self._size = size
        self._min_ttl_s = min_ttl_s
        self._max_ttl_s = max_ttl_s
        self._breaker = breaker or Breaker(8, within_s=30.0, backoff=_PROBES)
        self._count = count
        self._recent: OrderedDict[str, _Record] = OrderedDict()
        self._in_flight: dict[str, asyncio.Task[_Record | None]] = {}
        # Hosts whose lookups a caller did not wait for, and until when failures of such count.
        self._slow: set[str] = set()
        self._slow_failed: OrderedDict[str, float] = OrderedDict()
        # Hosts that were forgotten while they are looked up: the answer may be the old one.
        self._outdated: set[str] = set()

    def recent(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host that are in memory, even if they are expired."""
        record = self._recent.get(host)
        return () if record is None else record.addresses

    async def get(self, host: str, *, counted: bool = True) -> tuple[str, ...]:
        """Return the addresses of a host; raises NoSuchHost or DnsFailed.

        An answer from memory is counted in the stats only if `counted`.
        """
        record = self._recent.get(host)
        now = monotonic()
        if record is None or now >= record.fresh_until:
            # Shielded: the lookup goes on for other callers if this one is cancelled.
            record = await asyncio.shield(self._find_once(host))
        elif counted:
            self._count("dns/stale" if record.stale else "dns/hits")
            self._recent.move_to_end(host)
            if now >= record.renew_at:
                self.prefetch([host])
        return _addresses(host, record)

    async def get_within(self, host: str, wait_s: float) -> bool:
        """Return whether the addresses of a host are known after `wait_s` seconds at most.

        Raises NoSuchHost or DnsFailed. If a lookup fails that nobody waited for, the next call
        raises its failure.
        """
        record, now = self._recent.get(host), monotonic()
        if record is not None and now < record.fresh_until:
            await self.get(host)
            return True
        if host in self._slow:
            return False
        if now < self._slow_failed.pop(host, 0.0):
            _addresses(host, None)
        lookup = self._find_once(host)
        await asyncio.wait([lookup], timeout=wait_s)
        if not lookup.done() and len(self._slow) < _SLOW_MAX:
            self._slow.add(host)
            return False
        _addresses(host, await asyncio.shield(lookup))
        return True

    def prefetch(self, hosts: Iterable[str]) -> list[str]:
        """Look up hosts in the background if their answers are missing or expire soon.

        Returns those that are looked up: none while DNS is down, since fetches find out when it
        is back.
        """
        now, started = monotonic(), []
        for host in hosts:
            if self._breaker.state != CLOSED or len(self._in_flight) >= _PREFETCH_MAX:
                break
            record = self._recent.get(host)
            if (record is None or now >= record.renew_at) and host not in self._in_flight:
                self._find_once(host)
                started.append(host)
        return started

    def forget(self, host: str | None) -> None:
        """Drop what is in memory of a host, or of all hosts: somebody forgot it."""
        if host is None:
            self._recent.clear()
            self._slow_failed.clear()
            self._outdated.update(self._in_flight)
            return
        self._recent.pop(host, None)
        self._slow_failed.pop(host, None)
        if host in self._in_flight:
            self._outdated.add(host)

    async def close(self) -> None:
        """Cancel the lookups that are still running."""
        tasks = list(self._in_flight.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- looking up ----------------------------------------------------------------------------

    def _find_once(self, host: str) -> asyncio.Task[_Record | None]:
        task = self._in_flight.get(host)
        if task is None:
            task = self._in_flight[host] = asyncio.create_task(self._find(host))
            task.add_done_callback(lambda task: self._found(host, task))
        return task

    def _found(self, host: str, task: asyncio.Task[_Record | None]) -> None:
        self._in_flight.pop(host, None)
        self._outdated.discard(host)
        # The exception is retrieved in any case: asyncio logs those that are not.
        has_failed = not task.cancelled() and task.exception() is None and task.result() is None
        if host in self._slow:
            self._slow.discard(host)
            if has_failed:
                self._slow_failed[host] = monotonic() + _SLOW_FAILED_S
                if len(self._slow_failed) > _SLOW_MAX:
                    self._slow_failed.popitem(last=False)

    async def _find(self, host: str) -> _Record | None:
        """Find the best answer for a host: fresh, or expired if DNS fails; None without any."""
        local = self._lookup.local(host)
        if local is not None:
            return self._remember(host, self._record(local, self._min_ttl_s))
        async with self._turn(host) as turn:
            if self._is_news(turn.shared, host):
                self._count("dns/hits")
                return self._remember(host, turn.shared)
            return await self._ask(turn)

    async def _ask(self, turn: _Turn) -> _Record | None:
        """Ask DNS for a name, and share the answer."""
        host, shared, old = turn.host, turn.shared, self._recent.get(turn.host)
        if not self._breaker.enter(monotonic()):
            return self._stale(host, old, shared)
        self._count("dns/misses")
        try:
            answer = await self._lookup.ask(host)
        except NoSuchHost:
            self._works()
            self._count("dns/nxdomain")
            record = self._record((), _NEGATIVE_S)
        except DnsFailed as error:
            self._fails(error)
            return self._stale(host, old, shared)
        except OutOfSockets:
            # The shortage is this process's own: DNS is not to blame.
            self._breaker.left()
            known = self._stale(host, old, shared)
            if known is None:
                raise
            return known
        except BaseException:
            self._breaker.left()
            raise
        else:
            self._works()
            ttl_s = min(max(answer.ttl_s, self._min_ttl_s), self._max_ttl_s)
            record = self._record(answer.addresses, ttl_s)
        self._remember(host, record)
        await self._share(turn, record)
        return record

    @asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[_Turn]:
        """Read what Redis has of a name. If that is of no use, lock the name or wait for others."""
        turn = _Turn(host, uuid.uuid4().hex)
        if self.redis is not None:
            try:
                await self._wait_for_turn(turn, CommandBatcher.for_client(self.redis))
            except RedisAway as error:
                logger.debug("Cannot read the address of %s from Redis: %s", host, error)
        try:
            yield turn
        finally:
            if turn.is_locked and self.redis is not None:
                with suppress(*RedisAway):
                    await CommandBatcher.for_client(self.redis).ask(turn.unlock)

    async def _wait_for_turn(self, turn: _Turn, redis: CommandBatcher) -> None:
        read = _read_commands(turn.host)
        turn.shared = self._as_record(*await redis.ask(*read))
        # While DNS is down here, one lookup at a time finds out whether it is back.
        if self._is_news(turn.shared, turn.host) or self._breaker.state != CLOSED:
            return
        for look, pause_s in enumerate((*_LOOKS_S, 0.0)):
            taken, *answer = await redis.ask(turn.lock, *read)
            turn.is_locked, turn.shared = bool(taken), self._as_record(*answer)
            is_news = self._is_news(turn.shared, turn.host)
            if is_news and look:
                self._count("dns/awaited")
            if turn.is_locked or is_news:
                return
            await asyncio.sleep(pause_s)

    def _is_news(self, shared: _Record | None, host: str) -> TypeGuard[_Record]:
        """Tell whether the answer in Redis is of use: fresh, and not the one that is renewed."""
        if shared is None or monotonic() >= shared.fresh_until:
            return False
        own = self._recent.get(host)
        return own is None or own.stale or shared.fresh_until > own.fresh_until + _SAME_S

    def _stale(self, host: str, *known: _Record | None) -> _Record | None:
        now = monotonic()
        usable = [r for r in known if r is not None and r.addresses and now < r.usable_until]
        if not usable:
            return None
        self._count("dns/stale")
        found = max(usable, key=lambda record: record.usable_until)
        hold_until = now + min(_STALE_HOLD_S, self._min_ttl_s)
        # usable_until stays, so that the answer still ends after a day.
        fresh_until = max(found.fresh_until, hold_until)
        return self._remember(
            host,
            replace(
                found, fresh_until=fresh_until, renew_at=fresh_until, stale=now >= found.fresh_until
            ),
        )

    def _works(self) -> None:
        self.answers += 1
        if self._breaker.worked():
            logger.info("DNS answers again")

    def _fails(self, error: DnsFailed) -> None:
        self._count("dns/errors")
        if self._breaker.failed(monotonic()):
            logger.warning("DNS does not answer; hosts without a known address wait: %s", error)

    # --- keeping -------------------------------------------------------------------------------

    @staticmethod
    def _record(addresses: tuple[str, ...], ttl_s: float, usable_s: float | None = None) -> _Record:
        now = monotonic()
        if usable_s is None:
            usable_s = ttl_s + _STALE_S
        return _Record(addresses, now + ttl_s, now + usable_s, now + ttl_s * (1 - _RENEW_SHARE))

    def _remember(self, host: str, record: _Record) -> _Record:
        if host in self._outdated:
            return record
        self._recent[host] = record
        self._recent.move_to_end(host)
        while len(self._recent) > self._size:
            self._recent.popitem(last=False)
        return record

    def _as_record(self, packed: bytes | None, left_ms: int) -> _Record | None:
        found = _shared_answer(packed, left_ms)
        return None if found is None else self._record(*found)

    async def _share(self, turn: _Turn, record: _Record) -> None:
        host = turn.host
        if self.redis is None or host in self._outdated:
            return
        # The key lives as long as the answer is usable, so its PTTL shows the age of the answer.
        until = record.usable_until if record.addresses else record.fresh_until
        left_ms = round((until - monotonic()) * 1000)
        try:
            if left_ms > 0:
                packed = msgpack.packb(record.addresses)
                command = ("EVAL", _SHARE, 1, _key(host), packed, left_ms)
                unlock = (turn.unlock,) if turn.is_locked else ()
                await CommandBatcher.for_client(self.redis).ask(command, *unlock)
                turn.is_locked = False
        except RedisAway as error:
            logger.debug("Cannot share the address of %s: %s", host, error)


class SharedAnswer(NamedTuple):
    """Answer in Redis: for how many seconds it is fresh, and usable while DNS fails.

    Without addresses, it says that the name does not exist.
    """

    addresses: tuple[str, ...]
    fresh_s: float
    usable_s: float


async def read(redis: Client, host: str) -> SharedAnswer | None:
    """Return the answer that all processes know; None if there is none."""
    return _shared_answer(*await CommandBatcher.for_client(redis).ask(*_read_commands(host)))


def _read_commands(host: str) -> tuple[Command, Command]:
    return ("GET", _key(host)), ("PTTL", _key(host))


def _shared_answer(packed: bytes | None, left_ms: int) -> SharedAnswer | None:
    if not packed or left_ms <= 0:
        return None
    try:
        given = read_packed(packed)
    except Damaged:
        return None
    # Redis may be shared: what is no address is not connected to.
    if not isinstance(given, list) or not all(map(_is_address, given)):
        return None
    found = tuple(given)
    usable_s = left_ms / 1000
    return SharedAnswer(found, usable_s - (_STALE_S if found else 0), usable_s)


def _is_address(value: object) -> bool:
    return isinstance(value, str) and is_address(value)


async def forget(redis: Client, host: str) -> None:
    """Forget a host, in Redis and in the memory of every process: it is looked up anew."""
    await CommandBatcher.for_client(redis).ask(("SET", _key(host), "", "PX", _MARK_MS))
    await invalidate(redis, CACHE, [host])


def _key(host: str) -> str:
    return f"dns:{host}"


def _addresses(host: str, record: _Record | None) -> tuple[str, ...]:
    """Return the addresses of a record; raises NoSuchHost, or DnsFailed without a record."""
    if record is None:
        raise DnsFailed(f"DNS gives no answer for {host}")
    if not record.addresses:
        raise NoSuchHost(f"{host} has no address")
    return record.addresses


# Seconds between two shards; more while no shard has hosts. If many names are new, as with a list
# of seeds, the pause is shorter and more hosts are read.
_EVERY_S = 0.5
_IDLE_S = 2.0
_SOON_S = 0.1
_WITHIN_MS = 3000
_HOSTS_MIN, _HOSTS_MAX = 32, 256
_AHEAD_A_NAME = 16
# Least seconds between two lookups of a name here: a name that DNS does not answer is left to its
# fetch.
_AGAIN_S = 30.0
_ASKED_MAX = 10_000


class DnsPrefetch:
    """Background task that fills the resolver's cache."""

    def __init__(
        self,
        resolver: Resolver,
        frontier: Frontier,
        lease_pool: LeasePool,
        count: Callable[[str, int], None],
    ) -> None:
        self._resolver = resolver
        self._frontier = frontier
        self._lease_pool = lease_pool
        self._count = count
        self._asked: OrderedDict[str, float] = OrderedDict()
        self._ahead = _HOSTS_MIN
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the task, if it was started."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        empty = 0
        for turn in count():
            order = self._lease_pool.shards.own or self._lease_pool.shards.others
            try:
                empty = 0 if await self.prefetch_shard(order[turn % len(order)]) else empty + 1
            except RedisAway as error:
                logger.debug("Cannot read the hosts that are next: %s", error)
            except Exception:
                # Fetches look names up too, so nothing depends on this task.
                logger.exception("Looking up names ahead failed; trying again")
            pause = _EVERY_S if empty < len(order) else _IDLE_S
            await asyncio.sleep(_SOON_S if self._ahead > _HOSTS_MIN else pause)

    async def prefetch_shard(self, shard: int) -> bool:
        """Look up the hosts that are next in a shard; return whether there are any."""
        most, self._ahead = self._ahead, _HOSTS_MIN
        hosts = await self._frontier.upcoming_hosts(shard, within_ms=_WITHIN_MS, most=most)
        now = monotonic()
        new = [host for host in hosts if self._asked.get(host, 0.0) <= now]
        started = self._resolver.prefetch(new)
        for host in started:
            self._asked[host] = now + _AGAIN_S
            self._asked.move_to_end(host)
        while len(self._asked) > _ASKED_MAX:
            self._asked.popitem(last=False)
        self._ahead = min(max(_HOSTS_MIN, _AHEAD_A_NAME * len(started)), _HOSTS_MAX)
        if started:
            self._count("dns/prefetched", len(started))
        return bool(hosts)
