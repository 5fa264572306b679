"""The measure of main texts."""

import pytest

from benchmarks.main_text import score_of

TRUTH = "one two three four five six seven eight"


@pytest.mark.parametrize(
    ("text", "precision", "recall"),
    [
        (TRUTH, 1, 1),
        (TRUTH.replace(" ", ",\n"), 1, 1),
        ("", 0, 0),
        ("other words than these are", 0, 0),
        (f"{TRUTH} {TRUTH}", 5 / 13, 1),
        ("one two three four", 1, 1 / 5),
    ],
)
def test_texts_are_compared_by_runs_of_four_words(
    text: str, precision: float, recall: float
) -> None:
    found = score_of([text], [TRUTH])
    assert (found.precision, found.recall) == pytest.approx((precision, recall))


def test_f1_is_that_of_the_means() -> None:
    found = score_of([TRUTH, ""], [TRUTH, TRUTH])
    assert found == pytest.approx((0.5, 0.5, 0.5))
