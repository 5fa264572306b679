"""The fleet's figures in Redis: totals of the crawl, and one hash a minute for the last two hours.

A process adds what it counted since its last acknowledged beat. When a reply is lost, the same
difference is sent again: the figures of that one beat (two seconds of one process) may then count
twice. Nothing is ever missed but what a killed process counted after its last beat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawler.frontier import keys
from crawler.frontier.connection import Client
from crawler.frontier.errors import executed

MINUTE_S = 60
KEPT_S = 2 * 60 * MINUTE_S
MINUTES_MAX = KEPT_S // MINUTE_S


class Ledger:
    """One crawl's figures."""

    def __init__(self, redis: Client, crawl: str) -> None:
        self._redis = redis
        self._crawl = crawl
        self._acknowledged: dict[str, int] = {}

    async def add(self, figures: Mapping[str, int], *, now_s: float) -> None:
        """Add what a process counted since it last got through; `figures` are since its start."""
        grown = {
            name: by
            for name, count in figures.items()
            if (by := count - self._acknowledged.get(name, 0))
        }
        if not grown:
            return
        totals = keys.totals(self._crawl)
        minute = keys.minute(self._crawl, int(now_s) // MINUTE_S)
        # All keys are in one slot: on one server this is a transaction.
        pipeline = self._redis.pipeline()
        for name, by in grown.items():
            pipeline.hincrby(totals, name, by)
            pipeline.hincrby(minute, name, by)
        pipeline.expire(minute, KEPT_S)
        await executed(pipeline)
        self._acknowledged.update(figures)

    async def totals(self) -> dict[str, int]:
        """Since the crawl was created."""
        return _numbers(await self._redis.hgetall(keys.totals(self._crawl)))

    async def minutes(self, count: int, *, now_s: float) -> Sequence[tuple[int, dict[str, int]]]:
        """Start of each of the last minutes (epoch seconds) and its figures; this one is last."""
        last = int(now_s) // MINUTE_S
        wanted = range(last - min(count, MINUTES_MAX) + 1, last + 1)
        pipeline = self._redis.pipeline()
        for minute in wanted:
            pipeline.hgetall(keys.minute(self._crawl, minute))
        answers = await pipeline.execute()
        return [
            (minute * MINUTE_S, _numbers(found))
            for minute, found in zip(wanted, answers, strict=True)
        ]


def _numbers(found: Mapping[bytes, bytes]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in found.items()}
