"""One stream of readings for all who listen, up to a limit: the crawl is asked once for all.

Nothing is queued: who is slow misses readings and gets the newest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from crawler.errors import CrawlerError
from crawler.frontier import RedisAway

logger = logging.getLogger(__name__)

MAX_LISTENERS = 20
INTERVAL_S = 1.0
# Without news for so long a comment is sent, so that both sides know that the other is there.
HEARTBEAT_S = 10.0


class Full(Exception):
    """There are as many listeners as there may be."""


class Feed:
    """Reads while somebody listens, and no longer."""

    def __init__(self, read: Callable[[], Awaitable[str]], interval_s: float = INTERVAL_S) -> None:
        self._read = read
        self._interval_s = interval_s
        self._news = asyncio.Event()
        self._number = 0
        self._text = ""
        self._listeners = 0
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return self._listeners

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._news.set()

    def listen(self) -> AsyncIterator[str]:
        """Server-sent events from now on, or Full."""
        if self._listeners >= MAX_LISTENERS:
            raise Full
        return self._events()

    async def _events(self) -> AsyncIterator[str]:
        # Counted here: a stream that is never begun is never ended either.
        self._listeners += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read_forever())
        heard = 0
        try:
            yield "retry: 2000\n\n"
            while not self._closed:
                news = self._news
                if self._number > heard:
                    heard = self._number
                    yield self._text
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await news.wait()
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1
            if self._listeners == 0 and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _read_forever(self) -> None:
        while not self._closed:
            try:
                self._text = event("status", await self._read())
            except (CrawlerError, *RedisAway) as error:
                self._text = event("trouble", str(error) or type(error).__name__)
            except Exception:
                logger.exception("The crawl's figures could not be read; trying again")
                self._text = event("trouble", "The figures could not be read; the log says more.")
            self._number += 1
            news, self._news = self._news, asyncio.Event()
            news.set()
            await asyncio.sleep(self._interval_s)


def event(name: str, data: str) -> str:
    """One event as it is sent."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"
