"""Share round trips to Redis: commands of many tasks are sent in one pipeline.

A round trip costs a client ten times as much as a command. One pipeline is on its way, and the next
one takes all commands that came meanwhile; a single command is sent at once. Each master of a
cluster has its own pipelines: one that is away or slow does not delay the others.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from redis.exceptions import RedisClusterException, ResponseError

from crawler.servers.redis.connection import Client
from crawler.servers.redis.errors import CutOff, translated

# Name of a command and its arguments. Its keys are in one slot, so that a cluster accepts it.
Command = tuple[Any, ...]
# Commands, and the future of their answers.
_Asked = tuple[asyncio.Future[list[Any]], tuple[Command, ...]]


class CommandBatcher:
    """Commands of one client on their way to its servers."""

    # By the id of the client, which lives as long as its batcher.
    _of_clients: ClassVar[WeakValueDictionary[int, CommandBatcher]] = WeakValueDictionary()

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._is_cluster = hasattr(redis, "get_node_from_key")
        # By server: commands that wait, and the task that sends them.
        self._asked: dict[str, list[_Asked]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @classmethod
    def for_client(cls, redis: Client) -> CommandBatcher:
        """Return the batcher that all users of this client share."""
        found = cls._of_clients.get(id(redis))
        if found is None:
            found = cls._of_clients[id(redis)] = cls(redis)
        return found

    async def ask(self, *commands: Command) -> list[Any]:
        """Return the answers to commands, which one server executes in this order.

        Raises the error of a refused command: one of RedisAway if the refusal is temporary.
        """
        answered: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        server = self._server(commands[0])
        self._asked.setdefault(server, []).append((answered, commands))
        if server not in self._tasks:
            self._tasks[server] = asyncio.create_task(self._send_all(server))
        return await answered

    def _server(self, command: Command) -> str:
        """Return the server of a cluster that has a command's key, as far as the client knows."""
        if not self._is_cluster:
            return ""
        key = command[3] if command[0] == "EVAL" else command[1]
        try:
            return str(self._redis.get_node_from_key(key).name)
        except RedisClusterException:
            # No server has its slot: the answer says so.
            return ""

    async def _send_all(self, server: str) -> None:
        try:
            while asked := self._asked.pop(server, None):
                await self._send(asked)
        finally:
            del self._tasks[server]
            # There are some only if this task was cancelled.
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
