"""URLs that wait outside the frontier: pushed by others to Redis, or spilled for want of room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic

import pymongo
from pymongo.errors import PyMongoError

from crawler.discovery.pushed import PushedReader
from crawler.frontier import ADD_MAX, Added, Entry, Frontier
from crawler.frontier.entry import decode
from crawler.frontier.start_urls import StartUrls
from crawler.servers.health import REFUSED_LINKS, SPILLED_URLS, GaveUp, ServerHealth, mongo_health
from crawler.servers.redis.errors import RedisAway
from crawler.storage.mongo.spill import Spill
from crawler.storage.retry import RetryingWriter
from crawler.util.tasks import end

logger = logging.getLogger(__name__)

# A spill that did not answer is asked again after so long.
_ASK_AGAIN_S = 5.0

Add = Callable[[Sequence[Entry], str], Awaitable[Added]]


class Intake:
    """Takes in what waits outside: read, add, and only then remove."""

    def __init__(
        self,
        frontier: Frontier,
        pushed: StartUrls,
        reader: PushedReader,
        add: Add,
        spill: Spill | None,
        *,
        health: ServerHealth | None = None,
        timeout_s: float = 20.0,
        count: Callable[[str, int], None] = lambda _name, _by: None,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """`health` and `timeout_s` are those of the spill's MongoDB."""
        self._frontier = frontier
        self._pushed = pushed
        self._reader = reader
        self._add = add
        self._spill = spill
        self._health = health or mongo_health()
        self._writer = RetryingWriter(REFUSED_LINKS, is_closing, self._health, timeout_s=timeout_s)
        self._spill_timeout_s = timeout_s
        # When the spill is worth a question, in monotonic seconds.
        self._ask_spill_at = 0.0
        self._count = count
        self._warned = False
        self._task: asyncio.Task[None] | None = None

    async def take_in(self) -> int:
        """Take in some of what waits; 0 if surely nothing does that there is room for."""
        return await self._take_pushed() + await self._take_spilled()

    def take_in_soon(self) -> None:
        """The same in the background: a heart must not wait for a MongoDB that hangs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_in_quietly())

    async def close(self) -> None:
        """Take in no more; what was not removed is known when it is taken in again."""
        if self._task is not None:
            await end(self._task)

    async def _take_in_quietly(self) -> None:
        try:
            await self.take_in()
        except (GaveUp, *RedisAway) as error:
            logger.debug("No look at what waits outside: %s", error)
        except Exception:
            # The next beat asks again.
            logger.exception("What waits outside the frontier could not be taken in")

    async def keep(self, entries: Sequence[Entry | bytes], added: Added) -> Added:
        """Keep those URLs that the frontier refused; without MongoDB they are only counted.

        Waits for a MongoDB that is away; NotStored if the crawl ends first.
        """
        self._count("frontier/refused", added.refused)
        if self._spill is not None:
            refused = [entry for i, entry in enumerate(entries) if added.is_refused(i)]
            decoded = [decode(e) if isinstance(e, bytes) else e for e in refused]
            await self._writer.write(partial(self._spill.put, decoded))
        elif not self._warned:
            self._warned = True
            logger.warning(
                "The frontier is full: links of low priority are left out and counted as "
                "frontier/refused; with PAGES_STORE=mongo they would be kept there"
            )
        return added

    async def _take_pushed(self) -> int:
        if not self._reader.may_force:
            # Of several processes that read the same the second finds it known.
            return await self._take(await self._pushed.read())
        if not await self._pushed.read(1):
            return 0
        async with self._pushed.alone() as is_alone:
            # Something waits, whoever takes it.
            return await self._take(await self._pushed.read()) if is_alone else 1

    async def _take(self, elements: Sequence[bytes]) -> int:
        pushed = [one for raw in elements for one in self._reader.read(raw)]
        if entries := [one.entry for one in pushed if not one.forced]:
            added = await self._add(entries, "all")
            # Those that are known may be another process's, which read the same elements.
            self._count("seeds/pushed", added.new)
            if known := len(entries) - added.new:
                logger.info(
                    "%s: %d of %d URLs are known to this crawl, and not fetched again (see scrapy "
                    "frontier forget, and -a recrawl=)",
                    *(self._pushed.key, known, len(entries)),
                )
        # Last: an error after it would have them added once more.
        if forced := [one.entry for one in pushed if one.forced]:
            await self._add(forced, "force")
            self._count("seeds/pushed", len(forced))
        if elements:
            await self._pushed.drop(elements)
            self._count("frontier/taken_in", len(elements))
        return len(elements)

    async def _take_spilled(self) -> int:
        if self._spill is None:
            return 0
        if monotonic() < self._ask_spill_at:
            return await self._may_wait_there()
        try:
            # All of it, not each message: claims wait for this.
            with pymongo.timeout(self._spill_timeout_s):
                entries = await self._spill.some(ADD_MAX)
            self._health.worked(SPILLED_URLS)
            if not entries:
                return 0
            added = await self._add(entries, "new")
            taken = [entry for i, entry in enumerate(entries) if not added.is_refused(i)]
            if taken:
                await self._spill.drop(taken)
                self._count("frontier/taken_in", len(taken))
        except PyMongoError as error:
            self._health.failed(SPILLED_URLS, error)
            # Who waits for its answer claims nothing meanwhile.
            self._ask_spill_at = monotonic() + _ASK_AGAIN_S
            return await self._may_wait_there()
        return len(taken)

    async def _may_wait_there(self) -> int:
        """0 if surely nothing is spilled: what was never refused is not."""
        return min(1, (await self._frontier.sizes()).refused)
