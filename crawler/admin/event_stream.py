"""One stream of events for all listeners, up to a limit: the crawl is asked once for all of them.

There are several sources of events, each with its own interval. Nothing is queued: a slow listener
misses events, and gets the newest of each source.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from crawler.errors import CrawlerError
from crawler.servers.redis.errors import RedisAway

logger = logging.getLogger(__name__)

MAX_LISTENERS = 20
# After this time without news a comment is sent, so that both sides notice a dead connection.
HEARTBEAT_S = 10.0


class Full(Exception):
    """Refusal of a listener: MAX_LISTENERS are there already."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """Source of events: their name, the function that reads one, and its interval."""

    name: str
    read: Callable[[], Awaitable[str]]
    interval_s: float = 1.0


class EventStream:
    """Events from several sources, read only while somebody listens."""

    def __init__(self, *sources: EventSource) -> None:
        self._sources = sources
        self._news = asyncio.Event()
        self._number = 0
        # Name of a source -> number of its newest event, and its text.
        self._newest: dict[str, tuple[int, str]] = {}
        self._listeners = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._news.set()

    def listen(self) -> AsyncIterator[str]:
        """Return server-sent events from now on, or raise Full."""
        if self._listeners >= MAX_LISTENERS:
            raise Full
        return self._events()

    async def _events(self) -> AsyncIterator[str]:
        # Counted here: a generator that is never started is never closed either.
        self._listeners += 1
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._read_forever(source)) for source in self._sources]
        heard = 0
        try:
            yield "retry: 2000\n\n"
            while not self._closed:
                news = self._news
                if self._number > heard:
                    before, heard = heard, self._number
                    yield "".join(text for at, text in self._newest.values() if at > before)
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        await news.wait()
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1
            if self._listeners == 0:
                for task in self._tasks:
                    task.cancel()
                self._tasks = []
                self._newest = {}

    async def _read_forever(self, source: EventSource) -> None:
        while not self._closed:
            try:
                text = event(source.name, await source.read())
            except (CrawlerError, *RedisAway) as error:
                text = event("trouble", str(error) or type(error).__name__)
            except Exception:
                logger.exception("The crawl's figures could not be read; trying again")
                text = event("trouble", "The figures could not be read; the log says more.")
            self._number += 1
            self._newest[source.name] = self._number, text
            news, self._news = self._news, asyncio.Event()
            news.set()
            await asyncio.sleep(source.interval_s)


def event(name: str, data: str) -> str:
    """Format a server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"
