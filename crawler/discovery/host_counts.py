"""Count the URLs of hosts and the links to them, together with the other processes.

Every two seconds a process adds its counts to those of the fleet and reads the totals. After a lost
reply the counts are sent again, so two seconds may count twice: they only serve priorities.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping

from crawler.frontier import Frontier
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

logger = logging.getLogger(__name__)


# URLs found, and links from other domains.
Counts = tuple[int, int]
_NONE: Counts = (0, 0)


class HostTally:
    """Counts of the `size` hosts that were counted last; other hosts have none."""

    def __init__(self, size: int) -> None:
        self._known: OrderedDict[str, Counts] = OrderedDict()
        self._unsent: dict[str, Counts] = {}
        self._size = size

    def counts(self, host: str) -> Counts:
        """Return the counts of a host."""
        return self._known.get(host, _NONE)

    def add(self, host: str, urls: int = 0, inbound: int = 0) -> Counts:
        """Add to the counts of a host, and return them."""
        known, unsent = self._known, self._unsent
        counts = known.get(host)
        if counts is not None:
            counts = known[host] = counts[0] + urls, counts[1] + inbound
            known.move_to_end(host)
        else:
            counts = urls, inbound
            self._set(host, counts)
        waiting = unsent.get(host)
        if waiting is not None:
            unsent[host] = waiting[0] + urls, waiting[1] + inbound
        elif len(unsent) < self._size:
            unsent[host] = urls, inbound
        return counts

    def take_unsent(self, most: int) -> dict[str, Counts]:
        """Return and remove the counts to send, of at most so many hosts."""
        hosts = list(self._unsent)[:most]
        return {host: self._unsent.pop(host) for host in hosts}

    def put_back(self, counts: Mapping[str, Counts]) -> None:
        """Keep counts that could not be sent for the next time."""
        for host, more in counts.items():
            self._unsent[host] = _sum(self._unsent.get(host, _NONE), more)

    def learn(self, totals: Mapping[str, Counts]) -> None:
        """Take over the fleet's counts of some hosts."""
        for host, total in totals.items():
            self._set(host, _sum(total, self._unsent.get(host, _NONE)))

    def _set(self, host: str, counts: Counts) -> None:
        self._known[host] = counts
        self._known.move_to_end(host)
        if len(self._known) > self._size:
            self._known.popitem(last=False)


def _sum(some: Counts, more: Counts) -> Counts:
    return some[0] + more[0], some[1] + more[1]


_EVERY_S = 2.0
# Hosts sent at a time; the others wait for the next time.
_HOSTS_MAX = 10_000


class HostCountSync:
    """Task that keeps the counts of a process and of the fleet in step."""

    def __init__(self, tally: HostTally, frontier: Frontier) -> None:
        self._tally = tally
        self._frontier = frontier
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._sync_forever())

    async def close(self) -> None:
        """Stop the task, and send what is left."""
        if self._task is not None:
            await end(self._task)
            await self.sync()

    async def sync(self) -> None:
        """Send the counts once; if Redis is away, they are sent the next time."""
        unsent = self._tally.take_unsent(_HOSTS_MAX)
        if not unsent:
            return
        try:
            self._tally.learn(await self._frontier.count_hosts(unsent))
        except RedisAway as error:
            self._tally.put_back(unsent)
            logger.debug("The counts of hosts wait: %s", error)

    async def _sync_forever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.sync()
            except Exception:
                # Priorities are not worth stopping for.
                logger.exception("The counts of hosts could not be sent; trying again")
