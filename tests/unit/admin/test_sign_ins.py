"""How many wrong tokens an address may send."""

import tracemalloc

import pytest

from crawler.admin.sign_ins import INTERVAL_S, WRONG_MAX, SignIns

ADDRESS = "192.0.2.7"


def test_ten_wrong_tokens_are_free_and_then_one_every_six_seconds() -> None:
    sign_ins, now_s = SignIns(), 1000.0
    for _ in range(WRONG_MAX):
        assert sign_ins.wait_s(ADDRESS, None, now_s) == 0
        sign_ins.failed(ADDRESS, now_s)
    assert sign_ins.wait_s(ADDRESS, None, now_s) == INTERVAL_S
    assert sign_ins.wait_s(ADDRESS, None, now_s + INTERVAL_S) == 0
    sign_ins.failed(ADDRESS, now_s + INTERVAL_S)
    assert sign_ins.wait_s(ADDRESS, None, now_s + INTERVAL_S) == INTERVAL_S
    # After a minute it may begin anew.
    assert sign_ins.wait_s(ADDRESS, None, now_s + (WRONG_MAX + 1) * INTERVAL_S) == 0


def test_a_token_that_was_right_from_there_stays_right_and_no_other() -> None:
    sign_ins = SignIns()
    sign_ins.passed(ADDRESS, "ops")
    for _ in range(WRONG_MAX):
        sign_ins.failed(ADDRESS, 0.0)
    assert sign_ins.wait_s(ADDRESS, "ops", 0.0) == 0
    assert sign_ins.wait_s(ADDRESS, "grafana", 0.0) > 0
    assert sign_ins.wait_s("192.0.2.8", "grafana", 0.0) == 0


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.7", ADDRESS, True),
        ("unknown", "unknown", True),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(one: str, other: str, *, is_same: bool) -> None:
    sign_ins = SignIns()
    for _ in range(WRONG_MAX):
        sign_ins.failed(one, 0.0)
    assert (sign_ins.wait_s(other, None, 0.0) > 0) == is_same


def test_the_memory_of_addresses_is_bounded() -> None:
    sign_ins = SignIns()
    tracemalloc.start()
    try:
        for number in range(12_000):
            sign_ins.failed(f"10.0.{number >> 8}.{number & 255}", 0.0)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used < 2 * 1024 * 1024
