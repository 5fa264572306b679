"""Delays grow with each failure, up to a limit, and chance spreads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.util.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "delay_s"),
    [(0, 300), (1, 300), (2, 600), (3, 1200), (9, 76_800), (10, 86_400), (10_000, 86_400)],
)
def test_delays_double_up_to_the_maximum(failures: int, delay_s: float) -> None:
    assert Backoff(300, 86_400).delay_s(failures) == delay_s


def test_delays_may_grow_by_another_factor_or_not_at_all() -> None:
    assert [Backoff(1, 100, factor=3).delay_s(failures) for failures in (1, 2, 3)] == [1, 3, 9]
    assert Backoff(1, 1).delay_s(9) == 1


def test_jitter_lengthens_or_shortens_a_delay() -> None:
    assert Backoff(10, 100, jitter=0.1).delay_s(2, 0.5) == 21
    assert Backoff(10, 100, jitter=-0.5).delay_s(2, 0.5) == 15


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_delay_never_exceeds_its_limit(failures: int, chance: float) -> None:
    assert 0.1 <= Backoff(0.1, 5.0, jitter=1.0).delay_s(failures, chance) <= 10.0
