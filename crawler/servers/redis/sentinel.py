"""Stay with the master that Sentinel names.

redis-py asks Sentinel when it makes a connection. A connection that lives on, or is in use when the
master changes, stays with the old one. If that is not dead (it hung, or was started again), it
takes writes until Sentinel makes it a replica, about ten seconds later, and all of them are lost.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import Any

from redis.asyncio.sentinel import SentinelConnectionPool
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)

# Seconds between two questions to Sentinel while commands are sent.
_EVERY_S = 1.0


class MasterPool(SentinelConnectionPool):
    """Pool of connections to a master. All of them are made anew when there is another one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        # Address of the last answer.
        self._named: tuple[str, int] | None = None
        self._asked_at = monotonic()
        self._asking: asyncio.Task[None] | None = None

    async def get_connection(self, *args: Any, **kwargs: Any) -> Any:
        if monotonic() - self._asked_at > _EVERY_S and self._asking is None:
            # In the background: a Sentinel that is silent holds up no command.
            self._asking = asyncio.get_running_loop().create_task(self._ask())
        connection = await super().get_connection(*args, **kwargs)  # type: ignore[no-untyped-call]
        if not self._leads_to_master(connection):
            # The master changed while this connection was made.
            try:
                await connection.disconnect(nowait=True)
                await connection.connect()
            except BaseException:
                await self.release(connection)
                raise
        return connection

    def _leads_to_master(self, connection: Any) -> bool:
        return bool((connection.host, connection.port) == self.master_address)

    async def _ask(self) -> None:
        try:
            with suppress(RedisError, OSError):
                await self.get_master_address()
        finally:
            self._asked_at, self._asking = monotonic(), None

    async def get_master_address(self) -> tuple[str, int]:
        address: tuple[str, int] = await super().get_master_address()  # type: ignore[no-untyped-call]
        # Many connections may ask at the same time.
        if self._named not in (None, address):
            logger.info("Sentinel names another master: %s:%d", *address)
        self._named = address
        return address

    async def release(self, connection: Any) -> None:
        # Those that were idle when the master changed are closed already.
        if not self._leads_to_master(connection):
            await connection.disconnect(nowait=True)
        await super().release(connection)

    async def disconnect(self, inuse_connections: bool = True) -> None:
        if inuse_connections and self._asking is not None:
            # The client is closed.
            self._asking.cancel()
        await super().disconnect(inuse_connections)
