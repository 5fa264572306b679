"""The fleet's figures in Redis: totals of the crawl, and hashes of its last minutes.

Single minutes are kept for two hours, and sums of ten minutes for a day: some 260 small hashes.

A process adds what it counted since its last acknowledged beat. When a reply is lost, the same
difference is sent again: the figures of that one beat (two seconds of one process) may then count
twice. Nothing is missed but what a killed process counted after its last beat.

`read` gives the figures of the whole crawl: totals, the last minutes, the state of its processes.
"""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import keys
from crawler.frontier.frontier import shard_time_ms, tags
from crawler.frontier.meta import stored_shards
from crawler.monitoring.figures import grown
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import executed

# Three beats.
_SILENT_S = 6.0
# Five beats: a process that is silent for longer counts as dead.
_LIVE_S = 10.0
_MINUTE_S, _TEN_MINUTES_S = 60, 600
# Minutes that are kept one by one, and in tens.
SINGLE_MINUTES = 2 * 60
MINUTES_MAX = 24 * 60


@dataclass(frozen=True, slots=True)
class Minute:
    """Figures of one minute, or of ten, of all processes."""

    # Its start, in seconds since 1970.
    at_s: int
    figures: dict[str, int]
    length_s: int = _MINUTE_S


@dataclass(frozen=True, slots=True)
class Fleet:
    """Figures of a crawl and its processes."""

    totals: dict[str, int] = field(default_factory=dict)
    # The oldest first; the last one is not over.
    minutes: list[Minute] = field(default_factory=list)
    # Name -> what the process reported, and for how many seconds it has been silent (`silent_s`).
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def live(self) -> list[dict[str, Any]]:
        """What the processes reported that still beat."""
        return [about for about in self.instances.values() if about["silent_s"] <= _LIVE_S]

    def sum(self, minutes: int) -> dict[str, int]:
        """Return the figures of the last so many minutes."""
        found: dict[str, int] = {}
        length_s = self.minutes[-1].length_s if self.minutes else _MINUTE_S
        for minute in self.minutes[-(minutes * _MINUTE_S // length_s) :]:
            for name, count in minute.figures.items():
                found[name] = found.get(name, 0) + count
        return found


async def read(
    redis: Client, crawl: str, *, minutes: int = 60, now_s: float | None = None
) -> Fleet:
    """Read the figures of a crawl; all are empty if it does not exist.

    More minutes than SINGLE_MINUTES come in tens.
    """
    key, length_s = keys.minute, _MINUTE_S
    if minutes > SINGLE_MINUTES:
        key, length_s = keys.ten_minutes, _TEN_MINUTES_S
    last = int(time.time() if now_s is None else now_s) // length_s
    number = math.ceil(min(minutes, MINUTES_MAX) * _MINUTE_S / length_s)
    wanted = range(last - number + 1, last + 1)
    pipeline = redis.pipeline()
    pipeline.hgetall(keys.totals(crawl))
    for minute in wanted:
        pipeline.hgetall(key(crawl, minute))
    totals, *found = map(_numbers, await pipeline.execute())
    return Fleet(
        totals=totals,
        minutes=[
            Minute(minute * length_s, figures, length_s)
            for minute, figures in zip(wanted, found, strict=True)
        ],
        instances=await instances(redis, crawl),
    )


async def instances(redis: Client, crawl: str) -> dict[str, dict[str, Any]]:
    """Read what the processes of a crawl reported, as in Fleet."""
    tag = tags(crawl, await stored_shards(redis, crawl) or 1)[0]
    reported = await redis.hgetall(keys.instances(tag))
    # Without those whose leases are being taken back: they are dead.
    beats = dict(await redis.zrangebyscore(keys.owners(tag), "(0", "+inf", withscores=True))
    now_ms = await shard_time_ms(redis, tag)
    return {
        name.decode(): {
            **json.loads(about),
            "silent_s": round(max(0.0, now_ms - beats.get(name, 0.0)) / 1000, 1),
        }
        for name, about in reported.items()
        if name in beats
    }


def silent_line(found: Mapping[str, Mapping[str, Any]], lease_ttl_s: float) -> str:
    """Return a line about URLs that dead processes still hold; empty if there are none."""
    silent = [about for about in found.values() if about["silent_s"] > _SILENT_S]
    held = sum(about.get("held") or 0 for about in silent)
    if not held:
        return ""
    return (
        f"URLs held by processes that do not answer ({len(silent):,}): {held:,}; they come back "
        f"{lease_ttl_s:g} s after the last sign of life (LEASE_TTL)"
    )


class Ledger:
    """Figures that one process adds to those of its crawl."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._acknowledged: dict[str, int] = {}

    async def add(self, figures: Mapping[str, int], *, now_s: float) -> None:
        """Add what was counted since the last acknowledged call; `figures` are since the start."""
        counted = grown(self._acknowledged, figures)
        if not counted:
            return
        totals = keys.totals(self._crawl)
        minute = keys.minute(self._crawl, int(now_s) // _MINUTE_S)
        ten_minutes = keys.ten_minutes(self._crawl, int(now_s) // _TEN_MINUTES_S)
        # All keys are in one slot: on one server this is a transaction.
        pipeline = self._redis.pipeline()
        for name, by in counted.items():
            pipeline.hincrby(totals, name, by)
            pipeline.hincrby(minute, name, by)
            pipeline.hincrby(ten_minutes, name, by)
        pipeline.expire(minute, SINGLE_MINUTES * _MINUTE_S)
        pipeline.expire(ten_minutes, MINUTES_MAX * _MINUTE_S)
        await executed(pipeline)
        self._acknowledged.update(figures)


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}
