"""How many URLs of each host a fleet found, and how many links to it from other domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from crawler.frontier.connection import Client
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, tags

_BATCH = 500

# URLs found, and links from other domains.
Counts = tuple[int, int]


class HostCounts:
    """Counts in Redis; they grow with hosts."""

    def __init__(self, redis: Client, crawl: str, shards: int) -> None:
        self._scripts = Scripts(redis, "intset")
        self._tags = tags(crawl, shards)

    async def add(self, more: Mapping[str, Counts]) -> dict[str, Counts]:
        """Add to the counts; returns what they are now."""
        by_tag: dict[str, list[str]] = defaultdict(list)
        for host in more:
            by_tag[self._tags[shard_of(host, len(self._tags))]].append(host)
        totals: dict[str, Counts] = {}
        for tag, hosts in by_tag.items():
            for start in range(0, len(hosts), _BATCH):
                part = hosts[start : start + _BATCH]
                args = [value for host in part for value in (host, *more[host])]
                numbers = await self._scripts.run("tally", tag, *args)
                totals |= dict(
                    zip(part, zip(numbers[::2], numbers[1::2], strict=True), strict=True)
                )
        return totals
