"""Know how many pages a crawl of several shards may still have.

A shard cannot count the others' pages, so all of them are asked, about once a second; of one whose
server is away the last answer counts.
"""

from __future__ import annotations

from functools import partial
from time import monotonic

from crawler.frontier import Frontier, RedisAway, Sizes
from crawler.frontier.each_shard import outcomes

_KEPT_S = 1.0


class PageLimit:
    """As one process knows it."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        # By shard.
        self._sizes: dict[int, Sizes] = {}
        self._read_s = 0.0
        # Leases that this process claimed since then.
        self._claimed = 0

    @property
    def pages(self) -> int:
        """Pages that the crawl had when the shards were asked."""
        return sum(sizes.pages for sizes in self._sizes.values())

    async def left(self, limit: int) -> int:
        """How many URLs may be leased, so that the crawl does not pass this number of pages."""
        if not self._sizes or monotonic() > self._read_s + _KEPT_S:
            await self._read()
        leased = sum(sizes.leased for sizes in self._sizes.values())
        return limit - self.pages - leased - self._claimed

    def claimed(self, number: int) -> None:
        """This process claimed so many more."""
        self._claimed += number

    async def _read(self) -> None:
        shards = range(self._frontier.shards)
        found = await outcomes(partial(self._frontier.sizes_of, shard) for shard in shards)
        for shard, sizes in zip(shards, found, strict=True):
            if not isinstance(sizes, BaseException):
                self._sizes[shard] = sizes
            elif shard not in self._sizes or not isinstance(sizes, RedisAway):
                raise sizes
        self._read_s, self._claimed = monotonic(), 0
