"""The fleet's figures in Redis: totals of the crawl, and one hash a minute for the last two hours.

A process adds what it counted since its last acknowledged beat. When a reply is lost, the same
difference is sent again: the figures of that one beat (two seconds of one process) may then count
twice. Nothing is ever missed but what a killed process counted after its last beat.

`read` gives the figures of the whole crawl: totals, the last minutes, what its processes say.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import keys
from crawler.frontier.meta import stored_shards
from crawler.frontier.shards import shard_time_ms, tags
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import executed

# Three beats.
_SILENT_S = 6.0


@dataclass(frozen=True, slots=True)
class Minute:
    """What all processes counted in one minute."""

    at_s: int
    figures: dict[str, int]


@dataclass(frozen=True, slots=True)
class Fleet:
    """A crawl in numbers."""

    totals: dict[str, int] = field(default_factory=dict)
    # The oldest first; the last one is not over.
    minutes: list[Minute] = field(default_factory=list)
    # Name -> what it says of itself, and for how many seconds it has been silent (`silent_s`).
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sum(self, minutes: int) -> dict[str, int]:
        """The figures of the last so many minutes."""
        found: dict[str, int] = {}
        for minute in self.minutes[-minutes:]:
            for name, count in minute.figures.items():
                found[name] = found.get(name, 0) + count
        return found


async def read(
    redis: Client, crawl: str, *, minutes: int = 60, now_s: float | None = None
) -> Fleet:
    """The figures of a crawl; all empty for one that does not exist."""
    ledger = Ledger(redis, crawl)
    now_s = time.time() if now_s is None else now_s
    found = await ledger.minutes(minutes, now_s=now_s)
    return Fleet(
        totals=await ledger.totals(),
        minutes=[Minute(at_s, figures) for at_s, figures in found],
        instances=await instances(redis, crawl),
    )


async def instances(redis: Client, crawl: str) -> dict[str, dict[str, Any]]:
    """What the processes of a crawl say of themselves, as in Fleet."""
    tag = tags(crawl, await stored_shards(redis, crawl) or 1)[0]
    said = await redis.hgetall(keys.instances(tag))
    # Not those whose leases are being taken back: they are dead, whatever they say of themselves.
    beats = dict(await redis.zrangebyscore(keys.owners(tag), "(0", "+inf", withscores=True))
    now_ms = await shard_time_ms(redis, tag)
    return {
        name.decode(): {
            **json.loads(about),
            "silent_s": round(max(0.0, now_ms - beats.get(name, 0.0)) / 1000, 1),
        }
        for name, about in said.items()
        if name in beats
    }


def silent_line(found: Mapping[str, Mapping[str, Any]], lease_ttl_s: float) -> str:
    """What to say of instances that died: for a while most of what is to do may be theirs."""
    silent = [about for about in found.values() if about["silent_s"] > _SILENT_S]
    held = sum(about.get("held") or 0 for about in silent)
    if not held:
        return ""
    return (
        f"URLs held by processes that do not answer ({len(silent):,}): {held:,}; they come back "
        f"{lease_ttl_s:g} s after the last sign of life (LEASE_TTL)"
    )


MINUTE_S = 60
KEPT_S = 2 * 60 * MINUTE_S
MINUTES_MAX = KEPT_S // MINUTE_S


class Ledger:
    """One crawl's figures."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._acknowledged: dict[str, int] = {}

    async def add(self, figures: Mapping[str, int], *, now_s: float) -> None:
        """Add what a process counted since it last got through; `figures` are since its start."""
        grown = {
            name: by
            for name, count in figures.items()
            if (by := count - self._acknowledged.get(name, 0))
        }
        if not grown:
            return
        totals = keys.totals(self._crawl)
        minute = keys.minute(self._crawl, int(now_s) // MINUTE_S)
        # All keys are in one slot: on one server this is a transaction.
        pipeline = self._redis.pipeline()
        for name, by in grown.items():
            pipeline.hincrby(totals, name, by)
            pipeline.hincrby(minute, name, by)
        pipeline.expire(minute, KEPT_S)
        await executed(pipeline)
        self._acknowledged.update(figures)

    async def totals(self) -> dict[str, int]:
        """Since the crawl was created."""
        return _numbers(await self._redis.hgetall(keys.totals(self._crawl)))

    async def minutes(self, count: int, *, now_s: float) -> Sequence[tuple[int, dict[str, int]]]:
        """Start of each of the last minutes (epoch seconds) and its figures; this one is last."""
        last = int(now_s) // MINUTE_S
        wanted = range(last - min(count, MINUTES_MAX) + 1, last + 1)
        pipeline = self._redis.pipeline()
        for minute in wanted:
            pipeline.hgetall(keys.minute(self._crawl, minute))
        answers = await pipeline.execute()
        return [
            (minute * MINUTE_S, _numbers(found))
            for minute, found in zip(wanted, answers, strict=True)
        ]


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}
