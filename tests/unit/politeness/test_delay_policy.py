"""The delay of a host after a fetch."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.politeness.host_delays import Delay, DelayPolicy, Fetch, HostRecord, usual_s

POLICY = DelayPolicy(
    factor=5.0,
    min_s=1.0,
    max_s=60.0,
    overload_s=60.0,
    breaker_failures=3,
    breaker_s=100.0,
)


@pytest.mark.parametrize(
    ("fetch", "host", "delay"),
    [
        (Fetch(0.01, 200), HostRecord(0.01), Delay(1_000, "minimum")),
        (Fetch(0.5, 200), HostRecord(0.5), Delay(2_500, "adaptive")),
        (Fetch(100.0, 200), HostRecord(100.0), Delay(60_000, "adaptive")),
        (Fetch(0.5, 200), HostRecord(0.5, crawl_delay_s=10), Delay(10_000, "crawl_delay")),
        (Fetch(0.5, 200), HostRecord(0.5, crawl_delay_s=2), Delay(2_500, "adaptive")),
        # The maximum is ours, not the host's.
        (Fetch(100.0, 200), HostRecord(100.0, crawl_delay_s=90), Delay(90_000, "crawl_delay")),
        (Fetch(0.01, 404), HostRecord(0.01), Delay(1_000, "minimum")),
        # A fast error says nothing about what the host can bear.
        (Fetch(0.01, 500), HostRecord(0.01), Delay(2_000, "minimum")),
        (Fetch(0.01, None), HostRecord(0.01), Delay(2_000, "minimum")),
        (Fetch(0.01, 521), HostRecord(0.01), Delay(2_000, "minimum")),
        # A proxy that waited for the host in vain took its time.
        (Fetch(20.0, 522), HostRecord(20.0), Delay(60_000, "adaptive")),
        (Fetch(0.01, 503), HostRecord(0.01), Delay(60_000, "overload")),
        (Fetch(0.01, 429), HostRecord(0.01), Delay(60_000, "overload")),
        (Fetch(0.01, 429), HostRecord(0.01, overloads=2), Delay(120_000, "overload")),
        (Fetch(0.01, 429), HostRecord(0.01, overloads=5), Delay(960_000, "overload")),
        (Fetch(0.01, 429), HostRecord(0.01, overloads=99), Delay(86_400_000, "overload")),
        (Fetch(0.01, 429, retry_after_s=7), HostRecord(0.01), Delay(7_000, "retry_after")),
        (
            Fetch(0.01, 429, retry_after_s=7),
            HostRecord(0.01, overloads=9),
            Delay(7_000, "retry_after"),
        ),
        (Fetch(0.01, 503, retry_after_s=0), HostRecord(0.01), Delay(2_000, "minimum")),
        (Fetch(0.01, 503, retry_after_s=700), HostRecord(0.01), Delay(700_000, "retry_after")),
        # Whichever asks for more.
        (
            Fetch(0.01, 429, retry_after_s=7),
            HostRecord(0.01, crawl_delay_s=30),
            Delay(30_000, "crawl_delay"),
        ),
        # Only an overload has a say.
        (Fetch(0.01, 200, retry_after_s=700), HostRecord(0.01), Delay(1_000, "minimum")),
        # A delay that people gave replaces ours, and not the host's own wishes.
        (Fetch(3.0, 200), HostRecord(3.0, delay_s=0.2), Delay(200, "host_rule")),
        (Fetch(3.0, 200), HostRecord(3.0, delay_s=8), Delay(8_000, "host_rule")),
        (Fetch(3.0, 200), HostRecord(3.0, delay_s=0, crawl_delay_s=4), Delay(4_000, "crawl_delay")),
        # Six a minute: ten seconds from start to start.
        (Fetch(2.0, 200), HostRecord(0.01, spacing_s=10), Delay(8_000, "rate")),
        (Fetch(12.0, 200), HostRecord(0.01, spacing_s=10), Delay(1_000, "minimum")),
        # A host that does not answer is left alone after some failures, longer after each probe.
        (Fetch(0.01, None), HostRecord(0.01, failures=2), Delay(2_000, "minimum")),
        (Fetch(0.01, None), HostRecord(0.01, failures=3), Delay(100_000, "breaker")),
        (Fetch(0.01, None), HostRecord(0.01, failures=4), Delay(200_000, "breaker")),
        (Fetch(0.01, None), HostRecord(0.01, failures=6), Delay(800_000, "breaker")),
        (Fetch(0.01, None), HostRecord(0.01, failures=999), Delay(86_400_000, "breaker")),
    ],
)
def test_the_longest_delay_wins(fetch: Fetch, host: HostRecord, delay: Delay) -> None:
    assert POLICY.delay(fetch, host) == delay


def test_chance_spreads_what_the_host_did_not_ask_for() -> None:
    assert POLICY.delay(Fetch(0.1, 503), HostRecord(0.1), chance=0.5).ms == 63_000
    assert POLICY.delay(Fetch(0.1, None), HostRecord(0.1, failures=3), chance=0.5).ms == 105_000
    assert POLICY.delay(Fetch(0.1, 503, 100), HostRecord(0.1), chance=0.5).ms == 100_000


@given(
    st.floats(0, 1e6),
    st.one_of(st.none(), st.integers(100, 599)),
    st.one_of(st.none(), st.floats(0, 86_400)),
    st.floats(0, 1e6),
    st.integers(1, 1000),
)
def test_a_delay_is_at_least_the_minimum_and_the_crawl_delay(
    duration_s: float,
    status: int | None,
    retry_after_s: float | None,
    crawl_delay_s: float,
    overloads: int,
) -> None:
    fetch = Fetch(duration_s, status, retry_after_s)
    host = HostRecord(duration_s, crawl_delay_s=crawl_delay_s, overloads=overloads)
    delay = POLICY.delay(fetch, host)
    assert delay.ms >= 1_000
    assert delay.ms >= round(crawl_delay_s * 1000)


def test_the_usual_time_follows_a_host_that_gets_slower_sooner_than_one_that_gets_faster() -> None:
    assert usual_s(None, Fetch(3.0, 200)) == 3.0
    assert usual_s(1.0, Fetch(3.0, 200)) == 2.0
    assert usual_s(3.0, Fetch(1.0, 200)) == 2.5


@pytest.mark.parametrize("status", [None, 404, 429, 500, 503])
def test_an_error_never_shortens_the_usual_time(status: int | None) -> None:
    assert usual_s(3.0, Fetch(0.01, status)) == 3.0
    assert usual_s(3.0, Fetch(9.0, status)) == 6.0


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from([200, 500, None])), min_size=1))
def test_the_usual_time_lies_between_the_fastest_and_the_slowest(
    fetches: list[tuple[float, int | None]],
) -> None:
    usual: float | None = None
    for duration_s, status in fetches:
        usual = usual_s(usual, Fetch(duration_s, status))
    assert usual is not None
    durations = [duration_s for duration_s, _ in fetches]
    assert min(durations) - 1e-9 <= usual <= max(durations) + 1e-9


def test_a_breaker_is_open_after_failures_in_a_row_or_never() -> None:
    assert [POLICY.is_broken(failures) for failures in range(5)] == [False] * 3 + [True] * 2
    never = replace(POLICY, breaker_failures=0)
    assert not never.is_broken(1000)
    assert never.delay(Fetch(0.1, None), HostRecord(0.1, failures=1000)).cause == "minimum"


def test_a_base_longer_than_the_maximum_is_kept() -> None:
    found = replace(POLICY, overload_s=100_000.0).delay(
        Fetch(0.1, 429), HostRecord(0.1, overloads=9)
    )
    assert found == Delay(100_000_000, "overload")
