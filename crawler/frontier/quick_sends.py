"""Send short commands to Redis without a task for each.

On Python 3.11 redis-py starts one for the time limit of a send. What the transport takes at once
needs no limit; its answer has one, as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redis.asyncio.connection import AbstractConnection

# Below what makes a writer wait for the other side, asyncio's high-water mark of 64 KiB.
_AT_ONCE_BYTES = 32 * 1024


class QuickSends(AbstractConnection):
    """A connection of any kind, see quick()."""

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        limit_s = self.socket_timeout
        if self._goes_at_once(command):
            self.socket_timeout = None
        try:
            await super().send_packed_command(command, check_health)
        finally:
            self.socket_timeout = limit_s

    def _goes_at_once(self, command: Any) -> bool:
        writer = self._writer
        # Checks of its health wait for answers, and so does connecting.
        if writer is None or not self.is_connected or self.health_check_interval:
            return False
        if not isinstance(command, list):
            return False
        waiting: int = writer.transport.get_write_buffer_size()
        return waiting + sum(map(len, command)) < _AT_ONCE_BYTES


def quick(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """The same kind of connection, which sends so."""
    return type(f"Quick{kind.__name__}", (QuickSends, kind), {})
