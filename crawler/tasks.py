"""End a background task for good."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_S = 0.5


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task and return when it has ended.

    Again and again: on Python 3.11 asyncio.wait_for(), which the Redis client uses, loses a
    cancellation that comes together with its result.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN_S)
