"""How numbers are written."""

import pytest

from crawler.util.format import about, by_reason, duration, plural, rate, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1:00"), (187, "3:07"), (7387, "2:03:07")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59, "59 s"), (60, "1 min"), (82_800, "23 h"), (1_036_800, "12 d")],
)
def test_durations_in_their_largest_unit(seconds: float, text: str) -> None:
    assert about(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.04, "0.0"), (9.87, "9.9"), (10.4, "10"), (1234.5, "1,234")]
)
def test_rates(value: float | None, text: str) -> None:
    assert rate(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_500, "1.5 kB"),
        (250_000_000, "250 MB"),
        (5 * 10**15, "5,000.0 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_reasons_beyond_five_are_left_out() -> None:
    text = by_reason({f"reason_{number}": 9 - number for number in range(7)})
    assert text.startswith("42 (reason_0 9, ")
    assert text.endswith("reason_4 5, …)")
    assert by_reason({}) == "0"


def test_one_is_singular() -> None:
    assert (plural(1, "page"), plural(1_000, "page")) == ("1 page", "1,000 pages")
