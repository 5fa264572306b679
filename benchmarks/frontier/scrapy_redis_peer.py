"""scrapy-redis doing the same work: its own scheduler, duplicates filter and priority queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scrapy import Request, Spider
from scrapy_redis import defaults
from scrapy_redis.connection import get_redis
from scrapy_redis.dupefilter import RFPDupeFilter
from scrapy_redis.scheduler import Scheduler

from benchmarks.servers import PrivateRedis

NAME = "scrapy-redis"
QUEUE_KEY = defaults.SCHEDULER_QUEUE_KEY % {"spider": "bench"}
SEEN_KEY = defaults.SCHEDULER_DUPEFILTER_KEY % {"spider": "bench"}


def open_scheduler(server: PrivateRedis) -> Scheduler:
    """Its scheduler as a crawl has it, with an empty queue."""
    client = get_redis(url=server.url)
    scheduler = Scheduler(client, persist=True, dupefilter=RFPDupeFilter(client, SEEN_KEY))
    scheduler.open(Spider("bench"))
    return scheduler


def requests(urls: Iterable[str]) -> list[Request]:
    """What the engine passes to the scheduler, with the metadata a crawl has."""
    return [Request(url, meta={"depth": 3}) for url in urls]


def enqueue(scheduler: Scheduler, batch: Sequence[Request]) -> int:
    """Pass all requests to the scheduler; says how many were new."""
    return sum(scheduler.enqueue_request(request) for request in batch)
