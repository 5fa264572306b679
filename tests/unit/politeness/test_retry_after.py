"""The Retry-After header: seconds, dates and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.politeness.host_delays import RETRY_AFTER_MAX_S, retry_after_s

NOW_S = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"", None),
        (b"  ", None),
        (b"0", 0.0),
        (b" 120 ", 120.0),
        (b"86400", 86_400.0),
        (b"86401", 86_400.0),
        (b"9" * 400, 86_400.0),
        (b"-5", None),
        (b"1.5", None),
        (b"soon", None),
        (b"\xb2", None),  # a superscript two is a digit, and no number
        (b"\xff\xfe", None),
        (b"Sun, 09 Sep 2001 01:47:40 GMT", 60.0),
        (b"Sun, 09 Sep 2001 01:46:40 GMT", 0.0),
        (b"Sun, 09 Sep 2000 01:46:40 GMT", 0.0),
        (b"Sun, 09 Sep 2091 01:46:40 GMT", 86_400.0),
        (b"Sunday, 09-Sep-01 01:47:40 GMT", 60.0),
        (b"Sun, 99 Sep 2001 01:47:40 GMT", None),
        (b"Sun, 09 Sep 99999 01:47:40 GMT", None),
    ],
)
def test_a_wait_is_read_as_seconds(value: bytes | None, seconds: float | None) -> None:
    assert retry_after_s(value, now_s=NOW_S) == seconds


@given(st.binary())
def test_any_header_gives_a_wait_within_a_day_or_none(value: bytes) -> None:
    found = retry_after_s(value, now_s=NOW_S)
    assert found is None or 0 <= found <= RETRY_AFTER_MAX_S
