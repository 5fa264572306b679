"""How long a host rests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.policy.politeness import Fetch, Politeness

RULES = Politeness(factor=5.0, min_s=1.0, max_s=60.0)


@pytest.mark.parametrize(
    ("fetch", "crawl_delay_s", "rest_ms"),
    [
        (Fetch(0.01, 200), 0.0, 1_000),  # the minimum
        (Fetch(0.5, 200), 0.0, 2_500),  # five times the fetch
        (Fetch(100.0, 200), 0.0, 60_000),  # the maximum
        (Fetch(0.5, 200), 10.0, 10_000),  # the crawl-delay, if that is longer
        (Fetch(0.5, 200), 2.0, 2_500),
        (Fetch(100.0, 200), 90.0, 90_000),  # the maximum is ours, not the host's
        (Fetch(0.01, 404), 0.0, 1_000),
        (Fetch(0.01, 500), 0.0, 2_000),  # a fast error says nothing about what it can bear
        (Fetch(0.01, None), 0.0, 2_000),
        (Fetch(0.01, 503), 0.0, 60_000),
        (Fetch(0.01, 429), 0.0, 60_000),
        (Fetch(0.01, 429, retry_after_s=7), 0.0, 7_000),
        (Fetch(0.01, 503, retry_after_s=0), 0.0, 2_000),
        (Fetch(0.01, 503, retry_after_s=700), 0.0, 700_000),
        (Fetch(0.01, 429, retry_after_s=7), 30.0, 30_000),  # whichever asks for more
        (Fetch(0.01, 200, retry_after_s=700), 0.0, 1_000),  # only an overload has a say
    ],
)
def test_the_longest_wish_wins(fetch: Fetch, crawl_delay_s: float, rest_ms: int) -> None:
    assert RULES.rest_ms(fetch, crawl_delay_s=crawl_delay_s) == rest_ms


@given(
    st.floats(0, 1e6),
    st.one_of(st.none(), st.integers(100, 599)),
    st.one_of(st.none(), st.floats(0, 86_400)),
    st.floats(0, 1e6),
)
def test_a_host_always_rests_at_least_the_minimum_and_its_crawl_delay(
    duration_s: float, status: int | None, retry_after_s: float | None, crawl_delay_s: float
) -> None:
    rest_ms = RULES.rest_ms(Fetch(duration_s, status, retry_after_s), crawl_delay_s=crawl_delay_s)
    assert rest_ms >= 1_000
    assert rest_ms >= round(crawl_delay_s * 1000)
