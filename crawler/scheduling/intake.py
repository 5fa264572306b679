"""Take URLs into the frontier that wait outside it: pushed to Redis, or spilled."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic, time

from crawler.discovery.pushed import PushedReader
from crawler.frontier import ADD_MAX, Added, Entry, Frontier
from crawler.frontier.entry import decode
from crawler.frontier.start_urls import StartUrls
from crawler.servers.health import REFUSED_LINKS, SPILLED_URLS, GaveUp, ServerHealth
from crawler.servers.redis.errors import RedisAway
from crawler.storage.commit import RetryingWriter
from crawler.storage.disk_log import LogFull
from crawler.storage.spill import Spill
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
        spill: Spill,
        *,
        timeout_s: float = 20.0,
        count: Callable[[str, int], None] = lambda _name, _by: None,
        is_closing: Callable[[], bool] = lambda: False,
    ) -> None:
        """`timeout_s` is the time limit for calls of the spill."""
        self._frontier = frontier
        self._pushed = pushed
        self._reader = reader
        self._add = add
        self._spill = spill
        self._writer = RetryingWriter(
            *(REFUSED_LINKS, spill.health),
            is_away=spill.is_away,
            is_closing=is_closing,
            timeout_s=timeout_s,
        )
        self._timeout_s = timeout_s
        # When the spill may be read again, in monotonic seconds.
        self._ask_spill_at = 0.0
        self._count = count
        self._warned = False
        self._taking = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def spill_health(self) -> ServerHealth:
        """Health of the server that keeps spilled URLs."""
        return self._spill.health

    async def take_in(self) -> int:
        """Take in some URLs; 0 if surely none waits that the frontier has room for."""
        return await self._take_pushed() + await self._take_spilled()

    def take_in_soon(self) -> None:
        """Take in URLs in the background: the heartbeat must not wait for a server that hangs."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._take_in_quietly())

    async def close(self) -> None:
        """Stop. URLs that were added but not removed are known when they are read again."""
        if self._task is not None:
            await end(self._task)
        await self._spill.close()

    async def refresh(self) -> None:
        """Take over URLs that processes on this machine spilled that died."""
        if await self._may_wait_there():
            await self._spill.refresh()

    @property
    def names(self) -> set[str]:
        """Names in the registry of files that this process reads."""
        return self._spill.names

    async def _take_in_quietly(self) -> None:
        try:
            await self.take_in()
        except (GaveUp, *RedisAway) as error:
            logger.debug("No URLs were taken in: %s", error)
        except Exception:
            # The next heartbeat tries again.
            logger.exception("URLs that wait outside the frontier could not be taken in")

    async def keep(self, entries: Sequence[Entry | bytes], added: Added) -> Added:
        """Spill the URLs that the frontier refused; they are only counted if that is full, too.

        Waits for a server that is away. Raises NotStored if the crawl ends first.
        """
        self._count("frontier/refused", added.refused)
        refused = [entry for i, entry in enumerate(entries) if added.is_refused(i)]
        decoded = [decode(e) if isinstance(e, bytes) else e for e in refused]
        await self._writer.write(partial(self._spill_or_leave_out, decoded))
        return added

    async def _spill_or_leave_out(self, entries: Sequence[Entry]) -> None:
        try:
            await self._spill.put(entries)
        except LogFull as error:
            self._count("frontier/left_out", len(entries))
            if not self._warned:
                self._warned = True
                logger.warning(
                    "The frontier is full, and so is the place for links of low priority: they are "
                    "left out, and counted as frontier/left_out. %s",
                    error,
                )

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
        waits = await self._may_wait_there()
        if not waits or monotonic() < self._ask_spill_at:
            return waits
        # The heartbeat and the check for the end may come at the same time.
        async with self._taking:
            return await self._take_some_spilled(waits)

    async def _take_some_spilled(self, waits: int) -> int:
        spill = self._spill
        try:
            # For the whole operation: claims wait for it.
            async with asyncio.timeout(self._timeout_s):
                entries = await spill.some(ADD_MAX)
            spill.health.worked(SPILLED_URLS)
            if not entries:
                return 0
            added = await self._add(entries, "new")
            taken = [entry for i, entry in enumerate(entries) if not added.is_refused(i)]
            if taken:
                await spill.drop(taken)
                self._count("frontier/taken_in", len(taken))
        except Exception as error:
            if not (isinstance(error, TimeoutError) or spill.is_away(error)):
                raise
            spill.health.failed(SPILLED_URLS, error)
            # Claims wait for the answer, so do not ask again soon.
            self._ask_spill_at = monotonic() + _ASK_AGAIN_S
            return waits
        # Without room for any, the crawl is not over.
        return len(taken) or waits

    async def _may_wait_there(self) -> int:
        """Return 0 if surely nothing is spilled, since nothing was ever refused."""
        return min(1, (await self._frontier.sizes()).refused)
