"""Call several shards, whose servers come and go by themselves.

At the same time: one that hangs takes as long as it takes, and no longer for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from crawler.frontier.errors import RedisAway

T = TypeVar("T")

Call = Callable[[], Awaitable[T]]


async def each_shard(calls: Iterable[Call[T]]) -> list[T]:
    """The answers to calls.

    One that fails keeps the others from nothing: its error is raised at the end. That of a server
    that is away comes before any other: sent again, the others' calls fail for themselves.
    """
    return raised_at_the_end(await outcomes(calls))


def raised_at_the_end(found: list[Any]) -> list[Any]:
    """What became of calls, if all of them were answered."""
    failed = [outcome for outcome in found if isinstance(outcome, BaseException)]
    if failed:
        raise next((error for error in failed if isinstance(error, RedisAway)), failed[0])
    return found


async def those_that_answer(calls: Iterable[Call[T]]) -> list[T]:
    """The answers of the servers that are there; an error if none is, or if it is another one."""
    found = await outcomes(calls)
    answers = [outcome for outcome in found if not isinstance(outcome, RedisAway)]
    failed = [outcome for outcome in answers or found if isinstance(outcome, BaseException)]
    if failed:
        raise failed[0]
    return answers


async def outcomes(calls: Iterable[Call[Any]]) -> list[Any]:
    """What became of each call: its answer, or its error."""
    coming = [call() for call in calls]
    if len(coming) == 1:
        # As in most crawls: no task is needed.
        try:
            return [await coming[0]]
        except Exception as error:  # noqa: BLE001 - as gather() does
            return [error]
    return await asyncio.gather(*coming, return_exceptions=True)
