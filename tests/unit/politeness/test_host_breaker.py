"""Hosts that do not answer are left alone, and tried by one fetch at a time."""

import pytest

from crawler.politeness.delay import HostBreaker

BREAKER = HostBreaker(failures=3, rest_s=60.0, max_s=1000.0)


@pytest.mark.parametrize(
    ("failures", "rest_s"),
    [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 60),
        (4, 120),
        (5, 240),
        (6, 480),
        (7, 960),
        (8, 1000),
        (999, 1000),
    ],
)
def test_it_opens_after_failures_in_a_row_and_for_longer_after_each_probe(
    failures: int, rest_s: float
) -> None:
    assert BREAKER.rest_after_s(failures) == rest_s
    assert BREAKER.is_open(failures) is (rest_s > 0)


def test_it_may_be_switched_off() -> None:
    assert HostBreaker(failures=0).rest_after_s(1000) == 0.0
