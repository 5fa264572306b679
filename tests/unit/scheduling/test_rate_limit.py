"""The rate of a process is even, and exact enough."""

import math
import sys

import pytest

from crawler.scheduling.rate_limit import RateLimit


def starts(limit: RateLimit, *, for_s: float, every_s: float, since_s: float = 0.0) -> list[float]:
    """When URLs start if there are always some, and one looks for room now and then."""
    found: list[float] = []
    for look in range(math.ceil(for_s / every_s)):
        now_s = since_s + look * every_s
        room = limit.room(now_s)
        limit.started(room, now_s)
        found += [now_s] * room
    return found


def most_within(times: list[float], span_s: float) -> int:
    return max(sum(start <= time < start + span_s for time in times) for start in times)


@pytest.mark.parametrize("per_minute", [1, 30, 60, 600, 6000, 0.5])
@pytest.mark.parametrize("every_s", [0.01, 0.1])
def test_a_rate_is_kept_and_reached(per_minute: float, every_s: float) -> None:
    for_s = max(60.0, 240 / per_minute)
    times = starts(RateLimit(per_minute), for_s=for_s, every_s=every_s)
    expected = per_minute * for_s / 60
    # More by the one at the start, and what is caught up with in a quarter of a second.
    assert expected * 0.99 <= len(times) <= expected + 2 + per_minute / 240


@pytest.mark.parametrize("per_minute", [60, 600, 6000])
def test_there_are_no_bursts_not_even_after_a_time_without_urls(per_minute: float) -> None:
    limit = RateLimit(per_minute)
    times = starts(limit, for_s=10, every_s=0.01)
    times += starts(limit, for_s=10, every_s=0.01, since_s=100)
    assert most_within(times, 1.0) <= per_minute / 60 + 2 + per_minute / 240


def test_it_says_how_long_to_wait() -> None:
    limit = RateLimit(60)
    assert limit.wait_s(100) == 0
    limit.started(1, 100)
    # A quarter of a second of the time before is caught up with.
    assert limit.wait_s(100) == pytest.approx(0.75)
    assert limit.room(100.74) == 0
    assert limit.room(100.76) == 1


def test_a_start_that_was_none_does_not_count() -> None:
    limit = RateLimit(1)
    limit.started(1, 100)
    assert limit.room(101) == 0
    limit.unused()
    assert limit.room(101) == 1


def test_more_that_start_than_there_was_room_for_are_made_up_for() -> None:
    limit = RateLimit(60)
    limit.started(10, 100)
    assert limit.wait_s(100) == pytest.approx(9.75)


def test_zero_is_no_limit() -> None:
    limit = RateLimit(0)
    limit.started(10**6, 100)
    limit.unused()
    assert limit.room(100) == sys.maxsize
    assert limit.wait_s(100) == 0
