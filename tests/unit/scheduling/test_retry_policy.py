"""How often and how late a failed fetch is repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.scheduling.outcome import Bury, Retry, RetryPolicy

POLICY = RetryPolicy(times=3, base_s=30.0, max_s=100.0, jitter=0.1)


@pytest.mark.parametrize(
    ("attempts", "delay_ms"),
    [(0, 30_000), (1, 60_000), (2, 100_000)],
)
def test_delays_double_up_to_the_maximum(attempts: int, delay_ms: int) -> None:
    assert POLICY.decide("timeout", attempts, chance=0.0) == Retry(delay_ms, "timeout")


@pytest.mark.parametrize("attempts", [3, 4, 31])
def test_after_the_last_attempt_the_url_is_buried(attempts: int) -> None:
    assert POLICY.decide("status_503", attempts, chance=0.0) == Bury("status_503")


def test_no_retries_means_buried_at_once() -> None:
    assert RetryPolicy(times=0).decide("refused", 0, chance=0.0) == Bury("refused")


def test_a_retry_after_that_is_longer_is_obeyed() -> None:
    assert POLICY.decide("status_503", 0, chance=0.5, at_least_s=5000) == Retry(
        5_000_000, "status_503"
    )


def test_a_retry_after_that_is_shorter_makes_no_retry_early() -> None:
    assert POLICY.decide("status_503", 0, chance=0.0, at_least_s=1) == Retry(30_000, "status_503")


@given(st.floats(0, 1, exclude_max=True), st.integers(0, 2))
def test_chance_only_ever_lengthens_a_delay(chance: float, attempts: int) -> None:
    least, most = (
        POLICY.decide("x", attempts, chance=0.0),
        POLICY.decide("x", attempts, chance=chance),
    )
    assert isinstance(least, Retry)
    assert isinstance(most, Retry)
    assert least.delay_ms <= most.delay_ms <= least.delay_ms * 1.1 + 1
