"""Take URLs into the frontier that wait outside it: pushed to Redis, or spilled to MongoDB."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic, time

import pymongo
from pymongo.errors import PyMongoError

from crawler.discovery.pushed import PushedReader
from crawler.frontier import ADD_MAX, Added, Entry, Frontier
from crawler.frontier.entry import decode
from crawler.frontier.start_urls import StartUrls
from crawler.servers.health import REFUSED_LINKS, SPILLED_URLS, GaveUp, ServerHealth, mongo_health
from crawler.servers.redis.errors import RedisAway
from crawler.storage.commit import RetryingWriter
from crawler.storage.mongo.spill import Spill
from crawler.util.tasks import end

logger = logging.getLogger(__name__)

# Seconds until a spill that did not answer is read again.
_ASK_AGAIN_S = 5.0

Add = Callable[[Sequence[Entry], str], Awaitable[Added]]


class Intake:
    """Intake of pushed and spilled URLs: read, add, and only then remove them outside."""

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
        # When the spill may be read again, in monotonic seconds.
        self._ask_spill_at = 0.0
        self._count = count
        self._warned = False
        self._task: asyncio.Task[None] | None = None

    async def take_in(self) -> int:
        """Take in some URLs; 0 if surely none waits that the frontier has room for."""
        return await self._take_pushed() + await self._take_spilled()

    def take_in_soon(self) -> None:
        """Take in URLs in the background: the heartbeat must not wait for a MongoDB that hangs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_in_quietly())

    async def close(self) -> None:
        """Stop. URLs that were added but not removed are known when they are read again."""
        if self._task is not None:
            await end(self._task)

    async def _take_in_quietly(self) -> None:
        try:
            await self.take_in()
        except (GaveUp, *RedisAway) as error:
            logger.debug("No URLs were taken in: %s", error)
        except Exception:
            # The next heartbeat tries again.
            logger.exception("URLs that wait outside the frontier could not be taken in")

    async def keep(self, entries: Sequence[Entry | bytes], added: Added) -> Added:
        """Spill the URLs that the frontier refused; without MongoDB they are only counted.

        Waits for a MongoDB that is away. Raises NotStored if the crawl ends first.
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
            # If several processes read the same element, the second finds its URL known.
            return await self._take(await self._pushed.read())
        if not await self._pushed.read(1):
            return 0
        async with self._pushed.alone() as is_alone:
            # An element waits, whichever process takes it.
            return await self._take(await self._pushed.read()) if is_alone else 1

    async def _take(self, elements: Sequence[bytes]) -> int:
        now_s = time()
        pushed = [one for raw in elements for one in self._reader.read(raw, now_s=now_s)]
        if entries := [one.entry for one in pushed if not one.forced]:
            added = await self._add(entries, "all")
            # Known URLs may have been added by another process that read the same elements.
            self._count("seeds/pushed", added.new)
            if known := len(entries) - added.new:
                logger.info(
                    "%s: %d of %d URLs are known to this crawl, and not fetched again (see scrapy "
                    "frontier forget, and -a recrawl=)",
                    *(self._pushed.key, known, len(entries)),
                )
        # Last: after an error they would be added once more.
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
            # For the whole operation, not each message: claims wait for it.
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
            # Claims wait for the answer, so do not ask again soon.
            self._ask_spill_at = monotonic() + _ASK_AGAIN_S
            return await self._may_wait_there()
        return len(taken)

    async def _may_wait_there(self) -> int:
        """Return 0 if surely nothing is spilled, since nothing was ever refused."""
        return min(1, (await self._frontier.sizes()).refused)
