"""Wait for the address of a host, but not for long: a fetch that waits is one that others miss.

A lookup that takes longer goes on in the background, and whoever asks meanwhile is told: not yet.
That it failed is told to the next who asks. Bounded.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from time import monotonic

from crawler.fetch_errors import DnsFailed

# Most answers come in a tenth of this; where none comes, DNS_TIMEOUT is ten times as long.
_WAIT_S = 0.5
_SLOW_MAX = 1000
# A failure says nothing of the time after that.
_FAILED_S = 60.0


class Patience:
    """`look_up` makes sure that the address of a host is known, or raises."""

    def __init__(
        self, look_up: Callable[[str], Awaitable[None]], *, wait_s: float | None = None
    ) -> None:
        self._look_up = look_up
        self._wait_s = _WAIT_S if wait_s is None else wait_s
        self._slow: dict[str, asyncio.Future[None]] = {}
        # What became of them, if it was a failure, and until when that counts.
        self._failed: OrderedDict[str, tuple[DnsFailed, float]] = OrderedDict()

    async def look_up(self, host: str) -> bool:
        """Is the address known by now? If not, ask again; raises what the lookup raises."""
        if host in self._slow:
            return False
        failed, until = self._failed.pop(host, (None, 0.0))
        if failed is not None and monotonic() < until:
            raise failed
        lookup = asyncio.ensure_future(self._look_up(host))
        lookup.add_done_callback(_look_at)
        await asyncio.wait([lookup], timeout=self._wait_s)
        if lookup.done() or len(self._slow) >= _SLOW_MAX:
            await lookup
            return True
        if host in self._slow:
            # Another began with it at the same time: at another port, or in another slot.
            return False
        self._slow[host] = lookup
        lookup.add_done_callback(lambda _: self._ended(host, lookup))
        return False

    def close(self) -> None:
        """Nobody asks any more."""
        for lookup in list(self._slow.values()):
            lookup.cancel()

    def _ended(self, host: str, lookup: asyncio.Future[None]) -> None:
        del self._slow[host]
        error = None if lookup.cancelled() else lookup.exception()
        # Anything else is in the cache of answers.
        if isinstance(error, DnsFailed):
            self._failed[host] = (error, monotonic() + _FAILED_S)
            if len(self._failed) > _SLOW_MAX:
                self._failed.popitem(last=False)


def _look_at(lookup: asyncio.Future[None]) -> None:
    if not lookup.cancelled():
        lookup.exception()  # asyncio logs those that nobody looks at
