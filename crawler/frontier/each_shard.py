"""Call several shards, whose servers come and go by themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from crawler.frontier.errors import RedisAway

T = TypeVar("T")


async def each_shard(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """The answers to calls, one after the other.

    A shard whose server is away keeps the others from nothing: its error is raised at the end.
    """
    answers: list[T] = []
    away: Exception | None = None
    for call in calls:
        try:
            answers.append(await call())
        except RedisAway as error:
            away = error
    if away is not None:
        raise away
    return answers
