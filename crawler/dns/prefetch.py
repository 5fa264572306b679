"""Look up the names of hosts that are fetched from soon, so that no fetch waits for DNS."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from crawler.frontier import Frontier
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

if TYPE_CHECKING:
    from crawler.dns.resolver import Resolver
    from crawler.scheduling.lease_pool import LeasePool

logger = logging.getLogger(__name__)

# Seconds between two shards; more while no shard has hosts. If many names are new, as with a list
# of seeds, the pause is shorter and more hosts are read.
_EVERY_S = 0.5
_IDLE_S = 2.0
_SOON_S = 0.1
_WITHIN_MS = 3000
_HOSTS_MIN, _HOSTS_MAX = 32, 256
_AHEAD_A_NAME = 16
# Least seconds between two lookups of a name here: a name that DNS does not answer is left to its
# fetch.
_AGAIN_S = 30.0
_ASKED_MAX = 10_000


class DnsPrefetch:
    """Background task that fills the resolver's cache."""

    def __init__(
        self,
        resolver: Resolver,
        frontier: Frontier,
        lease_pool: LeasePool,
        count: Callable[[str, int], None],
    ) -> None:
        self._resolver = resolver
        self._frontier = frontier
        self._lease_pool = lease_pool
        self._count = count
        self._asked: OrderedDict[str, float] = OrderedDict()
        self._ahead = _HOSTS_MIN
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the task, if it was started."""
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        empty = 0
        for turn in count():
            order = self._lease_pool.shard_order
            try:
                empty = 0 if await self.prefetch_shard(order[turn % len(order)]) else empty + 1
            except RedisAway as error:
                logger.debug("Cannot read the hosts that are next: %s", error)
            except Exception:
                # Fetches look names up too, so nothing depends on this task.
                logger.exception("Looking up names ahead failed; trying again")
            pause = _EVERY_S if empty < len(order) else _IDLE_S
            await asyncio.sleep(_SOON_S if self._ahead > _HOSTS_MIN else pause)

    async def prefetch_shard(self, shard: int) -> bool:
        """Look up the hosts that are next in a shard; return whether there are any."""
        most, self._ahead = self._ahead, _HOSTS_MIN
        hosts = await self._frontier.upcoming_hosts(shard, within_ms=_WITHIN_MS, most=most)
        now = monotonic()
        new = [host for host in hosts if self._asked.get(host, 0.0) <= now]
        started = self._resolver.prefetch(new)
        for host in started:
            self._asked[host] = now + _AGAIN_S
            self._asked.move_to_end(host)
        while len(self._asked) > _ASKED_MAX:
            self._asked.popitem(last=False)
        self._ahead = min(max(_HOSTS_MIN, _AHEAD_A_NAME * len(started)), _HOSTS_MAX)
        if started:
            self._count("dns/prefetched", len(started))
        return bool(hosts)
