"""Let pages take turns, so that a round of the event loop lasts some milliseconds only.

Pages that arrive together, or wait for the same answer of a server, go on in the same round of the
event loop. Each keeps it busy for about a millisecond. With a hundred of them nothing else would
run for a tenth of a second: no timer, no answer that is read, no request that is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Self

from crawler.util.per_crawler import shared

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

# Time for pages in a round; and pages that go on together after a wait.
_ROUND_S = 0.005
_TOGETHER = 4


class Turns:
    """Turns of the tasks of one event loop. Those that wait go on in the order in which they came.

    Before a step that takes long: `if turns.are_over(): await turns.next()`.
    """

    def __init__(self, round_s: float = _ROUND_S, together: int = _TOGETHER) -> None:
        self._round_s = round_s
        self._together = together
        # When this round's time is used up; None: no page has gone on in this round.
        self._until_s: float | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        return shared(cls, crawler, cls)

    def are_over(self) -> bool:
        """Return whether the time of this round is used up, or others wait already."""
        if self._until_s is None:
            self._begin()
            return False
        return bool(self._waiting) or monotonic() >= self._until_s

    async def next(self) -> None:
        """Wait for a later round."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        self._until_s = monotonic() + self._round_s
        # It runs in the next round.
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        self._until_s = None
        some = 0
        while self._waiting and some < self._together:
            turn = self._waiting.popleft()
            # Not if its task was cancelled.
            if not turn.done():
                turn.set_result(None)
                some += 1
        if some:
            self._begin()
