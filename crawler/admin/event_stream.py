"""One stream of readings for all who listen, up to a limit: the crawl is asked once for all.

There are several kinds of readings, each with its own interval. Nothing is queued: who is slow
misses readings and gets the newest of each kind.
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
# Without news for so long a comment is sent, so that both sides know that the other is there.
HEARTBEAT_S = 10.0


class Full(Exception):
    """There are as many listeners as there may be."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """A kind of readings: the name of its events, how to read, and how often."""

    name: str
    read: Callable[[], Awaitable[str]]
    interval_s: float = 1.0


class EventStream:
    """Reads while somebody listens, and no longer."""

    def __init__(self, *sources: EventSource) -> None:
        self._sources = sources
        self._news = asyncio.Event()
        self._number = 0
        # Name of a source -> number of its newest reading, and its text.
        self._newest: dict[str, tuple[int, str]] = {}
        self._listeners = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

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
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._read_forever(one)) for one in self._sources]
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
    """One event as it is sent."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"
