"""The breaker: when attempts stop, who probes, and when they go on."""

import pytest

from crawler.util.backoff import Backoff
from crawler.util.breaker import CLOSED, HALF_OPEN, OPEN, Breaker

EVERY_SECOND = Backoff(1.0, 1.0)


def after(attempts: str) -> Breaker:
    """`+` worked, `-` failed, `.` the delay is over."""
    breaker = Breaker(2, among=4, backoff=Backoff(0.0, 0.0))
    for each in attempts:
        if each == "+":
            breaker.worked()
        elif each == "-":
            breaker.failed(0.0)
        else:
            breaker.enter(0.0)
    return breaker


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ("", CLOSED),
        ("+++++", CLOSED),
        ("-", CLOSED),
        ("+++-", CLOSED),
        ("++-.-", OPEN),
        ("--", OPEN),
        ("-+-", OPEN),
        ("-++-", OPEN),
        ("-+++-", CLOSED),
        ("--.", HALF_OPEN),
        ("--.-", OPEN),
        ("--.-.", HALF_OPEN),
        ("--.+", CLOSED),
        # What was before an outage does not count after it.
        ("----.+-", CLOSED),
        ("+.", CLOSED),
    ],
)
def test_it_opens_after_failures_among_the_recent_attempts(attempts: str, state: str) -> None:
    assert after(attempts).state == state


def test_delays_grow_with_failures_in_a_row_and_start_again() -> None:
    breaker = Breaker(2, backoff=Backoff(1.0, 5.0))
    delays = []
    for _ in range(5):
        breaker.failed(10.0)
        delays.append(breaker.retry_at - 10.0)
    assert delays == [1, 2, 4, 5, 5]
    breaker.worked()
    breaker.failed(20.0)
    assert breaker.retry_at == 21.0


def failed(breaker: Breaker, *times: float) -> list[bool]:
    return [breaker.failed(now) for now in times]


def test_failures_in_a_row_open_it_once() -> None:
    breaker = Breaker(3, within_s=10, backoff=EVERY_SECOND)
    assert failed(breaker, 1, 2) == [False, False]
    assert breaker.enter(2.5)
    assert failed(breaker, 3, 4) == [True, False]
    assert not breaker.enter(4.5)


def test_a_success_between_failures_keeps_it_closed() -> None:
    breaker = Breaker(3, backoff=EVERY_SECOND)
    failed(breaker, 1, 2)
    assert not breaker.worked()
    assert failed(breaker, 3, 4) == [False, False]
    assert breaker.enter(4)
    assert breaker.enter(4)


def test_failures_far_apart_do_not_open_it() -> None:
    breaker = Breaker(3, within_s=10, backoff=EVERY_SECOND)
    assert not any(failed(breaker, 0, 6, 12, 18, 24))


def test_while_it_is_open_one_attempt_at_a_time_is_the_probe() -> None:
    breaker = Breaker(1, backoff=EVERY_SECOND)
    breaker.failed(0)
    assert not breaker.enter(0.5)
    assert breaker.enter(1)
    assert not breaker.enter(1.5)
    breaker.failed(2)
    assert not breaker.enter(2.5)
    assert breaker.enter(3)
    breaker.left()
    assert breaker.enter(3)
    assert breaker.worked()
    assert breaker.enter(3)
    assert breaker.enter(3)
