"""Share round trips to Redis: what many tasks ask for at the same time is sent as one pipeline.

A round trip costs a client ten times as much as a command does. One pipeline is on its way, the
next takes all that was asked meanwhile; whoever asks alone is answered at once.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from redis.exceptions import ResponseError

from crawler.frontier.connection import Client
from crawler.frontier.errors import translated

# A name and its arguments. Each has the keys of one slot, so that a cluster takes them too.
Command = tuple[Any, ...]


class RoundTrips:
    """Those of one client. As many wait as tasks ask."""

    # By the id of the client, which lives as long as this does.
    _of_clients: ClassVar[WeakValueDictionary[int, RoundTrips]] = WeakValueDictionary()

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._asked: list[tuple[asyncio.Future[list[Any]], tuple[Command, ...]]] = []
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, redis: Client) -> RoundTrips:
        """What all who use this client share."""
        found = cls._of_clients.get(id(redis))
        if found is None:
            found = cls._of_clients[id(redis)] = cls(redis)
        return found

    async def ask(self, *commands: Command) -> list[Any]:
        """The answers to some commands, which are carried out in this order on one server.

        Raises what Redis refuses, as one of RedisAway if it does so only for a while.
        """
        answered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._asked.append((answered, commands))
        if self._task is None:
            self._task = asyncio.create_task(self._send_all())
        return await answered

    async def _send_all(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                await self._send(asked)
        finally:
            self._task = None
            # Only if this task was ended.
            for answered, _ in self._asked:
                answered.cancel()

    async def _send(
        self, asked: list[tuple[asyncio.Future[list[Any]], tuple[Command, ...]]]
    ) -> None:
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for _, commands in asked:
                for command in commands:
                    pipeline.execute_command(*command)
            found = iter(await pipeline.execute(raise_on_error=False))
        except BaseException as error:
            for answered, _ in asked:
                _fail(answered, error)
            if not isinstance(error, Exception):
                raise
            return
        for answered, commands in asked:
            answers = [next(found) for _ in commands]
            refused = next((each for each in answers if isinstance(each, Exception)), None)
            if refused is not None:
                _fail(answered, refused)
            elif not answered.done():
                answered.set_result(answers)


def _fail(answered: asyncio.Future[list[Any]], error: BaseException) -> None:
    if answered.done():
        return
    if isinstance(error, asyncio.CancelledError):
        answered.cancel()
    elif isinstance(error, ResponseError):
        answered.set_exception(translated(error))
    else:
        answered.set_exception(error)
