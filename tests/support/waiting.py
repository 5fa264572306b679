"""Wait for a condition that other tasks or processes fulfil.

The deadline is far beyond what a busy machine needs: it ends a test that would hang, and measures
nothing.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

DEADLINE_S = 120.0
_POLL_S = 0.01


async def until(
    condition: Callable[[], Any | Awaitable[Any]],
    what: str = "the condition holds",
    *,
    deadline_s: float = DEADLINE_S,
) -> Any:
    """Wait, while the event loop goes on, until `condition` gives something true; return that."""
    deadline = time.monotonic() + deadline_s
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"still not after {deadline_s:g} s: {what}"
        await asyncio.sleep(_POLL_S)


def wait_until(
    condition: Callable[[], Any],
    what: str = "the condition holds",
    *,
    deadline_s: float = DEADLINE_S,
) -> Any:
    """Block until `condition` gives something true; return that."""
    deadline = time.monotonic() + deadline_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not after {deadline_s:g} s: {what}"
        time.sleep(_POLL_S)
    return found
