"""Decide when the crawl is over for a process.

It is over when front queues, back queues, leases and retries are empty, and nothing waits outside
the frontier, in two readings with the same number of URLs added. Recrawls do not count. It is also
over when the crawl has as many pages as it may have, or when all URLs that are left wait longer
than CRAWL_MAX_WAIT.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Self

from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, StdoutFeedStorage

from crawler.config.values import fill, setting, value
from crawler.frontier import Claim, Frontier, Sizes
from crawler.frontier.shards import gather_outcomes
from crawler.servers.redis.errors import RedisAway
from crawler.util.secrets import without_secrets

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)


# Why a crawl closes that has no URL to begin with, or not all that it should.
NO_SEEDS = "no_seeds"
BAD_SEEDS = "bad_seeds"
# Redis was away for longer than REDIS_GIVE_UP.
REDIS_LOST = "redis_lost"
# Redis lost more of the crawl than can be repeated.
DATA_LOST = "data_lost"


class Verdict(Enum):
    """Result of a check for the end."""

    GO_ON = auto()
    # The first reading was empty: a second one decides.
    CHECK_AGAIN = auto()
    OVER = auto()


@dataclass(slots=True)
class CompletionLimits:
    """Limits at which a process stops. The first two may change while the crawl runs."""

    max_pages: int = 0
    host_pages: int = 0
    # False: stay when nothing is left, and wait for seeds.
    close_when_done: bool = True
    max_wait_s: float = setting("CRAWL_MAX_WAIT")

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        return fill(cls, settings, close_when_done=value(settings, "CRAWL_IDLE") == "close")


@dataclass(slots=True)
class Round:
    """Result of one round of claims over the shards."""

    leases: int = 0
    more: bool = False
    # Shards with delayed URLs that are due.
    due: set[int] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    waits_s: list[float] = field(default_factory=list)

    def take(self, shard: int, claim: Claim) -> None:
        """Add the claim of one shard."""
        self.leases += len(claim.leases)
        self.more |= claim.more
        if claim.delayed_ms == 0:
            self.due.add(shard)
        self.states.add(claim.state)
        waits = (claim.wait_ms, claim.delayed_ms)
        self.waits_s += [ms / 1000 for ms in waits if ms is not None]


class Completion:
    """End of the crawl for this process: whether it has come, and why."""

    def __init__(
        self,
        frontier: Frontier,
        limits: CompletionLimits,
        take_in: Callable[[], Awaitable[int]],
    ) -> None:
        # "finished", "max_pages", "waiting", "redis_lost" or "data_lost", once it is over for this
        # process.
        self.reason: str | None = None
        # Seconds to the earliest waiting URL when the reason is "waiting".
        self.waits_s: float | None = None
        # The crawl is over, and no URL was ever added to it.
        self.never_began = False
        # Only used with several shards.
        self.page_limit = PageLimit(frontier)
        self._frontier = frontier
        self._limits = limits
        self._take_in = take_in
        self._last: Sizes | None = None

    @property
    def may_go_on(self) -> bool:
        """Whether the crawl goes on if somebody adds URLs."""
        return self.reason == "finished"

    def not_yet(self) -> None:
        """Forget earlier readings, and an end for want of URLs: there is work."""
        self._last = None
        self.never_began = False
        if self.may_go_on:
            self.reason = None

    def log_left(self) -> None:
        """Log what is left, if this process does not wait for it."""
        if self.reason == "waiting" and self._last is not None and self.waits_s is not None:
            logger.info(
                "URLs left: %d. The earliest waits %.0f s more, longer than CRAWL_MAX_WAIT (%g s): "
                "a later run of this crawl goes on with them",
                *(self._last.unfinished, self.waits_s, self._limits.max_wait_s),
            )

    async def allowance(self, round_: Round, room: int) -> tuple[int, int]:
        """Return how many leases may be claimed now, and the page limit that a shard enforces.

        A shard cannot count the others' pages, so a fleet on a cluster may exceed the limit by what
        its processes claim in the same second.
        """
        limit = self._limits.max_pages
        if not limit or self._frontier.shards == 1:
            return room, limit
        left = await self.page_limit.left(limit)
        if self.page_limit.pages >= limit:
            round_.states.add("limit")
        return min(room, left), 0

    async def check(self, round_: Round) -> Verdict:
        """Check for the end, after a round without leases and while this process holds none."""
        if await self._take_in():
            self.not_yet()
            return Verdict.GO_ON
        if self.may_go_on or round_.states & {"paused", "grace", "leap"}:
            return Verdict.GO_ON
        if not self._limits.close_when_done:
            return Verdict.GO_ON
        if round_.states == {"limit"}:
            return self._end("max_pages")
        sizes = await self._frontier.sizes()
        before, self._last = self._last, sizes
        if sizes.unfinished == 0:
            # Two readings, since another process may move a URL between two parts of one.
            if before is None or before.unfinished or before.added != sizes.added:
                return Verdict.CHECK_AGAIN
            self.never_began = sizes.added == 0
            return self._end("finished")
        earliest_s = min(round_.waits_s, default=0.0)
        if sizes.leased == 0 and earliest_s > self._limits.max_wait_s:
            self.waits_s = earliest_s
            return self._end("waiting")
        return Verdict.GO_ON

    def _end(self, reason: str) -> Verdict:
        # Redis may have been given up on, or found to have lost data, during the check.
        if self.reason is None:
            self.reason = reason
        return Verdict.OVER


_KEPT_S = 1.0


class PageLimit:
    """Number of pages that a crawl on several shards may still have, as one process knows it.

    All shards are asked, about once a second. If a server is away, its last answer counts.
    """

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        # By shard.
        self._sizes: dict[int, Sizes] = {}
        self._read_s = 0.0
        # Leases that this process claimed since then.
        self._claimed = 0

    @property
    def pages(self) -> int:
        """Number of pages that the crawl had when the shards were asked."""
        return sum(sizes.pages for sizes in self._sizes.values())

    async def left(self, limit: int) -> int:
        """Return how many URLs may be leased without exceeding this number of pages."""
        if not self._sizes or monotonic() > self._read_s + _KEPT_S:
            await self._read()
        leased = sum(sizes.leased for sizes in self._sizes.values())
        return limit - self.pages - leased - self._claimed

    def claimed(self, number: int) -> None:
        """Count leases that this process claimed since the shards were asked."""
        self._claimed += number

    async def _read(self) -> None:
        shards = range(self._frontier.shards)
        found = await gather_outcomes(self._frontier.sizes(shard) for shard in shards)
        for shard, sizes in zip(shards, found, strict=True):
            if not isinstance(sizes, BaseException):
                self._sizes[shard] = sizes
            elif shard not in self._sizes or not isinstance(sizes, RedisAway):
                raise sizes
        self._read_s, self._claimed = monotonic(), 0


def keep_files(crawler: Crawler) -> None:
    """Keep the feeds of earlier runs after a run that crawled nothing.

    Scrapy would overwrite them with an empty file (-O, or S3).
    """
    exporter = crawler.get_extension(FeedExporter)
    for slot in exporter.slots if exporter is not None else ():
        storage = slot.storage
        if slot.itemcount or not slot.store_empty or isinstance(storage, StdoutFeedStorage):
            continue
        if isinstance(storage, FileFeedStorage) and not _has_content(Path(storage.path)):
            continue
        slot.store_empty = False
        logger.warning(
            "Nothing was crawled, so the feed %s stays as it is", without_secrets(slot.uri)
        )


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
