"""Counts of the pages that are visited again within a budget: by class, and sums for each host.

What the classes and sums mean is known to those who count (scheduling/recrawl_plan.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from crawler.frontier import keys
from crawler.frontier.frontier import HOSTS_MAX, Frontier, shard_of
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import executed

# Field beside the classes.
_PER_S = "per_s"


class RecrawlCounts:
    """Counts of one crawl. A call that is repeated after a lost reply counts twice."""

    def __init__(self, redis: Client, frontier: Frontier) -> None:
        self._redis = redis
        self._frontier = frontier
        self._key = keys.recrawl_classes(frontier.crawl)

    async def add_classes(
        self, changes: Mapping[int, int], per_s: float
    ) -> tuple[dict[int, int], float]:
        """Change the numbers of pages in some classes, and the number of visits a second.

        Returns the numbers of all classes, and of the visits.
        """
        pipeline = self._redis.pipeline()
        pipeline.hincrbyfloat(self._key, _PER_S, per_s)
        for number, by in changes.items():
            if by:
                pipeline.hincrby(self._key, str(number), by)
        pipeline.hgetall(self._key)
        found = (await executed(pipeline))[-1]
        total = float(found.pop(_PER_S.encode()))
        return {int(number): int(count) for number, count in found.items()}, total

    async def add_hosts(
        self, changes: Mapping[str, Sequence[float]]
    ) -> dict[str, tuple[float, float, float]]:
        """Add to the three sums of some hosts; return the totals of these."""
        by_shard: dict[int, list[str]] = defaultdict(list)
        for host in changes:
            by_shard[shard_of(host, self._frontier.shards)].append(host)
        totals: dict[str, tuple[float, float, float]] = {}
        for shard, hosts in by_shard.items():
            for start in range(0, len(hosts), HOSTS_MAX):
                part = hosts[start : start + HOSTS_MAX]
                args = chain.from_iterable((host, *map(repr, changes[host])) for host in part)
                sums = map(float, await self._frontier.scripts.run("learn", shard, *args))
                totals |= zip(part, zip(sums, sums, sums, strict=True), strict=True)
        return totals
