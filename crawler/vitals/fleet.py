"""Read the figures of a whole crawl: totals, the last minutes, and what its processes say."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.meta import stored_shards
from crawler.frontier.shards import tags
from crawler.frontier.time import shard_time_ms
from crawler.vitals.ledger import Ledger

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
