"""Make the frontier of a crawl, and its spill: the URLs in MongoDB that Redis had no room for."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from pymongo.errors import PyMongoError

from crawler.config.values import value
from crawler.frontier import Frontier, Tuning
from crawler.frontier.meta import stored_shards
from crawler.frontier.tuning import bloom, intset
from crawler.servers.connections import Servers
from crawler.servers.mongo import explain, start_error
from crawler.servers.redis.connection import Client
from crawler.storage.mongo.spill import Spill

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_CLUSTER_SHARDS_PER_MASTER = 4
# A frontier is full above this share of its limits; the rest is for URLs that may not be refused.
FULL = 0.8
# After a restart of Redis every process has this many heartbeats to report what it holds.
_GRACE_BEATS = 5

# What a process publishes about itself, beside its numbers.
PROCESS = {"machine": socket.gethostname(), "pid": os.getpid()}


def tuning(settings: BaseSettings, *, beat_s: float) -> Tuning:
    """Return how the frontier serves its queues."""
    return Tuning(
        parallelism=value(settings, "HOST_PARALLELISM"),
        spacing_ms=round(value(settings, "DELAY_MIN") * 1000),
        dead_max=value(settings, "DEAD_MAX"),
        full_at=round(value(settings, "FRONTIER_MAX_WAITING") * FULL),
        grace_ms=round(_GRACE_BEATS * beat_s * 1000),
        url_seen=(
            intset()
            if value(settings, "URL_SEEN") == "intset"
            else bloom(value(settings, "BLOOM_CAPACITY"), value(settings, "BLOOM_ERROR"))
        ),
    )


async def make_frontier(redis: Client, crawl: str, crawler: Crawler, tuning: Tuning) -> Frontier:
    """Make the frontier of a crawl, with as many shards as it has, or as it is to have."""
    shards = (
        value(crawler.settings, "FRONTIER_SHARDS")
        or await stored_shards(redis, crawl)
        or _default_shards(redis)
    )
    assert crawler.spider is not None
    tuning = tuning.per_shard(shards)
    return Frontier(redis, crawl, shards=shards, tuning=tuning, spider=crawler.spider.name)


async def spill_of(crawl: str, servers: Servers, settings: BaseSettings) -> Spill | None:
    """Return the place for URLs that the frontier has no room for; None without MongoDB."""
    if value(settings, "PAGES_STORE") != "mongo":
        return None
    collection = (await servers.mongo())[value(settings, "MONGO_DATABASE")]["spilled"]
    try:
        await collection.create_index("crawl")
    except PyMongoError as error:
        raise start_error(error, f"MongoDB cannot be written to: {explain(error)}.") from error
    return Spill(collection, crawl)


def _default_shards(redis: Client) -> int:
    masters = len(redis.get_primaries()) if hasattr(redis, "get_primaries") else 0
    return _CLUSTER_SHARDS_PER_MASTER * masters or 1
