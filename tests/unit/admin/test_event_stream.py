"""One stream for all who listen, of several kinds of readings."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from crawler.admin.routes import MAX_LISTENERS, EventSource, EventStream, Full
from crawler.errors import CrawlerError


class Readings:
    def __init__(self) -> None:
        self.number = 0
        self.error: Exception | None = None

    async def read(self) -> str:
        self.number += 1
        if self.error is not None:
            raise self.error
        return str(self.number)


async def until(stream: AsyncIterator[str], wanted: str) -> str:
    async with asyncio.timeout(60):
        async for text in stream:
            if wanted in text:
                return text
    raise AssertionError(wanted)


async def test_each_kind_of_reading_has_its_events() -> None:
    often, seldom = Readings(), Readings()
    feed = EventStream(EventSource("a", often.read, 0.001), EventSource("b", seldom.read, 3600.0))
    stream = feed.listen()
    assert await anext(stream) == "retry: 2000\n\n"
    await until(stream, "event: b\ndata: 1\n\n")
    await until(stream, "event: a\ndata: 5\n\n")
    assert seldom.number == 1
    # Who comes later gets the newest of each at once.
    other = feed.listen()
    await anext(other)
    first = await anext(other)
    assert "event: a\n" in first
    assert "event: b\ndata: 1\n\n" in first
    feed.close()


async def test_nothing_is_read_when_nobody_listens() -> None:
    readings = Readings()
    feed = EventStream(EventSource("a", readings.read, 0.001))
    stream = feed.listen()
    await until(stream, "event: a")
    await stream.aclose()  # type: ignore[attr-defined]
    assert feed._listeners == 0
    number = readings.number
    for _ in range(20):
        await asyncio.sleep(0)
    assert readings.number == number


@pytest.mark.parametrize("error", [CrawlerError("no crawl"), ConnectionError("away")])
async def test_trouble_is_told_and_passes(error: Exception) -> None:
    readings = Readings()
    readings.error = error
    feed = EventStream(EventSource("a", readings.read, 0.001))
    stream = feed.listen()
    await until(stream, f"event: trouble\ndata: {error}\n\n")
    readings.error = None
    await until(stream, "event: a")
    feed.close()


async def test_listeners_have_a_limit() -> None:
    feed = EventStream(EventSource("a", Readings().read))
    streams = [feed.listen() for _ in range(MAX_LISTENERS)]
    for stream in streams:
        await anext(stream)
    with pytest.raises(Full):
        feed.listen()
    await streams[0].aclose()  # type: ignore[attr-defined]
    feed.listen()
    feed.close()
