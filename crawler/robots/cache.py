"""Cache the rules of robots.txt files: in Redis for the fleet, the recent ones in memory. Bounded.

robots:<authority>       string  body, whether it was a 401 or 403, reason and number of failures,
                                 and how long it is valid; msgpack
robots:lock:<authority>  string  token of the process that fetches the file; expires by itself
"""

from __future__ import annotations

import asyncio
import math
import random
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgpack
import zstandard

from crawler.config.values import setting
from crawler.robots.rules import (
    FORBIDDEN_FILE_RULES,
    MAX_BYTES,
    ForbiddenFile,
    RobotsRules,
    Unreachable,
    rules_ttl_s,
)
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.connection import LOCK_ON, UNLOCK
from crawler.servers.redis.errors import RedisAway
from crawler.util.backoff import Backoff

if TYPE_CHECKING:
    from redis.asyncio import Redis

# A lock is extended with each redirect. Not longer, for the URLs of the host wait for it if its
# holder dies.
LOCK_S = 20.0
# Parsing takes about 27 µs a rule: larger files are parsed in a thread.
_PARSE_INLINE_BYTES = 16 * 1024
# Many hosts of a platform have the same short file.
_SHARED_BYTES = 1024
_SHARED_FILES = 1000
# Limit of the files in memory; a parsed one takes up to fifty times as much.
_RECENT_BYTES = 16 * 1024 * 1024
_JITTER = 0.1
# The delay after failures in a row grows up to a day.
_ERROR_TTL_MAX_S = 86_400.0
# Rules with less than this share of their time left are refreshed.
_EARLY = 0.05
# Failures are remembered after their delay: for as long again, an hour at least.
_FAILURES_KEPT_MIN_S = 3600.0
# Made once: that takes 25 times as long as packing a short file. Used by this thread alone.
_PACKER, _UNPACKER = zstandard.ZstdCompressor(), zstandard.ZstdDecompressor()


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
    def size_bytes(self) -> int:
        return self.rules.size_bytes if isinstance(self.rules, RobotsRules) else 0


@dataclass(slots=True)
class RobotsLock:
    """Lock on one robots.txt: the right to fetch it, if `is_held`; else another process has it."""

    authority: str
    token: str
    is_held: bool
    # Rules that were known by then, in Redis or in memory.
    found: CachedRules | None = None

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

    @asynccontextmanager
    async def locked(self, authority: str) -> AsyncIterator[RobotsLock]:
        """Try to lock a file, and read what is known of it in the same round trip."""
        lock = RobotsLock(authority, uuid.uuid4().hex, is_held=False)
        taken, packed, left_ms = await self._commands.ask(
            ("SET", lock.key, lock.token, "NX", "PX", round(LOCK_S * 1000)),
            *_read_commands(authority),
        )
        lock.is_held = bool(taken)
        try:
            recent = self.recent(authority)
            if lock.is_held or recent is None:
                # Also without the lock: its holder may have done no more than read.
                lock.found = await self._read(authority, *_record(packed, left_ms))
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
        at_least_s: float = 0.0,
        cache_control: bytes | None = None,
        lock: RobotsLock | None = None,
    ) -> CachedRules:
        """Store what a fetch of robots.txt gave, and release its lock in the same round trip.

        `at_least_s` is what the host asked for with Retry-After. A host without an answer is left
        alone for longer each time, whichever process asks.
        """
        rules: RobotsRules | Unreachable
        record: dict[str, Any] = {"body": b"", "reason": "", "failures": 0, "kept_ms": 0}
        if isinstance(content, Unreachable):
            rules = content
            with suppress(*RedisAway):
                before, _ = _record(*await self._commands.ask(*_read_commands(authority)))
                record["failures"] = before["failures"] if before is not None else 0
            record["reason"] = content.reason
            record["failures"] += 1
            backoff = Backoff(self.error_ttl_s, max(self.error_ttl_s, _ERROR_TTL_MAX_S))
            ttl_s = backoff.delay_s(record["failures"])
        else:
            record["withheld"] = isinstance(content, ForbiddenFile)
            body = self._rules_text(content)
            rules, ttl_s = await self._parse(body), rules_ttl_s(self.ttl_s, cache_control)
            record["body"] = _PACKER.compress(body)
        # Spread, so that a fleet does not refresh all of them at once.
        ttl_s = max(ttl_s * (1 + random.uniform(-_JITTER, _JITTER)), at_least_s)
        if record["failures"]:
            record["kept_ms"] = round(max(ttl_s, _FAILURES_KEPT_MIN_S) * 1000)
        record["ttl_ms"] = round(ttl_s * 1000)
        # In memory first: this process must know them even while Redis is away.
        cached = self._remember(authority, rules, ttl_s, ttl_s)
        expires_ms = record["ttl_ms"] + record["kept_ms"]
        commands: list[Command] = [
            ("SET", f"robots:{authority}", msgpack.packb(record), "PX", expires_ms)
        ]
        if lock is not None:
            commands.append(lock.unlock)
        await self._commands.ask(*commands)
        if lock is not None:
            lock.is_held = False
        return cached

    def postpone_refresh(self, authority: str) -> None:
        """Try again later to refresh rules; they stay valid until they expire."""
        cached = self._recent.get(authority)
        if cached is not None:
            cached.refresh_from = monotonic() + self.error_ttl_s

    async def _read(
        self, authority: str, record: dict[str, Any] | None, left_ms: int
    ) -> CachedRules | None:
        if record is None or left_ms <= record["kept_ms"]:
            return None
        if record["reason"]:
            rules: RobotsRules | Unreachable = Unreachable(record["reason"])
        elif record.get("withheld"):
            rules = await self._parse(self._rules_text(ForbiddenFile()))
        else:
            text = _UNPACKER.decompress(record["body"], max_output_size=2 * MAX_BYTES)
            rules = await self._parse(text)
        left_s = (left_ms - record["kept_ms"]) / 1000
        return self._remember(authority, rules, left_s, record["ttl_ms"] / 1000)

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
        until = monotonic() + left_s
        # What gave no answer is not asked for again before its time.
        is_file = isinstance(rules, RobotsRules)
        cached = CachedRules(rules, until, until - _EARLY * ttl_s if is_file else math.inf)
        self._recent_bytes += cached.size_bytes
        if (old := self._recent.pop(authority, None)) is not None:
            self._recent_bytes -= old.size_bytes
        self._recent[authority] = cached
        while len(self._recent) > self.size or (
            self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1
        ):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size_bytes
        return cached


@lru_cache(_SHARED_FILES)
def _shared_rules(body: bytes, user_agent: str) -> RobotsRules:
    return RobotsRules(body, user_agent)


def _read_commands(authority: str) -> tuple[Command, Command]:
    key = f"robots:{authority}"
    return ("GET", key), ("PTTL", key)


def _record(packed: bytes | None, left_ms: int) -> tuple[dict[str, Any] | None, int]:
    if packed is None or left_ms <= 0:
        return None, 0
    record = msgpack.unpackb(packed)
    return (record, left_ms) if isinstance(record, dict) else (None, 0)
