"""Gather the figures of the whole crawl for the API's answers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from crawler.admin.answers import moment
from crawler.admin.models import DelayedQueue, Dropped, SchedulerStatus, Status, Worker
from crawler.frontier import Steering
from crawler.frontier.connection import Client
from crawler.vitals import Fleet, read, report
from crawler.vitals.names import part

# Minutes over which rates are measured; the one that runs counts as far as it is over.
RATE_MINUTES = 5


async def status(crawl: str, steering: Steering) -> Status:
    """How the crawl stands."""
    sizes = await steering.sizes()
    found = await workers(steering)
    return Status(
        crawl=crawl,
        at=datetime.now(UTC),
        paused=sizes.paused > 0,
        waiting=sizes.waiting,
        waiting_by_queue=list(sizes.front),
        waiting_by_host=sizes.back,
        leased=sizes.leased,
        retries=sizes.retries,
        recrawls=sizes.recrawls,
        found=sizes.added,
        done=sizes.done,
        pages=sizes.pages,
        dead=sizes.dead,
        unfinished=sizes.unfinished,
        dropped=Dropped(
            excluded=sizes.dropped_excluded,
            purged=sizes.dropped_purged,
            budget=sizes.dropped_budget,
            refused=sizes.refused,
        ),
        hosts=sizes.hosts,
        workers=found,
        troubles=[f"{one.machine} {one.pid}: {text}" for one in found for text in one.troubles],
        options=await steering.options(),
        memory_share=await steering.memory_share(),
    )


async def workers(steering: Steering) -> list[Worker]:
    """The live processes, by machine and pid."""
    found = [worker(name, about) for name, about in (await steering.instances()).items()]
    return sorted(found, key=lambda each: (each.machine, each.pid, each.id))


def worker(name: str, about: dict[str, Any]) -> Worker:
    """One process; an older one may say less of itself."""
    fields = ("machine", "pid", "pages", "held", "troubles")
    known = {field: about[field] for field in fields if field in about}
    return Worker(id=name, shards=list(about.get("shards", [])), about=about, **known)


async def vitals(
    crawl: str, redis: Client, steering: Steering, *, minutes: int = 60
) -> dict[str, Any]:
    """What the fleet counted, and its hosts by state."""
    found = report(await read(redis, crawl, minutes=minutes))
    return found | {"hosts": await steering.host_counts()}


async def scheduler_status(crawl: str, steering: Steering, fleet: Fleet) -> SchedulerStatus:
    """The frontier at work; what processes count is up to a beat old."""
    shards = await steering.sizes_by_shard()
    sizes = sum(shards[1:], shards[0])
    buckets, due_ms = await steering.delayed_buckets()
    now = datetime.now(UTC)
    totals, lately = fleet.totals, fleet.sum(RATE_MINUTES)
    span_s = (RATE_MINUTES - 1) * 60 + now.second + 1
    rests = sum(part(lately, "waits").values())
    return SchedulerStatus(
        crawl=crawl,
        at=now,
        urls_scheduled=sizes.added,
        urls_waiting=sizes.waiting,
        urls_delayed=sizes.retries + sizes.recrawls,
        urls_rejected=part(totals, "links/refused"),
        robots_denied=totals.get("robots/denied", 0),
        shard_assignments={
            name: list(about.get("shards", [])) for name, about in fleet.instances.items()
        },
        active_shards=sum(shard.unfinished > 0 for shard in shards),
        shards=len(shards),
        delayed_queue=DelayedQueue(
            total_items=sizes.retries + sizes.recrawls,
            active_buckets=buckets,
            current_bucket=moment(due_ms),
        ),
        insert_rate=round(lately.get("links/new", 0) / span_s, 3),
        retrieval_rate=round(lately.get("requests", 0) / span_s, 3),
        average_delay_s=round(lately.get("waits_ms", 0) / 1000 / rests, 3) if rests else None,
        cache_hit_ratios={
            "known_urls": _share(totals, "links/cached", "links/found"),
            "dns": _ratio(totals, "dns/hits", "dns/misses"),
            "robots": _ratio(totals, "robots/cached", "robots/fetched"),
        },
    )


def _share(figures: Mapping[str, int], some: str, all_: str) -> float | None:
    """Which share of all these are; None where there were none."""
    total = figures.get(all_, 0)
    return round(figures.get(some, 0) / total, 4) if total else None


def _ratio(figures: Mapping[str, int], hits: str, misses: str) -> float | None:
    total = figures.get(hits, 0) + figures.get(misses, 0)
    return round(figures.get(hits, 0) / total, 4) if total else None
