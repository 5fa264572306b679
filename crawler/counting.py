"""Tell the fleet every two seconds what this process counted of hosts, and learn what others did.

A reply that is lost is told again, so that two seconds of one process may count twice: the counts
are for priorities.
"""

from __future__ import annotations

import asyncio
import logging

from crawler.frontier import RedisAway
from crawler.frontier.host_counts import HostCounts
from crawler.policy.host_tally import HostTally
from crawler.tasks import end

logger = logging.getLogger(__name__)

_EVERY_S = 2.0
# Hosts told at a time; the others wait for the next.
_HOSTS_MAX = 10_000


class Counting:
    """Runs until it is closed."""

    def __init__(self, tally: HostTally, counts: HostCounts) -> None:
        self._tally = tally
        self._counts = counts
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
            self._tally.learn(await self._counts.add(untold))
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
