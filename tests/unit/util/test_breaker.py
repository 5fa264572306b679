"""The breaker opens at half of the recent tries, and waits longer each time."""

import pytest

from crawler.util.breaker import CLOSED, HALF_OPEN, OPEN, Breaker


def after(tries: str) -> Breaker:
    """`+` worked, `-` failed, `.` the wait is over."""
    circuit = Breaker()
    steps = {"+": circuit.worked, "-": circuit.failed, ".": circuit.try_again}
    for each in tries:
        steps[each]()
    return circuit


@pytest.mark.parametrize(
    ("tries", "state"),
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
def test_states(tries: str, state: str) -> None:
    assert after(tries).state == state


def test_waits_double_up_to_a_limit_and_start_again() -> None:
    circuit = Breaker(wait_min_s=1.0, wait_max_s=5.0)
    assert [circuit.failed() for _ in range(5)] == [1, 2, 4, 5, 5]
    circuit.worked()
    assert circuit.failed() == 1
    for _ in range(5000):
        assert circuit.failed() <= 5
