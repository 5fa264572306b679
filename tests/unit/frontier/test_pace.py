"""Flushes of a busy process are some milliseconds apart, those of an idle one follow at once."""

import asyncio

import pytest

from crawler.frontier.outbox import Pace


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited for each flush, on a clock that moves only then."""
    found: list[float] = []
    now = 1000.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        found.append(round(seconds, 6))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr("crawler.frontier.outbox.monotonic", lambda: now)
    return found


async def test_a_process_with_nothing_under_way_waits_for_nothing(slept: list[float]) -> None:
    pace = Pace()
    for _ in range(3):
        await pace.next()
    assert slept == []


@pytest.mark.parametrize(("under_way", "gap_s"), [(1, 0.001), (5, 0.005), (20, 0.02), (1000, 0.02)])
async def test_the_more_is_under_way_the_farther_apart_flushes_are(
    under_way: int, gap_s: float, slept: list[float]
) -> None:
    pace = Pace(lambda: under_way)
    await pace.next()
    # The first one begins at once.
    assert slept == []
    await pace.next()
    await pace.next()
    assert slept == [gap_s, gap_s]


async def test_time_that_passed_since_the_last_flush_counts(slept: list[float]) -> None:
    pace = Pace(lambda: 20)
    await pace.next()
    await asyncio.sleep(0.015)
    await pace.next()
    await asyncio.sleep(5)
    await pace.next()
    assert slept == [0.015, 0.005, 5]
