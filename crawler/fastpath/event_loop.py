"""Keep the steps of the event loop short when many responses arrive at once.

asyncio handles everything that has arrived before it looks at timers again. With a hundred fetches
in flight that may be a hundred pages to read: a tenth of a second in which no heartbeat is sent and
no deadline noticed. Works on asyncio's own event loop with epoll; others stay as they are.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any

# Sockets that are served before timers are looked at again: some 15 ms for pages of the web.
EVENTS_MAX = 16


class FewEvents:
    """Epoll object that reports few events at a time; the kernel reports the others in turn."""

    def __init__(self, epoll: Any) -> None:
        self._poll = epoll.poll
        self.register, self.modify, self.unregister = epoll.register, epoll.modify, epoll.unregister
        self.fileno, self.close = epoll.fileno, epoll.close

    def poll(self, timeout: float, max_events: int) -> list[tuple[int, int]]:
        """Wait for events, at most `EVENTS_MAX` of them."""
        found: list[tuple[int, int]] = self._poll(timeout, min(max_events, EVENTS_MAX))
        return found


def take_over(loop: asyncio.AbstractEventLoop) -> None:
    """Let an event loop serve few sockets at a time."""
    selector: Any = getattr(loop, "_selector", None)
    # There is no public way to the epoll object of a selector.
    epoll = getattr(selector, "_selector", None)
    if hasattr(select, "epoll") and isinstance(epoll, select.epoll):
        selector._selector = FewEvents(epoll)  # noqa: SLF001
