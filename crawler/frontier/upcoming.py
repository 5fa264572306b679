"""Look ahead: which hosts are about to be contacted. Reads only, and a bounded number of them."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from crawler.frontier.connection import Client
from crawler.frontier.entry import DamagedEntry, decode
from crawler.frontier.scripts import Scripts
from crawler.frontier.shards import tags


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
