"""Notice when the crawl is over for a process.

Over is: front queues, back queues, leases and retries are empty, here and outside the frontier, in
two readings with the same number of URLs added. Recrawls do not count. Or no page is left that the
crawl may have; or all that is left waits longer than this process does.

A shard cannot count the pages of others, so all of them are asked, about once a second; of one
whose server is away the last answer counts.
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
    """What a look for the end found."""

    GO_ON = auto()
    # The first reading was empty: a second one decides.
    LOOK_AGAIN = auto()
    OVER = auto()


@dataclass(slots=True)
class CompletionLimits:
    """When a process stops. The first two may change while the crawl runs."""

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
    """What one round of claims over the shards brought."""

    leases: int = 0
    more: bool = False
    # Shards with delayed URLs that are.
    due: set[int] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    waits_s: list[float] = field(default_factory=list)

    def take(self, shard: int, claim: Claim) -> None:
        self.leases += len(claim.leases)
        self.more |= claim.more
        if claim.delayed_ms == 0:
            self.due.add(shard)
        self.states.add(claim.state)
        waits = (claim.wait_ms, claim.delayed_ms)
        self.waits_s += [ms / 1000 for ms in waits if ms is not None]


class Completion:
    """Why and when a process ends."""

    def __init__(
        self,
        frontier: Frontier,
        limits: CompletionLimits,
        look_outside: Callable[[], Awaitable[int]],
    ) -> None:
        # "finished", "max_pages", "waiting", "redis_lost" or "data_lost", once it is over for this
        # process.
        self.reason: str | None = None
        # Seconds to the earliest waiting URL when the reason is "waiting".
        self.waits_s: float | None = None
        # It is over, and no URL was ever added to the crawl.
        self.never_began = False
        # Of use where there are several shards.
        self.page_limit = PageLimit(frontier)
        self._frontier = frontier
        self._limits = limits
        self._look_outside = look_outside
        self._last: Sizes | None = None

    @property
    def may_go_on(self) -> bool:
        """Is this an end only as long as nobody adds URLs?"""
        return self.reason == "finished"

    def not_yet(self) -> None:
        """There is work: an earlier reading means nothing any more, nor an end that was found."""
        self._last = None
        self.never_began = False
        if self.may_go_on:
            self.reason = None

    def give_up(self) -> None:
        """Redis is away for too long."""
        self.reason = REDIS_LOST

    def data_lost(self) -> None:
        """Redis has lost URLs that nobody can add again."""
        self.reason = DATA_LOST

    def tell(self) -> None:
        """Say what is left, if this process does not wait for it."""
        if self.reason == "waiting" and self._last is not None and self.waits_s is not None:
            logger.info(
                "URLs left: %d. The earliest waits %.0f s more, longer than CRAWL_MAX_WAIT (%g s): "
                "a later run of this crawl goes on with them",
                *(self._last.unfinished, self.waits_s, self._limits.max_wait_s),
            )

    async def allowance(self, round_: Round, room: int) -> tuple[int, int]:
        """How many leases may be claimed now, and the limit of pages that a shard is to keep.

        A shard cannot count the others' pages, so a fleet on a cluster may pass the limit by what
        its processes claim in the same second.
        """
        limit = self._limits.max_pages
        if not limit or self._frontier.shards == 1:
            return room, limit
        left = await self.page_limit.left(limit)
        if self.page_limit.pages >= limit:
            round_.states.add("limit")
        return min(room, left), 0

    async def look(self, round_: Round) -> Verdict:
        """Look for the end after a round that brought nothing, while this process holds nothing."""
        if await self._look_outside():
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
                return Verdict.LOOK_AGAIN
            self.never_began = sizes.added == 0
            return self._end("finished")
        earliest_s = min(round_.waits_s, default=0.0)
        if sizes.leased == 0 and earliest_s > self._limits.max_wait_s:
            self.waits_s = earliest_s
            return self._end("waiting")
        return Verdict.GO_ON

    def _end(self, reason: str) -> Verdict:
        # Somebody may have given up while this one looked.
        if self.reason is None:
            self.reason = reason
        return Verdict.OVER


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
        found = await gather_outcomes(self._frontier.sizes(shard) for shard in shards)
        for shard, sizes in zip(shards, found, strict=True):
            if not isinstance(sizes, BaseException):
                self._sizes[shard] = sizes
            elif shard not in self._sizes or not isinstance(sizes, RedisAway):
                raise sizes
        self._read_s, self._claimed = monotonic(), 0


def keep_files(crawler: Crawler) -> None:
    """Leave the feeds as they are after a run that crawled nothing.

    Scrapy would put an empty file in the place of what earlier runs gave (-O, or S3).
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
