"""Rules of robots.txt files: in Redis for the fleet, and the recent ones in memory. Bounded.

robots:<authority>       string  body, withheld or reason, failures, and for how long; msgpack
robots:lock:<authority>  string  who fetches it; expires by itself
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgpack
import zstandard

from crawler.robots.rules import (
    MAX_BYTES,
    WITHHELD_IS,
    RobotsRules,
    Unreachable,
    Withheld,
    error_wait_s,
    rules_ttl_s,
)
from crawler.servers.redis.batching import Command, CommandBatcher
from crawler.servers.redis.connection import LOCK_ON, UNLOCK
from crawler.servers.redis.errors import RedisAway

if TYPE_CHECKING:
    from redis.asyncio import Redis

# Parsing takes about 27 µs a rule: larger files are parsed in a thread.
_PARSE_INLINE_BYTES = 16 * 1024
# Many hosts of a platform have the same short file.
_SHARED_BYTES = 1024
_SHARED_FILES = 1000
# Of files in memory; read, one takes up to fifty times as much.
_RECENT_BYTES = 16 * 1024 * 1024
_JITTER = 0.1
# Rules with less than this share of their time left are fetched again ahead of it.
_EARLY = 0.05
# Failures are remembered so much longer than their wait: a wait as long, an hour at the least.
_FAILURES_KEPT_MIN_S = 3600.0
# Made once: that takes 25 times as long as packing a short file does. Used by this thread alone.
_PACKER, _UNPACKER = zstandard.ZstdCompressor(), zstandard.ZstdDecompressor()


@dataclass(slots=True)
class CachedRules:
    """What is known of an authority, and until when (monotonic)."""

    rules: RobotsRules | Unreachable
    until: float
    # From when on they may be fetched again, though they hold.
    refresh_from: float
    # Whoever follows sitemaps has heard of them.
    is_told: bool = False

    @property
    def left_s(self) -> float:
        return self.until - monotonic()

    @property
    def size_bytes(self) -> int:
        return 0 if isinstance(self.rules, Unreachable) else self.rules.size_bytes

    @property
    def is_old(self) -> bool:
        """Do they hold, and should be fetched again?"""
        return monotonic() >= self.refresh_from


class RobotsCache:
    """Look up and keep the rules of an authority.

    Redis has what was found, for crawls of any name; what a `withheld` file stands for, as the
    body of its rules, is for each process to say.
    """

    def __init__(
        self,
        redis: Redis,
        user_agent: str,
        *,
        ttl_s: float,
        error_ttl_s: float,
        size: int,
        withheld: bytes = WITHHELD_IS["allow"],
    ) -> None:
        self._trips = CommandBatcher.of(redis)
        self._user_agent = user_agent
        self._ttl_s = ttl_s
        self._error_ttl_s = error_ttl_s
        self._size = size
        self._withheld = withheld
        self._recent: OrderedDict[str, CachedRules] = OrderedDict()
        self._recent_bytes = 0

    def recent(self, authority: str) -> CachedRules | None:
        """What this process knows of an authority by itself, or None."""
        found = self._recent.get(authority)
        if found is None or found.left_s <= 0:
            return None
        self._recent.move_to_end(authority)
        return found

    async def get(self, authority: str) -> CachedRules | None:
        """What is known of an authority, or None."""
        found = self.recent(authority)
        if found is not None:
            return found
        return await self._known(authority, *await self._read(authority))

    async def _known(
        self, authority: str, record: dict[str, Any] | None, left_ms: int
    ) -> CachedRules | None:
        if record is None or left_ms <= record["kept_ms"]:
            return None
        if record["reason"]:
            rules: RobotsRules | Unreachable = Unreachable(record["reason"])
        elif record.get("withheld"):
            rules = await self._parse(self._withheld)
        else:
            text = _UNPACKER.decompress(record["body"], max_output_size=2 * MAX_BYTES)
            rules = await self._parse(text)
        left_s = (left_ms - record["kept_ms"]) / 1000
        return self._remember(authority, rules, left_s, record["ttl_ms"] / 1000)

    async def put(
        self,
        authority: str,
        answer: bytes | Withheld | Unreachable,
        *,
        at_least_s: float = 0.0,
        cache_control: bytes | None = None,
        token: str = "",
    ) -> CachedRules:
        """Keep what a fetch of robots.txt gave; with the `token` of its lock, unlock it too.

        `at_least_s` is what the host asked for with Retry-After. A host without an answer is left
        alone for longer each time, whichever process asks.
        """
        rules: RobotsRules | Unreachable
        record: dict[str, Any] = {"body": b"", "reason": "", "failures": 0, "kept_ms": 0}
        if isinstance(answer, Unreachable):
            rules = answer
            with suppress(*RedisAway):
                before, _ = await self._read(authority)
                record["failures"] = before["failures"] if before is not None else 0
            record["reason"] = answer.reason
            record["failures"] += 1
            ttl_s = error_wait_s(self._error_ttl_s, record["failures"])
        else:
            record["withheld"] = isinstance(answer, Withheld)
            body = self._withheld if isinstance(answer, Withheld) else answer[: MAX_BYTES + 1]
            rules, ttl_s = await self._parse(body), rules_ttl_s(self._ttl_s, cache_control)
            record["body"] = _PACKER.compress(body)
        # Spread, so that a fleet does not ask for all of them again at once.
        ttl_s = max(ttl_s * (1 + random.uniform(-_JITTER, _JITTER)), at_least_s)
        if record["failures"]:
            record["kept_ms"] = round(max(ttl_s, _FAILURES_KEPT_MIN_S) * 1000)
        record["ttl_ms"] = round(ttl_s * 1000)
        # In memory first: this process must know them even while Redis is away.
        known = self._remember(authority, rules, ttl_s, ttl_s)
        lasts_ms = record["ttl_ms"] + record["kept_ms"]
        commands: list[Command] = [("SET", _key(authority), msgpack.packb(record), "PX", lasts_ms)]
        if token:
            commands.append(("EVAL", UNLOCK, 1, _lock(authority), token))
        await self._trips.ask(*commands)
        return known

    def put_off(self, authority: str) -> None:
        """Old rules could not be fetched again: they hold to their end, ask later."""
        known = self._recent.get(authority)
        if known is not None:
            known.refresh_from = monotonic() + self._error_ttl_s

    async def lock(self, authority: str, seconds: float) -> tuple[str | None, CachedRules | None]:
        """A token if this process may fetch the file, and what Redis knows of it by then.

        Nobody else fetches it for so long, or until `unlock`. Who gets no token and knows nothing
        is told what is known too: whoever has the lock may have done no more than look.
        """
        token = uuid.uuid4().hex
        taken, packed, left_ms = await self._trips.ask(
            ("SET", _lock(authority), token, "NX", "PX", round(seconds * 1000)),
            *_read_commands(authority),
        )
        if not taken and self.recent(authority) is not None:
            return None, None
        known = await self._known(authority, *_record(packed, left_ms))
        return token if taken else None, known

    async def lock_on(self, authority: str, token: str, seconds: float) -> None:
        """The fetch goes on: from now on the lock, if it is still ours, holds for so long."""
        with suppress(*RedisAway):
            left_ms = round(seconds * 1000)
            await self._trips.ask(("EVAL", LOCK_ON, 1, _lock(authority), token, left_ms))

    async def unlock(self, authority: str, token: str) -> None:
        """The fetch ended. A lock that expired and is another's by now stays."""
        with suppress(*RedisAway):
            await self._trips.ask(("EVAL", UNLOCK, 1, _lock(authority), token))

    async def _read(self, authority: str) -> tuple[dict[str, Any] | None, int]:
        """The record in Redis, and the milliseconds it is still kept for."""
        return _record(*await self._trips.ask(*_read_commands(authority)))

    async def _parse(self, body: bytes) -> RobotsRules:
        if len(body) > _PARSE_INLINE_BYTES:
            return await asyncio.to_thread(RobotsRules, body, self._user_agent)
        if len(body) > _SHARED_BYTES:
            return RobotsRules(body, self._user_agent)
        return _shared_rules(body, self._user_agent)

    def _remember(
        self, authority: str, rules: RobotsRules | Unreachable, left_s: float, ttl_s: float
    ) -> CachedRules:
        until = monotonic() + left_s
        early_s = 0.0 if isinstance(rules, Unreachable) else _EARLY * ttl_s
        known = CachedRules(rules, until, until - early_s)
        self._recent_bytes += known.size_bytes
        if (old := self._recent.pop(authority, None)) is not None:
            self._recent_bytes -= old.size_bytes
        self._recent[authority] = known
        while len(self._recent) > self._size or (
            self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1
        ):
            _, oldest = self._recent.popitem(last=False)
            self._recent_bytes -= oldest.size_bytes
        return known


@lru_cache(_SHARED_FILES)
def _shared_rules(body: bytes, user_agent: str) -> RobotsRules:
    return RobotsRules(body, user_agent)


def _read_commands(authority: str) -> tuple[Command, Command]:
    key = _key(authority)
    return ("GET", key), ("PTTL", key)


def _record(packed: bytes | None, left_ms: int) -> tuple[dict[str, Any] | None, int]:
    if packed is None or left_ms <= 0:
        return None, 0
    record = msgpack.unpackb(packed)
    return (record, left_ms) if isinstance(record, dict) else (None, 0)


def _key(authority: str) -> str:
    return f"robots:{authority}"


def _lock(authority: str) -> str:
    return f"robots:lock:{authority}"
