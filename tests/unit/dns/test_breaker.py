"""The breaker: when attempts stop, and when they go on."""

from crawler.dns.breaker import DnsBreaker


def failed(breaker: DnsBreaker, *times: float) -> list[bool]:
    return [breaker.failed(now) for now in times]


def test_failures_in_a_row_open_it_once() -> None:
    breaker = DnsBreaker(3, within_s=10)
    assert failed(breaker, 1, 2) == [False, False]
    assert breaker.enter(2.5)
    assert failed(breaker, 3, 4) == [True, False]
    assert not breaker.enter(4.5)


def test_a_success_between_failures_keeps_it_closed() -> None:
    breaker = DnsBreaker(3)
    failed(breaker, 1, 2)
    assert not breaker.worked()
    assert failed(breaker, 3, 4) == [False, False]
    assert breaker.enter(4)
    assert breaker.enter(4)


def test_failures_far_apart_do_not_open_it() -> None:
    breaker = DnsBreaker(3, within_s=10)
    assert not any(failed(breaker, 0, 6, 12, 18, 24))


def test_while_it_is_open_one_attempt_at_a_time_finds_out() -> None:
    breaker = DnsBreaker(1, probe_gap_s=1)
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
