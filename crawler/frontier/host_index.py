"""Hosts of a crawl: how many URLs and inbound links each has, and which are contacted next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from crawler.frontier.entry import DamagedEntry, decode
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import shard_of, tags
from crawler.servers.redis.connection import Client

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


class Upcoming:
    """The hosts of URLs that are claimed next, by whichever process."""

    def __init__(self, redis: Client, crawl: str, shards: int) -> None:
        self._scripts = Scripts(redis, "intset")
        self._tags = tags(crawl, shards)

    async def hosts(self, shard: int, *, within_ms: int, most: int, now_ms: int = 0) -> list[str]:
        """Names of one shard, without ports, each once: twice `most` of them at the most."""
        found = await self._scripts.run("upcoming", self._tags[shard], now_ms, within_ms, most)
        names: dict[str, None] = {}
        for data in found:
            # A damaged one is buried when its turn comes.
            with suppress(DamagedEntry, ValueError):
                names[urlsplit(decode(data).url).hostname or ""] = None
        names.pop("", None)
        return list(names)
