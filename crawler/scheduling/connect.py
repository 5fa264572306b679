"""Connect a scheduler to its servers: Redis, the frontier, the spill, the key of pushed seeds."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pymongo.errors import PyMongoError

from crawler.config.values import value
from crawler.frontier import Frontier, Tuning
from crawler.frontier.meta import stored_shards
from crawler.frontier.start_urls import StartUrls
from crawler.frontier.tuning import bloom, intset
from crawler.servers.connections import Servers
from crawler.servers.mongo import explain, start_error
from crawler.servers.redis.connection import Client
from crawler.servers.redis.settings import (
    keep_allowed_domains,
    start_urls_key,
    tell_of_redis_spider,
    tell_of_start_requests,
)
from crawler.storage.mongo.spill import Spill

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_CLUSTER_SHARDS_PER_MASTER = 4
# A frontier is full above this share of its limits; the rest is for URLs that may not be refused.
FULL = 0.8
# After a restart of Redis every process has this many heartbeats to report what it holds.
_GRACE_BEATS = 5

# What an instance tells of itself, beside its numbers.
PROCESS = {"machine": socket.gethostname(), "pid": os.getpid()}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a scheduler works with."""

    redis: Client
    frontier: Frontier
    spill: Spill | None
    pushed: StartUrls


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


async def connect(crawler: Crawler, crawl: str, *, beat_s: float) -> Parts:
    """Connect to the servers and make the frontier."""
    settings = crawler.settings
    servers = Servers.of(crawler)
    redis = await servers.redis()
    shards = (
        value(settings, "FRONTIER_SHARDS")
        or await stored_shards(redis, crawl)
        or _default_shards(redis)
    )
    spill = await spill_of(crawl, servers, settings)
    assert crawler.spider is not None
    frontier = Frontier(
        *(redis, crawl),
        shards=shards,
        tuning=tuning(settings, beat_s=beat_s).per_shard(shards),
        spider=crawler.spider.name,
    )
    tell_of_redis_spider(crawler.spider)
    tell_of_start_requests(crawler.spider)
    keep_allowed_domains(crawler.spider)
    pushed = StartUrls(redis, start_urls_key(settings, crawler.spider))
    return Parts(redis, frontier, spill, pushed)


async def spill_of(crawl: str, servers: Servers, settings: BaseSettings) -> Spill | None:
    """Where a crawl keeps the URLs that the frontier has no room for; None without MongoDB."""
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
