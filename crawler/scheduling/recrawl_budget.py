"""Keep the plan of a budget for recrawls in step with the fleet.

Every two seconds a process adds its news to the fleet's counts, and finds the prices for them. All
processes come to the same prices, since these depend on the counts only; so nobody leads.
"""

from __future__ import annotations

import asyncio
import logging

from crawler.frontier import Frontier
from crawler.frontier.recrawl_counts import RecrawlCounts
from crawler.scheduling.recrawl_plan import HostSums, RecrawlPlan, Unsent
from crawler.scheduling.recrawls import Recrawls
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

logger = logging.getLogger(__name__)

_EVERY_S = 2.0
# After a change of the budget, all shards are told in so many of these times: the frontier takes no
# second change within five seconds.
_TOLD = 4


class RecrawlBudget:
    """Task that keeps the plan of this process in step, while there is a budget."""

    def __init__(
        self, redis: Client, frontier: Frontier, recrawls: Recrawls, *, ends_when_idle: bool = False
    ) -> None:
        """`ends_when_idle`: the process does not wait for recrawls (CRAWL_IDLE)."""
        self._frontier = frontier
        self._counts = RecrawlCounts(redis, frontier)
        self._recrawls = recrawls
        self._warns = ends_when_idle
        self._per_s: float | None = None
        self._to_tell = 0
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._sync_forever())

    async def close(self) -> None:
        """Stop the task, and send what is left."""
        if self._task is not None:
            await end(self._task)
            plan = self._recrawls.plan
            if plan is not None:
                await self._send(plan)

    def apply(self) -> None:
        """Let the frontier keep to the budget that holds now."""
        if self._recrawls.policy is None:
            self._per_s, self._to_tell = None, 0
            self._frontier.set_recrawl_budget(None)
            return
        plan = self._recrawls.plan
        per_s = plan.budget.per_s if plan is not None else 0
        if per_s != self._per_s:
            self._per_s, self._to_tell = per_s, _TOLD
        if plan is not None and self._warns:
            self._warns = False
            logger.warning(
                "recrawl is a budget, but with CRAWL_IDLE = 'close' this run ends when no new URLs "
                "are left, and few recrawls have had their turns by then; use -s CRAWL_IDLE=wait"
            )
        self._frontier.set_recrawl_budget(per_s, longest_s=self._recrawls.longest_s)

    async def sync(self) -> None:
        """Send the news of this process, and take over prices and hosts as they are now."""
        if self._to_tell:
            # A shard may have nothing that is due for long.
            await self._frontier.promote(0)
            self._to_tell -= 1
        plan = self._recrawls.plan
        if plan is None:
            return
        counts = await self._send(plan)
        if counts is None:
            return
        sizes = await self._frontier.sizes_by_shard()
        recrawls = [each.recrawls for each in sizes]
        under_way = sum(each.waiting + each.leased for each in sizes)
        plan.prices = await asyncio.to_thread(
            plan.priced, *counts, least=sum(recrawls), most=sum(recrawls) + under_way
        )
        if self._recrawls.plan is plan:
            self._frontier.set_recrawl_budget(
                plan.budget.per_s, recrawls, longest_s=self._recrawls.longest_s
            )

    async def _send(self, plan: RecrawlPlan) -> tuple[dict[int, int], float] | None:
        """Send what is new; None if Redis is away, and it is sent the next time."""
        unsent = plan.take_unsent()
        try:
            counts = await self._counts.add_classes(unsent.classes, unsent.per_s)
            unsent = Unsent(hosts=unsent.hosts)
            totals = await self._counts.add_hosts(unsent.hosts)
        except RedisAway as error:
            plan.put_back(unsent)
            logger.debug("The counts of recrawls wait: %s", error)
            return None
        plan.learn({host: HostSums(*sums) for host, sums in totals.items()})
        return counts

    async def _sync_forever(self) -> None:
        while True:
            try:
                await self.sync()
            except RedisAway as error:
                logger.debug("The budget of recrawls waits: %s", error)
            except Exception:
                # A budget that is a little wrong is not worth stopping for.
                logger.exception("The budget of recrawls could not be planned; trying again")
            await asyncio.sleep(_EVERY_S)
