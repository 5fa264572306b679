"""Weighted queues take turns: by weight, evenly, none starved."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.tuning import turns, type_turns

WEIGHTS = (40, 30, 20, 7, 3)


def test_each_queue_has_as_many_turns_as_its_weight() -> None:
    order = turns(WEIGHTS)
    assert [order.count(str(queue)) for queue in range(1, 6)] == list(WEIGHTS)


def test_equal_weights_alternate() -> None:
    assert turns((1, 1, 1)) == "123"


def test_a_heavy_queue_does_not_take_its_turns_in_a_row() -> None:
    assert turns((5, 1, 1)) == "1121311"


def test_a_weight_of_zero_gets_no_turn() -> None:
    assert "2" not in turns((3, 0, 1))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any))
def test_no_queue_waits_longer_than_its_share_allows(weights: list[int]) -> None:
    order, total = turns(weights), sum(weights)
    for queue, weight in enumerate(weights, start=1):
        assert order.count(str(queue)) == weight
        for turn in range(1, total + 1):
            # Smooth: after any number of turns each queue is near its share of them. Several
            # queues may fall due together, so the last of them waits for the others.
            assert abs(order[:turn].count(str(queue)) - turn * weight / total) < len(weights)


def test_pages_have_the_turns_that_types_leave() -> None:
    order = type_turns([0.2, 0.1])
    assert Counter(order) == {"1": 70, "6": 20, "7": 10}
    # Evenly.
    assert {order[start : start + 10].count("6") for start in range(0, 100, 10)} == {2}
    assert set(type_turns([0.0, 0.0])) == {"1"}
    # A small share is not none.
    assert Counter(type_turns([0.001, 0.0])) == {"1": 99, "6": 1}


@pytest.mark.parametrize("weights", [(), (0,), (0, 0), (-1, 2), (1,) * 10])
def test_senseless_weights_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="give 1 to 9 numbers"):
        turns(weights)
