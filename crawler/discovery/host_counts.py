"""Count the URLs of hosts and the links to them: this process's own, and the fleet's.

Every two seconds the fleet gets what was counted here, and answers with the counts of all. A reply
that is lost is sent again, so two seconds of one process may count twice: the counts are for
priorities.
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
    """Counts of the `size` hosts that were counted last; any other has none."""

    def __init__(self, size: int) -> None:
        self._known: OrderedDict[str, Counts] = OrderedDict()
        self._untold: dict[str, Counts] = {}
        self._size = size

    def counts(self, host: str) -> Counts:
        """What is known of a host, by anyone."""
        return self._known.get(host, _NONE)

    def add(self, host: str, urls: int = 0, inbound: int = 0) -> Counts:
        """Count some more; returns what is known of the host then."""
        known, untold = self._known, self._untold
        counts = known.get(host)
        if counts is not None:
            counts = known[host] = counts[0] + urls, counts[1] + inbound
            known.move_to_end(host)
        else:
            counts = urls, inbound
            self._set(host, counts)
        waiting = untold.get(host)
        if waiting is not None:
            untold[host] = waiting[0] + urls, waiting[1] + inbound
        elif len(untold) < self._size:
            untold[host] = urls, inbound
        return counts

    def take_untold(self, most: int) -> dict[str, Counts]:
        """What to tell the others, of so many hosts; it counts as told."""
        hosts = list(self._untold)[:most]
        return {host: self._untold.pop(host) for host in hosts}

    def not_told(self, counts: Mapping[str, Counts]) -> None:
        """The others did not hear it: it is told the next time."""
        for host, more in counts.items():
            self._untold[host] = _sum(self._untold.get(host, _NONE), more)

    def learn(self, totals: Mapping[str, Counts]) -> None:
        """The fleet's counts of some hosts, with all that was told."""
        for host, total in totals.items():
            self._set(host, _sum(total, self._untold.get(host, _NONE)))

    def _set(self, host: str, counts: Counts) -> None:
        self._known[host] = counts
        self._known.move_to_end(host)
        if len(self._known) > self._size:
            self._known.popitem(last=False)


def _sum(some: Counts, more: Counts) -> Counts:
    return some[0] + more[0], some[1] + more[1]


_EVERY_S = 2.0
# Hosts told at a time; the others wait for the next.
_HOSTS_MAX = 10_000


class HostCountSync:
    """Runs until it is closed."""

    def __init__(self, tally: HostTally, frontier: Frontier) -> None:
        self._tally = tally
        self._frontier = frontier
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Tell from now on."""
        self._task = asyncio.get_running_loop().create_task(self._tell_forever())

    async def close(self) -> None:
        """Tell the rest."""
        if self._task is not None:
            await end(self._task)
            await self.tell()

    async def tell(self) -> None:
        """Tell once. What Redis does not hear is told the next time."""
        untold = self._tally.take_untold(_HOSTS_MAX)
        if not untold:
            return
        try:
            self._tally.learn(await self._frontier.count_hosts(untold))
        except RedisAway as error:
            self._tally.not_told(untold)
            logger.debug("The counts of hosts wait: %s", error)

    async def _tell_forever(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.tell()
            except Exception:
                # Priorities are no reason to stop.
                logger.exception("The counts of hosts could not be told; trying again")
