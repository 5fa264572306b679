"""Fill in the metrics of the whole crawl, from Redis. Any process gives the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crawler.frontier import RedisAway, Sizes, Steering
from crawler.frontier.connection import Client
from crawler.metrics.figures import add_figures
from crawler.metrics.sheet import Sheet
from crawler.vitals import Fleet, read
from crawler.vitals.vitals import STORE_WORKS

# Five beats.
_SILENT_S = 10.0


@dataclass(frozen=True, slots=True)
class FleetReading:
    """The crawl at one moment."""

    fleet: Fleet
    sizes: Sizes
    # How many are in which state.
    hosts: dict[str, int]
    memory_bytes: int
    memory_ratio: float


async def read_fleet(redis: Client, crawl: str) -> FleetReading | None:
    """Ask Redis; None if it does not answer. CrawlerError if there is no such crawl."""
    try:
        steering = await Steering.of(redis, crawl)
        return FleetReading(
            fleet=await read(redis, crawl, minutes=1),
            sizes=await steering.sizes(),
            hosts=await steering.host_counts(),
            memory_bytes=_used(await redis.info("memory")),
            memory_ratio=await steering.memory_share(),
        )
    except RedisAway:
        return None


def add_fleet(sheet: Sheet, reading: FleetReading | None) -> None:
    """Add what Redis knows of the crawl."""
    sheet.add("crawler_redis_up", reading is not None)
    if reading is None:
        return
    add_figures(sheet, reading.fleet.totals, "fleet")
    _add_workers(sheet, reading.fleet)
    _add_sizes(sheet, reading.sizes)
    for state, count in reading.hosts.items():
        sheet.add("crawler_active_hosts", count, state=state)
    sheet.add("crawler_redis_memory_bytes", reading.memory_bytes)
    sheet.add("crawler_redis_memory_ratio", reading.memory_ratio)


def _add_workers(sheet: Sheet, fleet: Fleet) -> None:
    workers = list(fleet.instances.values())
    live = [worker for worker in workers if worker["silent_s"] <= _SILENT_S]
    sheet.add("crawler_active_workers", len(live))
    sheet.add("crawler_silent_workers", len(workers) - len(live))
    for name, key in (
        ("crawler_pages_per_second", "pages_per_s"),
        ("crawler_bytes_per_second", "bytes_per_s"),
        ("crawler_leases_held", "held"),
    ):
        sheet.add(name, sum(worker.get(key) or 0 for worker in live), scope="fleet")
    stuck = sum(worker.get("store", "off") not in STORE_WORKS for worker in live)
    sheet.add("crawler_store_breaker_open", stuck, scope="fleet")


def _add_sizes(sheet: Sheet, sizes: Sizes) -> None:
    for number, waiting in enumerate(sizes.front, 1):
        sheet.add("crawler_frontier_size", waiting, state="front", queue=str(number))
    for state, count in (
        ("back", sizes.back),
        ("leased", sizes.leased),
        ("retry", sizes.retries),
        ("recrawl", sizes.recrawls),
        ("dead", sizes.dead - sizes.trimmed),
    ):
        sheet.add("crawler_frontier_size", count, state=state, queue="")
    sheet.add("crawler_crawl_paused", sizes.paused > 0)
    for name, count in (
        ("crawler_frontier_urls_added", sizes.added),
        ("crawler_frontier_urls_done", sizes.done),
        ("crawler_frontier_leases_claimed", sizes.claimed),
        ("crawler_frontier_leases_reclaimed", sizes.reclaimed),
    ):
        sheet.add(name, count)
    for reason, count in (
        ("excluded", sizes.dropped_excluded),
        ("purged", sizes.dropped_purged),
        ("budget", sizes.dropped_budget),
        ("refused", sizes.refused),
    ):
        sheet.add("crawler_frontier_urls_dropped", count, reason=reason)


def _used(memory: dict[str, Any]) -> int:
    """Of a server, or of a cluster's fullest node."""
    nodes = [memory] if "used_memory" in memory else list(memory.values())
    return max(int(node["used_memory"]) for node in nodes)
