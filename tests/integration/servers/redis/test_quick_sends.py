"""Short commands are sent without tasks, long ones and lost connections are handled as ever."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the coroutines that became tasks of this loop."""
    made: list[str] = []
    loop = asyncio.get_event_loop()
    make = loop.create_task

    def note(coro: Any, **arguments: Any) -> Any:
        made.append(coro.__qualname__)
        return make(coro, **arguments)

    monkeypatch.setattr(loop, "create_task", note)
    return made


async def test_a_short_command_starts_no_task(redis_client: Any, tasks: list[str]) -> None:
    await redis_client.set("quick-sends", "short")
    tasks.clear()
    assert await redis_client.get("quick-sends") == b"short"
    assert tasks == []


async def test_a_long_command_keeps_its_time_limit(redis_client: Any, tasks: list[str]) -> None:
    value = b"x" * 200_000
    await redis_client.set("quick-sends", value)
    assert any("_send_packed_command" in name for name in tasks)
    assert await redis_client.get("quick-sends") == value


async def test_answers_keep_their_time_limit(redis_client: Any) -> None:
    pool = redis_client.connection_pool
    connection = await pool.get_connection()
    connection.socket_timeout = 0.05
    await pool.release(connection)
    with pytest.raises(RedisTimeoutError):
        await redis_client.blpop(["quick-sends-never"], timeout=30)
    # The connection that was given up on is made anew; that may take its time.
    connection.socket_timeout = 30
    assert await redis_client.ping()


async def test_a_connection_that_was_closed_is_an_error_and_the_next_works(
    redis_client: Any, redis_url: str
) -> None:
    number = await redis_client.client_id()
    async with Redis.from_url(redis_url) as other:
        await other.client_kill_filter(_id=str(number))
    # Noticed when it is used, or before.
    with suppress(RedisConnectionError):
        await redis_client.ping()
    assert await redis_client.ping()
