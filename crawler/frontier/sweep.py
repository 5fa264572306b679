"""Search the queues for URLs that are wanted sooner, and move them.

URLs wait in long lists, where one cannot be found by its id. So `Frontier.lift` and
`Frontier.bring_forward` only note what is wanted, and a sweep reads the lists from end to end, a
thousand URLs a call: the front queues, the back queues of the hosts concerned, the delay queue. A
call moves what it finds in one step, so that a URL is in one place at any time, whatever dies. What
is not found does not wait any more, and is forgotten at the end of the sweep.

One process of a fleet sweeps at a time (on a cluster one for each shard). It takes about half a
percent of a server's time: 10,000 URLs a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from crawler.frontier import keys
from crawler.frontier.frontier import Frontier
from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import RedisAway
from crawler.util.tasks import end

logger = logging.getLogger(__name__)

# Between two looks whether something is wanted. A search for it reads all queues, however few URLs
# are wanted: after it as long as it took, but not longer than this.
_EVERY_S = 2.0
_AFTER_MAX_S = 10.0
# URLs that a call reads, which takes Redis 0.3 to 0.6 ms; URLs that it moves; and the time between
# two calls.
_READ_MAX = 1000
_MOVED_MAX = 50
_PAUSE_S = 0.1
# The turn of a process that died ends after this time.
_TURN_S = 10.0
# Hosts that one call looks at, and URLs at the beginning of each of their back queues.
_HOSTS = 100
_BACK_DEPTH = 10_000
_WORST = 5


class Sweeper:
    """Task that sweeps the shards of a crawl whenever something is wanted."""

    def __init__(
        self,
        redis: Client,
        frontier: Frontier,
        count: Callable[[str, int], None] = lambda _name, _by: None,
        *,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._frontier = frontier
        self._scripts = frontier.scripts
        self._redis = redis
        self._count = count
        self._pause_s = pause_s
        # Key of the turn that this process has, and until when it need not be renewed.
        self._turn = ""
        self._renew_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._sweep_forever())

    async def close(self) -> None:
        """Stop the task. The next sweep, of any process, looks for the same URLs again."""
        if self._task is not None:
            await end(self._task)
            if self._turn:
                with suppress(*RedisAway):
                    await self._redis.delete(self._turn)

    async def _sweep_forever(self) -> None:
        wait_s = _EVERY_S
        while True:
            await asyncio.sleep(wait_s)
            began_s = monotonic()
            try:
                await self.sweep_all()
            except RedisAway as error:
                logger.debug("The sweep waits: %s", error)
            except Exception:
                # The order of URLs is not worth stopping for.
                logger.exception("A sweep failed; trying again")
            wait_s = max(_EVERY_S, min(monotonic() - began_s, _AFTER_MAX_S))

    async def sweep_all(self, *, now_ms: int = 0) -> int:
        """Sweep those shards that no other process sweeps now; return how many URLs were moved."""
        moved = 0
        for shard in range(self._frontier.shards):
            # One server serves all its shards, so one turn is for all of them.
            place = 0 if self._frontier.has_one_server else shard
            turn = keys.sweeper(self._scripts.tags[place])
            if await self._take(turn):
                moved += await self._sweep(shard, now_ms)
                await self._redis.delete(turn)
                self._turn = ""
        return moved

    async def _take(self, turn: str) -> bool:
        owner, ttl_ms = self._frontier.owner, round(_TURN_S * 1000)
        if not await self._redis.set(turn, owner, nx=True, px=ttl_ms):
            return False
        self._turn, self._renew_s = turn, monotonic() + _TURN_S / 4
        return True

    async def _sweep(self, shard: int, now_ms: int) -> int:
        lifts, forwards = await self._scripts.run("sweep", shard, 0)
        lifted = forwarded = 0
        if lifts:
            for queue in range(_WORST, 1, -1):
                lifted += await self._sweep_front(shard, queue)
            # Now, since those that were routed meanwhile are here.
            lifted += await self._sweep_back(shard)
        if forwards:
            forwarded = await self._sweep_delayed(shard, now_ms)
        if lifts or forwards:
            await self._scripts.run("sweep", shard, 1)
        self._count("frontier/lifted", lifted)
        self._count("frontier/brought_forward", forwarded)
        return lifted + forwarded

    async def _sweep_front(self, shard: int, queue: int) -> int:
        at: int | bytes = b""
        last: int | bytes = b""
        moved = 0
        while at == b"" or at != last:
            at, last, found = await self._scripts.run(
                "lift_front", shard, queue, at, last, _READ_MAX, _MOVED_MAX
            )
            moved += found
            await self._pause()
        return moved

    async def _sweep_back(self, shard: int) -> int:
        moved = 0
        hosts = await self._hosts(shard)
        for start in range(0, len(hosts), _HOSTS):
            left, queue, skip = hosts[start : start + _HOSTS], _WORST, 0
            while left:
                done, queue, skip, found = await self._scripts.run(
                    *("lift_back", shard, queue, skip),
                    *(_READ_MAX, _BACK_DEPTH, _MOVED_MAX, *left),
                )
                del left[:done]
                moved += found
                await self._pause()
        return moved

    async def _hosts(self, shard: int) -> list[bytes]:
        """Return the hosts of the URLs that are still to be lifted."""
        key, hosts = keys.lifts(self._scripts.tags[shard]), set()
        async for _, wish in self._redis.hscan_iter(key, count=_READ_MAX):
            hosts.add(wish.partition(b" ")[2])
        return sorted(hosts)

    async def _sweep_delayed(self, shard: int, now_ms: int) -> int:
        due, skip, moved = b"", 0, 0
        while True:
            found: int
            due, skip, found = await self._scripts.run(
                "forward", shard, due, skip, _READ_MAX, _MOVED_MAX, now_ms
            )
            moved += found
            if not due:
                return moved
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._pause_s)
        if monotonic() > self._renew_s:
            self._renew_s = monotonic() + _TURN_S / 4
            await self._redis.pexpire(self._turn, round(_TURN_S * 1000))
