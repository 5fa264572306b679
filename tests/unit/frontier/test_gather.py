"""Calls to several shards: one that fails keeps the others from nothing."""

from collections.abc import Coroutine
from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from crawler.frontier.frontier import gather

AWAY, WRONG = RedisConnectionError("away"), ValueError("wrong")


class Shards:
    """Some that answer with their number, and some that fail."""

    def __init__(self, **errors: Exception) -> None:
        self.called: list[int] = []
        self._errors = errors

    async def call(self, number: int) -> int:
        self.called.append(number)
        if (error := self._errors.get(f"s{number}")) is not None:
            raise error
        return number

    @property
    def calls(self) -> list[Coroutine[Any, Any, int]]:
        return [self.call(number) for number in range(4)]


async def test_answers_come_in_the_order_of_the_calls() -> None:
    assert await gather(Shards().calls) == [0, 1, 2, 3]
    assert await gather([]) == []


@pytest.mark.parametrize("error", [AWAY, WRONG])
async def test_an_error_of_any_kind_is_raised_when_all_were_called(error: Exception) -> None:
    shards = Shards(s1=error)
    with pytest.raises(type(error)):
        await gather(shards.calls)
    assert sorted(shards.called) == [0, 1, 2, 3]


async def test_what_is_worth_another_try_is_raised_before_what_is_not() -> None:
    with pytest.raises(RedisConnectionError):
        await gather(Shards(s1=WRONG, s3=AWAY).calls)
