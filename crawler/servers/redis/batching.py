"""Share round trips to Redis: what many tasks ask for at the same time is sent as one pipeline.

A round trip costs a client ten times as much as a command does. One pipeline is on its way, the
next takes all that was asked meanwhile; whoever asks alone is answered at once. Each master of a
cluster has pipelines of its own: one that is away or slow keeps nobody waiting who asks another.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from redis.exceptions import RedisClusterException, ResponseError

from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import CutOff, translated

# A name and its arguments. Each has the keys of one slot, so that a cluster takes them too.
Command = tuple[Any, ...]
# Some of them, and who waits for the answers.
_Asked = tuple[asyncio.Future[list[Any]], tuple[Command, ...]]


class CommandBatcher:
    """Those of one client. As many wait as tasks ask."""

    # By the id of the client, which lives as long as this does.
    _of_clients: ClassVar[WeakValueDictionary[int, CommandBatcher]] = WeakValueDictionary()

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._is_cluster = hasattr(redis, "get_node_from_key")
        # By server, of those that are being asked: what waits, and who sends it.
        self._asked: dict[str, list[_Asked]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def for_client(cls, redis: Client) -> CommandBatcher:
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
        server = self._server(commands[0])
        self._asked.setdefault(server, []).append((answered, commands))
        if server not in self._tasks:
            self._tasks[server] = asyncio.create_task(self._send_all(server))
        return await answered

    def _server(self, command: Command) -> str:
        """Which of a cluster's servers a command is for, as far as the client knows by now."""
        if not self._is_cluster:
            return ""
        key = command[3] if command[0] == "EVAL" else command[1]
        try:
            return str(self._redis.get_node_from_key(key).name)
        except RedisClusterException:
            # None has its slot: the answer says so.
            return ""

    async def _send_all(self, server: str) -> None:
        try:
            while asked := self._asked.pop(server, None):
                await self._send(asked)
        finally:
            del self._tasks[server]
            # Only if this task was ended.
            for answered, _ in self._asked.pop(server, ()):
                answered.cancel()

    async def _send(self, asked: list[_Asked]) -> None:
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
    elif isinstance(error, (ResponseError, CutOff)):
        answered.set_exception(translated(error))
    else:
        answered.set_exception(error)
